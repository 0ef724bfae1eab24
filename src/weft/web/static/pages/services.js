// Services: replicas, load, latency and scaling.
import { get } from "../api.js";
import { chart } from "../charts.js";
import { badge, empty, h, jobLink, panel, replace, stat, table } from "../dom.js";
import { moment, number, plural, short } from "../format.js";

const column = (samples, at) => samples.map((row) => [row[0], row[at]]);
const columns = (rows) => rows.map(([label, kind]) => ({ label, class: kind }));

function row(service) {
  const state = service.failing ? "failed" : service.ready >= service.wanted ? "ready" : "starting";
  return h("tr", {}, h("td", {}, h("a", { href: `/services/${encodeURIComponent(service.name)}` }, service.name)), h("td", {}, badge(state)), h("td", { class: "num nowrap" }, `${service.ready} / ${service.wanted}`),
    h("td", { class: "num" }, number(service.rate, 1)), h("td", { class: "num hide-s" }, number(service.in_flight, 1)), h("td", { class: "num hide-s" }, number(service.queued)),
    h("td", { class: "hide-m" }, service.scaler), h("td", { class: "hide-m" }, service.user), h("td", { class: "hide-s" }, service.url));
}

function list(found) {
  if (!found.services.length) return empty("No services.", "weft deploy starts one.");
  const heads = columns([["Service"], ["State"], ["Replicas", "num"], ["Requests/s", "num"], ["In flight", "num hide-s"], ["Queued", "num hide-s"], ["Autoscaler", "hide-m"], ["User", "hide-m"], ["URL", "hide-s"]]);
  return h("section", { class: "panel flush" }, table(heads, found.services.map(row), "Services"));
}

function detail(service, history) {
  const samples = history?.samples ?? [], last = samples[samples.length - 1] ?? [];
  const scalings = [...(history?.scalings ?? [])].reverse().slice(0, 20);
  const count = (value) => number(value, 1);
  const make = (title, series, format) => panel(title, chart({ label: `${title} over time`, series, format, height: 160 }).element);
  const late = service.slo_s && last[7] > service.slo_s;
  return [
    h("div", { class: "stats" }, stat("Replicas", `${service.ready} / ${service.wanted}`, `${service.min_replicas} to ${service.max_replicas}, ${service.scaler}`), stat("Requests/s", count(service.rate), service.capacity ? `a replica serves ${count(service.capacity)}` : ""),
      stat("In flight", count(service.in_flight), `${number(service.queued)} queued`), stat("Median latency", short(last[6])), stat("95 % latency", short(last[7]), service.slo_s ? `target ${short(service.slo_s)}` : "", late ? "warn" : "")),
    service.failing ? h("p", { class: "problem" }, service.failing) : null,
    service.waiting_for ? h("p", { class: "problem" }, `Replicas wait: ${service.waiting_for}${service.held_by ? ` (held by ${service.held_by})` : ""}`) : null,
    h("div", { class: "columns" }, make("Requests per second", [{ name: "requests/s", kind: "busy", points: column(samples, 1), area: true }], count),
      make("Latency", [{ name: "median", kind: "running", points: column(samples, 6) }, { name: "95 %", kind: "waiting", points: column(samples, 7) }], short)),
    h("div", { class: "columns" }, make("Replicas", [{ name: "wanted", kind: "total", points: column(samples, 5), step: true, dashed: true }, { name: "ready", kind: "running", points: column(samples, 4), step: true, area: true }], count),
      panel("Scaling", scalings.length ? h("ul", { class: "list events" }, scalings.map(([at, replicas, why]) => h("li", {}, h("time", { class: "muted" }, moment(at)), h("span", {}, h("b", {}, plural(replicas, "replica")), why ? `: ${why}` : "")))) : empty("Not scaled yet."))),
    h("section", { class: "panel flush" }, table(columns([["Replica"], ["State"], ["Job"], ["Version", "num"], ["GPUs"], ["Address", "hide-s"], ["Since"]]),
      service.replicas.map((each) => h("tr", {}, h("td", {}, each.index), h("td", {}, badge(each.status)), h("td", {}, jobLink(each.job)), h("td", { class: "num" }, each.version), h("td", {}, each.gpus || "–"), h("td", { class: "hide-s" }, each.address || "–"), h("td", { class: "nowrap" }, moment(each.since)))), "Replicas")),
  ];
}

export default {
  title: "Services",
  async mount(root, page, name) {
    let found = await get("services"), stale = false;
    const body = h("div", { class: "stack" });
    function draw() {
      const service = found.services.find((each) => each.name === name);
      if (!name) replace(body, list(found));
      else replace(body, service ? detail(service, found.history[name]) : empty(`No service ${name}.`, "It may have been undeployed."));
    }
    async function load() {
      const next = await get("services").catch(() => null);
      if (next && page.isCurrent()) { found = next; draw(); }
    }
    draw();
    if (name) {
      document.title = `${name} · Weft`;
      root.append(h("nav", { class: "crumbs", "aria-label": "Path" }, h("a", { href: "/services" }, "Services"), " / ", name));
    }
    root.append(h("div", { class: "page-head" }, h("h1", {}, name ?? "Services")), body);
    const mark = () => { stale = true; };
    page.stream(["services"], { services: mark }, mark);
    page.every(2, () => { if (stale) { stale = false; load(); } });
    page.every(10, load);
  },
};
