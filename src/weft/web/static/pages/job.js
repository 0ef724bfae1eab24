// One job: state, buttons, runs, metrics, why it waits, resources, log.
import { get, jobPath, post } from "../api.js";
import { chart, timeline } from "../charts.js";
import { badge, h, jobLink, meter, panel, replace, table } from "../dom.js";
import { ACTIVE, ENDED, duration, figure, gpuHours, memory, moment, number, percent, plural } from "../format.js";
import { logViewer } from "./log.js";

const FORECAST_MS = 15000;
const KINDS = ["busy", "running", "util", "waiting"];

function buttons(job, page, act) {
  const mine = page.session.role === "admin" || page.session.user === job.user;
  if (page.session.read_only || !mine) return null;
  const button = (verb, text, kind) => h("button", { class: kind, "data-verb": verb, onclick: () => act(verb, text) }, text);
  if (ENDED.includes(job.status)) return button("restart", "Restart", "primary");
  return [
    job.status === "held" ? button("release", "Release") : ACTIVE.includes(job.status) ? null : button("hold", "Hold"),
    button("cancel", "Cancel", "danger"),
  ];
}

function confirmBox(text, detail) {
  return new Promise((resolve) => {
    const box = h("dialog", { class: "dialog", "aria-label": text }, h("h2", {}, text), h("p", { class: "muted" }, detail),
      h("div", { class: "dialog-buttons" }, h("button", { onclick: () => box.close("") }, "Keep it"), h("button", { class: "danger", "data-confirm": "", onclick: () => box.close("yes") }, text)));
    box.addEventListener("close", () => { resolve(box.returnValue === "yes"); box.remove(); });
    document.body.append(box);
    box.showModal();
  });
}

function head(job) {
  const verb = ENDED.includes(job.status) ? "ran for" : ACTIVE.includes(job.status) ? "running for" : "waiting for";
  return [badge(job.status), h("span", { class: "muted" }, [job.user, plural(job.gpus, "GPU"), `${verb} ${duration(job.time_s)}`, job.place].filter(Boolean).join(" · "))];
}

function progressLine(job) {
  const found = job.progress;
  if (!found || found.step === null) return null;
  const part = found.total ? Math.min(found.step / found.total, 1) : null;
  const left = found.eta_s !== null && found.eta_s !== undefined ? `about ${duration(found.eta_s)} left` : "";
  return h("div", { class: "progress-line" }, part === null ? null : meter(part, percent(part)),
    h("span", {}, [part === null ? null : percent(part), `step ${number(found.step)}${found.total ? ` of ${number(found.total)}` : ""}`, left].filter(Boolean).join(" · ")));
}

function metricsPanel(job) {
  const series = Object.entries(job.series ?? {}).filter(([, values]) => values.some((value) => value !== null));
  const last = job.progress?.metrics ?? {};
  const others = Object.entries(last).filter(([name]) => !(name in (job.series ?? {})));
  if (!series.length && !others.length) return null;
  const shown = series.map(([name, values], at) => h("div", { class: "metric" },
    h("div", { class: "metric-head" }, h("span", { class: "metric-name" }, name), h("b", {}, figure(last[name] ?? values[values.length - 1]))),
    chart({ label: `${name} over the run`, height: 120, bottom: null, times: false, ticks: (value) => figure(Number(value.toPrecision(2))), xLabel: (x) => `report ${number(x + 1)}`, series: [{ name, kind: KINDS[at % 4], points: values.map((value, index) => [index, value]) }] }).element));
  return panel("Metrics", h("div", { class: "metrics" }, shown), others.length ? pairs(others.map(([name, value]) => [name, figure(value)])) : null);
}

function pairs(rows) {
  return h("dl", { class: "pairs" }, rows.filter(([, value]) => value !== "" && value !== null && value !== undefined).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

const jobList = (ids) => ids.slice(0, 8).map((each, at) => [at ? ", " : "", jobLink(each)]);

const expected = (p50, p90) => (p50 ? `${moment(p50)} (P50), ${p90 ? moment(p90) : "unknown"} (P90)` : "");

function whyPanel(job, found, outlook) {
  if (!found) return job.why || job.detail || job.last_exit_code ? panel("How it ended", pairs([["reason", job.why], ["detail", job.detail], ["exit code", job.last_exit_code], ["rank", job.failed_rank], ["node", job.failed_node]])) : null;
  const ahead = found.ahead.slice(0, 8).map((each, at) => [at ? ", " : "", jobLink(each.job), ` (${each.user}, ${plural(each.gpus, "GPU")})`]);
  return panel(ACTIVE.includes(job.status) ? "Where it runs" : "Why it waits",
    h("ul", { class: "reasons" }, found.reasons.map((each) => h("li", {}, each.code && each.code !== "None" ? [h("span", { class: "badge" }, each.code), " "] : null, each.text))),
    pairs([
      ["position", found.position ? `${number(found.position)} of ${number(found.waiting)} waiting jobs` : ""],
      ["ahead", ahead.length ? h("span", {}, ahead, found.ahead.length > 8 ? ` and ${number(found.ahead.length - 8)} more` : "") : ""],
      ["unblocks", found.unblock?.jobs?.length ? h("span", {}, "when ", jobList(found.unblock.jobs), " end") : ""],
      ["may start", found.expected_start && !outlook?.start_p50 ? moment(found.expected_start) : ""],
      ["start", expected(outlook?.start_p50, outlook?.start_p90)], ["end", expected(outlook?.end_p50, outlook?.end_p90)],
      ["forecast", outlook?.note ?? ""],
    ]));
}

function runsPanel(job, now) {
  const runs = job.runs ?? [];
  if (!runs.length) return null;
  const rows = [...runs].reverse().map((run) => h("tr", {}, h("td", {}, run.run), h("td", {}, badge(run.ended === null ? "running" : run.outcome)), h("td", { class: "nowrap" }, moment(run.started)),
    h("td", { class: "num nowrap" }, duration((run.ended ?? now) - run.started)), h("td", {}, run.place), h("td", { class: "num" }, run.code ?? ""), h("td", {}, run.why)));
  const columns = ["Run", "Outcome", "Started", "Time", "GPUs", "Code", "Why"].map((label) => ({ label, class: ["Time", "Code"].includes(label) ? "num" : "" }));
  const counts = [job.preemptions ? plural(job.preemptions, "preemption") : "", job.failures ? plural(job.failures, "failure") : ""].filter(Boolean).join(" · ");
  return panel("Runs", { aside: h("span", { class: "muted" }, counts) }, timeline(job, runs, now), table(columns, rows, "Runs"));
}

function aboutPanel(job) {
  const size = Array.isArray(job.memory_mb) ? Math.max(...job.memory_mb) : job.memory_mb;
  return panel("Resources", pairs([
    ["GPUs", `${number(job.gpus)}${size ? `, ${memory(size)} each` : ""}${job.share ? `, share ${job.share}` : ""}`],
    ["GPU memory used", job.measured_mb ? memory(job.measured_mb) : ""],
    ["on", job.place || job.last_place], ["CPUs", job.cpus || ""], ["memory", job.ram_mb ? memory(job.ram_mb) : ""],
    ["GPU hours", gpuHours(job.gpu_seconds)], ["priority", job.priority], ["group", job.group], ["team", job.team],
    ["time limit", job.time_limit_s ? duration(job.time_limit_s) : ""], ["deadline", job.spec?.deadline ? moment(job.spec.deadline) : ""], ["retries", job.retries || ""],
    ["submitted", moment(job.submitted)], ["first start", job.started ? moment(job.started) : ""], ["ended", job.ended ? moment(job.ended) : ""],
    ["checkpoint", job.checkpoint?.path ?? ""], ["after", (job.after ?? []).join(", ")], ["comment", job.comment],
    ["woven with", job.weave ? h("span", {}, jobList(job.weave.partners)) : ""],
    ["parameters", Object.entries(job.params ?? {}).map(([name, value]) => `${name}=${value}`).join(", ")],
  ]), h("div", { class: "code-label muted" }, "Command"), h("pre", { class: "command" }, (job.command ?? []).join(" ")), job.chdir ? h("div", { class: "muted small-text" }, `in ${job.chdir}`) : null);
}

export default {
  title: "Job",
  async mount(root, page, id) {
    let found = await get(jobPath(id)), job = found.job, outlook = null, askedAt = 0;
    document.title = `${job.id} ${job.name} · Weft`;
    const title = h("div", { class: "page-head" }), actions = h("div", { class: "actions" });
    const above = h("div", {}), aside = h("div", { class: "stack" });

    async function act(verb, text) {
      if (verb === "cancel" && !(await confirmBox("Cancel job", `Job ${job.id} ${job.name} ${ACTIVE.includes(job.status) ? "is stopped" : "leaves the queue"}.`))) return;
      try {
        const done = await post(`/api/v1/${jobPath(job.id)}/${verb}`);
        page.toast(verb === "restart" ? `Submitted as job ${done.ids[0]}.` : `${text}: done.`);
        if (verb === "restart" && done.ids[0] && done.ids[0] !== job.id) page.navigate(`/jobs/${encodeURIComponent(done.ids[0])}`);
        else await load();
      } catch (error) {
        page.toast(`${error.message} ${error.hint ?? ""}`, "bad");
      }
    }

    function draw() {
      const now = found.now || Date.now() / 1000;
      replace(title, h("div", { class: "job-title" }, h("h1", {}, h("span", { class: "muted" }, `Job ${job.id} `), job.name || "–"), h("div", { class: "job-state" }, head(job))), actions);
      replace(actions, buttons(job, page, act));
      replace(above, progressLine(job), runsPanel(job, now), metricsPanel(job));
      replace(aside, whyPanel(job, found.explain, outlook), aboutPanel(job));
    }

    // A new forecast takes seconds, so the page does not wait for it.
    async function lookAhead() {
      if (ENDED.includes(job.status) || Date.now() - askedAt < FORECAST_MS) return;
      askedAt = Date.now();
      const next = await get(`${jobPath(job.id)}/forecast`).catch(() => null);
      if (!next || !page.isCurrent()) return;
      outlook = next.forecast;
      draw();
    }

    async function load() {
      const next = await get(jobPath(job.id));
      if (!page.isCurrent()) return;
      [found, job] = [next, next.job];
      draw();
      log.update(job);
      lookAhead();
    }

    draw();
    lookAhead();
    const log = logViewer(page, { ...job });
    root.append(h("nav", { class: "crumbs", "aria-label": "Path" }, h("a", { href: "/jobs" }, "Jobs"), " / ", job.id), title,
      h("div", { class: "job-grid" }, h("div", { class: "stack" }, above, panel("Log", log.element)), aside));
    let stale = false;
    page.stream(["jobs"], { jobs(message) { if (message.reset || message.jobs?.some((each) => each.id === job.id)) stale = true; } }, () => { stale = true; });
    page.every(1, () => { if (stale && !actions.contains(document.activeElement)) { stale = false; load().catch(() => {}); } });
    page.every(5, () => { if (!job.ended) stale = true; });
  },
};
