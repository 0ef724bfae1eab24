// Jobs: filtered, sorted and paged on the server. The address holds the filter, so links are stable.
import { get } from "../api.js";
import { badge, empty, h, jobLink, meter, replace, table } from "../dom.js";
import { ACTIVE, duration, moment, number, percent, plural } from "../format.js";

const COLUMNS = [
  ["id", "Job", ""], ["name", "Name", ""], ["user", "User", "hide-s"], ["status", "State", ""], ["gpus", "GPUs", "num hide-s"], ["priority", "Priority", "num hide-m"],
  ["", "Progress", "hide-m"], ["", "Time", "num"], ["submitted", "Submitted", "hide-m"], ["", "Where or why", "hide-s"],
];
const STATES = [["", "All"], ["running", "Running"], ["waiting", "Waiting"], ["done", "Done"], ["failed", "Failed"], ["cancelled", "Cancelled"], ["held", "Held"]];
const DOWN_FIRST = ["id", "submitted", "priority", "gpus"];
const DEFAULTS = { sort: "-id", page: "1" };
const PER_PAGE = 50;

function query() {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(["state", "q", "user", "group", "sort", "page"].map((name) => [name, given.get(name) ?? DEFAULTS[name] ?? ""]));
}

function address(wanted) {
  const text = new URLSearchParams(Object.entries(wanted).filter(([name, value]) => value && String(value) !== DEFAULTS[name])).toString();
  return `/jobs${text ? `?${text}` : ""}`;
}

const timeOf = (job, now) => (job.ended ? job.time_s : job.time_s + Math.max(0, now - job.at));

function progress(job) {
  const found = job.progress;
  if (!found || found.step === null) return "";
  if (!found.total) return `step ${number(found.step)}`;
  const part = Math.min(found.step / found.total, 1);
  return h("div", { class: "progress" }, meter(part, `${number(found.step)} of ${number(found.total)}`), h("span", {}, percent(part)));
}

function row(job, now) {
  const where = ACTIVE.includes(job.status) ? job.place : job.reason;
  return h("tr", {},
    h("td", {}, jobLink(job.id)), h("td", { class: "name", title: job.name }, job.name || "–"), h("td", { class: "hide-s" }, job.user), h("td", {}, badge(job.status)),
    h("td", { class: "num hide-s" }, number(job.gpus)), h("td", { class: "num hide-m" }, job.priority), h("td", { class: "hide-m" }, progress(job)),
    h("td", { class: "num nowrap time" }, duration(timeOf(job, now))), h("td", { class: "nowrap hide-m" }, moment(job.submitted)), h("td", { class: "where-cell hide-s", title: where }, where));
}

export default {
  title: "Jobs",
  async mount(root, page) {
    let wanted = query(), last = null, loadedAt = 0, typing = null;
    const body = h("div", {}), pager = h("div", { class: "pager" }), total = h("span", { class: "muted" }), states = h("div", { class: "tabs", role: "group", "aria-label": "State" });
    const filters = await get("filters").catch(() => ({ users: [], groups: [] }));

    function go(changes) {
      wanted = { ...wanted, page: "1", ...changes };
      page.navigate(address(wanted), { quiet: true });
      drawStates();
      load();
    }

    function drawStates() {
      replace(states, STATES.map(([value, text]) => h("button", { class: "tab", "aria-pressed": String(wanted.state === value), onclick: () => go({ state: value }) }, text)));
    }

    const select = (name, values, label) => h("select", { "aria-label": label, onchange: (event) => go({ [name]: event.target.value }) },
      h("option", { value: "" }, `All ${name}s`), values.map((each) => h("option", { value: each, selected: wanted[name] === each }, each)));
    const search = h("input", { type: "search", placeholder: "Name or id  ( / )", "aria-label": "Search by name or id", maxlength: 200, value: wanted.q, oninput: (event) => { clearTimeout(typing); typing = setTimeout(() => go({ q: event.target.value }), 250); } });

    const header = () => COLUMNS.map(([name, text, kind]) => {
      if (!name) return { label: text, class: kind };
      const on = wanted.sort.replace("-", "") === name, down = wanted.sort.startsWith("-");
      const next = on ? (down ? name : `-${name}`) : DOWN_FIRST.includes(name) ? `-${name}` : name;
      return { class: kind, head: h("button", { class: `sort${on ? " on" : ""}`, "aria-label": `Sort by ${text}`, onclick: () => go({ sort: next }) }, text, h("span", { "aria-hidden": "true" }, on ? (down ? " ↓" : " ↑") : "")) };
    });

    function draw() {
      const pages = Math.max(1, Math.ceil(last.total / last.per_page));
      const now = last.now + (performance.now() - loadedAt) / 1000;
      const filtered = wanted.q || wanted.state || wanted.user || wanted.group;
      total.textContent = plural(last.total, "job");
      replace(body, last.jobs.length ? table(header(), last.jobs.map((job) => row(job, now)), "Jobs") : empty(filtered ? "No job matches." : "No jobs yet.", filtered ? "" : "weft submit -- python train.py puts one into the queue."));
      const step = (to, text, label) => h("button", { disabled: to < 1 || to > pages || to === last.page, "aria-label": label, onclick: () => go({ page: String(to) }) }, text);
      replace(pager, pages > 1 ? [step(1, "«", "First page"), step(last.page - 1, "‹ Previous", "Previous page"), h("span", {}, `Page ${number(last.page)} of ${number(pages)}`), step(last.page + 1, "Next ›", "Next page"), step(pages, "»", "Last page")] : null);
    }

    async function load() {
      try {
        const found = await get("jobs", { ...wanted, per_page: PER_PAGE });
        if (!page.isCurrent()) return;
        [last, loadedAt] = [found, performance.now()];
        draw();
      } catch (error) {
        replace(body, h("div", { class: "problem-box", role: "alert" }, h("h2", {}, error.message), h("p", { class: "muted" }, error.hint)));
      }
    }

    drawStates();
    root.append(h("div", { class: "page-head" }, h("h1", {}, "Jobs"), total), states,
      h("div", { class: "filters" }, search, select("user", filters.users, "User"), filters.groups.length ? select("group", filters.groups, "Group") : null),
      h("section", { class: "panel flush" }, body), pager);
    await load();
    let stale = false;
    const mark = () => { stale = true; };
    page.stream(["jobs"], { jobs: mark }, mark);
    page.every(1.5, () => { if (stale) { stale = false; load(); } });
    page.every(5, () => { if (last?.jobs.some((job) => !job.ended) && !body.contains(document.activeElement)) draw(); });
  },
};
