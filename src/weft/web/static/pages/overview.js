// Overview: totals, GPUs as a heat map, the last hours, jobs that run, and what has happened.
import { get } from "../api.js";
import { chart } from "../charts.js";
import { badge, empty, h, jobLink, panel, replace, stat } from "../dom.js";
import { ACTIVE, duration, memory, moment, number, percent, plural } from "../format.js";

const HOURS = 6;
const keyOf = (gpu) => `${gpu.node}/${gpu.gpu}`;
const measured = (gpu) => gpu.utilisation !== undefined && gpu.utilisation !== null;

export function gpuState(gpu) {
  if (gpu.error || gpu.blocked.some((each) => each.memory_mb === null)) return "blocked";
  return gpu.jobs.length ? "busy" : "idle";
}

export function gpuText(gpu) {
  const parts = [`${gpu.node} GPU ${gpu.gpu}${gpu.model ? ` (${gpu.model})` : ""}`, gpu.jobs.length ? `job ${gpu.jobs.join(", ")}` : "no job"];
  if (measured(gpu)) parts.push(`${Math.round(gpu.utilisation)} % used`);
  if (gpu.memory_mb) parts.push(`${memory(gpu.used_mb ?? gpu.reserved_mb)} of ${memory(gpu.memory_mb)}`);
  for (const block of gpu.blocked) parts.push(`${block.reason} ${block.detail}`.trim());
  if (gpu.error) parts.push(gpu.error);
  return parts.join(" · ");
}

// The value that colours a cell: the utilisation, or the reserved memory where no driver reports it.
export function heat(gpu) {
  if (measured(gpu)) return gpu.utilisation / 100;
  if (!gpu.jobs.length) return 0;
  return gpu.memory_mb && gpu.reserved_mb ? Math.max(0.3, Math.min(1, gpu.reserved_mb / gpu.memory_mb)) : 0.85;
}

function cell(gpu, dense) {
  const text = gpuText(gpu);
  const attributes = { class: `cell ${gpuState(gpu)}`, title: text, "aria-label": text, vars: { "--v": heat(gpu).toFixed(2) } };
  const inner = dense ? null : h("span", {}, gpu.jobs.length > 1 ? `${gpu.jobs[0]}+${gpu.jobs.length - 1}` : gpu.jobs[0] ?? "");
  if (gpu.jobs.length) return h("a", { ...attributes, href: `/jobs/${encodeURIComponent(gpu.jobs[0])}` }, inner);
  return h("span", { ...attributes, role: "img" }, inner);
}

function byNode(gpus) {
  const found = new Map();
  for (const gpu of gpus) {
    if (!found.has(gpu.node)) found.set(gpu.node, []);
    found.get(gpu.node).push(gpu);
  }
  for (const row of found.values()) row.sort((a, b) => a.gpu - b.gpu);
  return found;
}

function heatMap(gpus) {
  const all = [...gpus.values()];
  if (!all.length) return empty("No GPUs.", "weft up --gpus 0,1 declares GPUs where no driver lists them; weft worker adds those of another machine.");
  const rows = byNode(all), dense = all.length > 160;
  const names = [...rows.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return h("div", { class: `heat${dense ? " dense" : ""}` }, names.map((name) => {
    const row = rows.get(name);
    return h("div", { class: "heat-node" },
      h("div", { class: "heat-name" }, h("a", { href: "/nodes" }, name), h("span", { class: "muted" }, `${row.filter((gpu) => gpu.jobs.length).length}/${row.length}`)),
      h("div", { class: "heat-cells" }, row.map((gpu) => cell(gpu, dense))));
  }));
}

function stats(seen) {
  const { counts } = seen;
  const nodes = [...seen.nodeRows.values()], alive = nodes.filter((node) => node.alive && node.state !== "silent").length;
  const reporting = [...seen.gpuRows.values()].filter(measured);
  const mean = reporting.length ? reporting.reduce((sum, gpu) => sum + gpu.utilisation, 0) / reporting.length : null;
  return [
    stat("Running", number(counts.running), counts.policy ? `policy ${counts.policy}` : "", "running"),
    stat("Waiting", number(counts.waiting), `${number(counts.ended)} ended`, "waiting"),
    stat("GPUs in use", `${number(seen.busy)} / ${number(seen.gpus)}`, seen.gpus ? percent(seen.busy / seen.gpus) : ""),
    stat("GPU utilisation", mean === null ? "–" : `${Math.round(mean)} %`, mean === null ? "no driver reports it" : `mean of ${plural(reporting.length, "GPU")}`),
    stat("Nodes", `${number(alive)} / ${number(nodes.length)}`, alive < nodes.length ? "some do not answer" : "all answer", alive < nodes.length ? "warn" : ""),
  ];
}

function runningRow(job, now) {
  const progress = job.progress, done = progress?.total ? percent(Math.min(progress.step / progress.total, 1)) : "";
  return h("li", {}, h("div", { class: "li-main" }, jobLink(job.id), h("span", { class: "name" }, job.name || "–"), badge(job.status)),
    h("div", { class: "li-side muted" }, [job.user, plural(job.gpus, "GPU"), done, duration(job.time_s + Math.max(0, now - job.at))].filter(Boolean).join(" · ")));
}

function eventRow(event) {
  return h("li", {}, h("time", { class: "muted" }, moment(event.at)),
    h("span", {}, event.job ? [jobLink(event.job), " "] : event.node ? h("b", {}, `${event.node} `) : null, event.text));
}

function useSeries(samples) {
  const column = (at) => samples.map((row) => [row[0], row[at]]);
  return [
    { name: "GPUs", kind: "total", points: column(2), step: true, dashed: true },
    { name: "in use", kind: "busy", points: column(1), step: true, area: true },
    { name: "utilisation × GPUs", kind: "util", points: samples.map((row) => [row[0], row[3] === null ? null : (row[3] / 100) * row[2]]) },
  ];
}

function queueSeries(samples) {
  const column = (at) => samples.map((row) => [row[0], row[at]]);
  return [{ name: "waiting", kind: "waiting", points: column(5), step: true, area: true }, { name: "running", kind: "running", points: column(4), step: true }];
}

// The last hours, or less if there is nothing before.
function range(now, samples) {
  return { from: Math.max(now - HOURS * 3600, Math.min(samples[0]?.[0] ?? now, now - 600)), to: now };
}

export default {
  title: "Overview",
  async mount(root, page) {
    const first = await get("overview");
    const jobs = await get("jobs", { state: "running", per_page: 8 });
    const seen = { counts: first.counts, busy: first.busy, gpus: first.gpus, events: first.events };
    seen.gpuRows = new Map(first.gpu_rows.map((gpu) => [keyOf(gpu), gpu]));
    seen.nodeRows = new Map(first.nodes.map((node) => [node.node, node]));
    const top = h("div", { class: "stats" }, stats(seen));
    const map = h("div", {}, heatMap(seen.gpuRows));
    const format = (value) => number(value, 1);
    const use = chart({ label: "GPUs in use over the last hours", format, ...range(first.now, first.samples), series: useSeries(first.samples) });
    const queue = chart({ label: "Jobs that run and wait over the last hours", format, ...range(first.now, first.samples), series: queueSeries(first.samples) });
    const running = h("ul", { class: "list" }), events = h("ul", { class: "list events", tabindex: "0", "aria-label": "Events" });
    const drawRunning = (rows, now) => replace(running, rows.length ? rows.map((job) => runningRow(job, now)) : h("li", {}, empty("No job runs.", "weft submit -- python train.py puts one into the queue.")));
    const drawEvents = () => replace(events, seen.events.length ? seen.events.slice(-30).reverse().map(eventRow) : h("li", {}, empty("Nothing has happened since this page was started.")));
    drawRunning(jobs.jobs, jobs.now);
    drawEvents();
    const key = h("div", { class: "heat-key" }, h("span", { class: "muted" }, "0 %"), h("i", { class: "ramp" }), h("span", { class: "muted" }, "100 %"), h("i", { class: "cell blocked" }), h("span", { class: "muted" }, "unavailable"));
    root.append(h("h1", { class: "sr" }, "Overview"), top, panel("GPUs", { aside: key }, map),
      h("div", { class: "columns" }, panel("GPUs in use, last 6 h", use.element), panel("Jobs, last 6 h", queue.element)),
      h("div", { class: "columns" }, panel("Running", { aside: h("a", { href: "/jobs?state=running" }, "All jobs") }, running), panel("Events", events)));

    let stale = false;
    const reload = async () => {
      const found = await get("overview").catch(() => null);
      if (!found || !page.isCurrent()) return;
      use.update({ ...range(found.now, found.samples), series: useSeries(found.samples) });
      queue.update({ ...range(found.now, found.samples), series: queueSeries(found.samples) });
      seen.gpuRows = new Map(found.gpu_rows.map((gpu) => [keyOf(gpu), gpu]));
      seen.nodeRows = new Map(found.nodes.map((node) => [node.node, node]));
      seen.events = found.events;
      seen.eventsChanged = seen.jobsChanged = stale = true;
    };
    page.stream(["gpus", "jobs", "nodes", "events"], {
      counts(message) { Object.assign(seen, { counts: message.counts, busy: message.busy, gpus: message.gpus }); stale = true; },
      gpus(message) { if (message.reset) reload(); else for (const gpu of message.gpus) seen.gpuRows.set(keyOf(gpu), gpu); stale = true; },
      nodes(message) { for (const node of message.nodes ?? []) seen.nodeRows.set(node.node, node); stale = true; },
      jobs() { seen.jobsChanged = true; },
      events(message) { seen.events = [...seen.events, ...message.events].slice(-100); seen.eventsChanged = true; },
    }, reload);
    page.every(1, () => {
      if (stale) { stale = false; replace(top, stats(seen)); if (!map.contains(document.activeElement)) replace(map, heatMap(seen.gpuRows)); }
      if (seen.eventsChanged) { seen.eventsChanged = false; drawEvents(); }
    });
    page.every(2, async () => {
      if (!seen.jobsChanged) return;
      seen.jobsChanged = false;
      const found = await get("jobs", { state: "running", per_page: 8 }).catch(() => null);
      if (found && page.isCurrent()) drawRunning(found.jobs.filter((job) => ACTIVE.includes(job.status)), found.now);
    });
    page.every(15, reload);
  },
};
