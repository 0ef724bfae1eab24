// Nodes and their GPUs.
import { get } from "../api.js";
import { badge, empty, h, jobLink, meter, replace, table } from "../dom.js";
import { memory, number, percent, plural } from "../format.js";
import { byNode, gpuState, gpuText, heat } from "./overview.js";

const MAX_NODES = 200;
const COLUMNS = [{ label: "GPU" }, { label: "Model", class: "hide-s" }, { label: "Jobs" }, { label: "Used", class: "num" }, { label: "Memory" }];

function gpuRow(gpu) {
  const used = gpu.used_mb ?? gpu.reserved_mb, text = `${memory(used)} / ${memory(gpu.memory_mb)}`;
  return h("tr", { title: gpuText(gpu) }, h("td", { class: "nowrap" }, h("span", { class: `cell small ${gpuState(gpu)}`, vars: { "--v": heat(gpu).toFixed(2) } }), ` ${gpu.gpu}`), h("td", { class: "hide-s" }, gpu.model || "–"),
    h("td", {}, gpu.jobs.length ? gpu.jobs.map((each, at) => [at ? ", " : "", jobLink(each)]) : h("span", { class: "muted" }, gpu.blocked[0]?.reason ?? "free")),
    h("td", { class: "num" }, gpu.utilisation === undefined || gpu.utilisation === null ? "" : `${Math.round(gpu.utilisation)} %`),
    h("td", { class: "wide" }, gpu.memory_mb ? h("div", { class: "progress" }, meter(used / gpu.memory_mb, text), h("span", { class: "nowrap" }, text)) : ""));
}

function nodePanel(node, gpus) {
  const state = !node.alive ? "lost" : node.closed.length ? "cordoned" : node.state ?? "connected";
  const about = [
    node.cpus ? `${number(node.cpus_used)} of ${plural(node.cpus, "CPU")} reserved` : "", node.ram_mb ? `${memory(node.ram_used_mb)} of ${memory(node.ram_mb)} reserved` : "",
    node.load === undefined || node.load === null ? "" : `load ${node.load}`, plural(node.jobs, "job"), node.version ? `Weft ${node.version}` : "", node.address ?? "",
  ].filter(Boolean).join(" · ");
  const closed = [...node.closed, node.unhealthy].filter(Boolean).join(", ");
  return h("section", { class: "panel" }, h("header", { class: "panel-head" }, h("h2", {}, node.node), badge(state), h("div", { class: "panel-aside muted" }, `${number(node.busy)} of ${plural(node.gpus, "GPU")} in use`)),
    h("p", { class: "muted small-text" }, about), closed ? h("p", { class: "problem" }, `No new jobs start here: ${closed}`) : null,
    Object.keys(node.labels ?? {}).length ? h("p", { class: "labels" }, Object.entries(node.labels).map(([name, value]) => h("span", { class: "badge" }, `${name}=${value}`))) : null,
    gpus.length ? h("div", { class: "compact" }, table(COLUMNS, gpus.map(gpuRow), `GPUs of ${node.node}`)) : null);
}

export default {
  title: "Nodes",
  async mount(root, page) {
    let found = await get("overview"), filter = "", stale = false;
    const total = h("span", { class: "muted" }), body = h("div", { class: "node-grid" });
    function draw() {
      const rows = byNode(found.gpu_rows);
      const nodes = found.nodes.filter((node) => !filter || node.node.toLowerCase().includes(filter) || (rows.get(node.node) ?? []).some((gpu) => gpu.model.toLowerCase().includes(filter)));
      nodes.sort((a, b) => a.node.localeCompare(b.node, "en", { numeric: true }));
      total.textContent = `${plural(found.nodes.length, "node")}, ${plural(found.gpus, "GPU")}, ${percent(found.gpus ? found.busy / found.gpus : 0)} in use`;
      replace(body, nodes.length ? nodes.slice(0, MAX_NODES).map((node) => nodePanel(node, rows.get(node.node) ?? [])) : empty(filter ? "No node matches." : "No nodes.", filter ? "" : "weft worker adds a machine."),
        nodes.length > MAX_NODES ? h("p", { class: "muted" }, `and ${number(nodes.length - MAX_NODES)} more: filter by name`) : null);
    }
    const search = h("input", { type: "search", placeholder: "Node or model  ( / )", "aria-label": "Filter nodes", oninput: (event) => { filter = event.target.value.toLowerCase(); draw(); } });
    draw();
    root.append(h("div", { class: "page-head" }, h("h1", {}, "Nodes and GPUs"), total), h("div", { class: "filters" }, search), body);
    const mark = () => { stale = true; };
    page.stream(["gpus", "nodes"], { gpus: mark, nodes: mark }, mark);
    page.every(2, async () => {
      if (!stale || body.contains(document.activeElement)) return;
      stale = false;
      const next = await get("overview").catch(() => null);
      if (next && page.isCurrent()) { found = next; draw(); }
    });
  },
};
