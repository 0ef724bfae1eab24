// Nodes and their GPUs.
import { get } from "../api.js";
import { badge, empty, h, jobLink, keepFocus, meter, replace, table } from "../dom.js";
import { memory, number, percent, plural } from "../format.js";
import { gpuState, gpuText, heat } from "./overview.js";

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
    const nodes = new Map(), gpus = new Map(), panels = new Map(), changed = new Set();
    const total = h("span", { class: "muted" }), body = h("div", { class: "node-grid" });
    let filter = "", stale = false, shown = "";

    function putNodes(rows) {
      for (const node of rows) { nodes.set(node.node, node); changed.add(node.node); }
    }
    function putGpus(rows) {
      for (const gpu of rows) {
        if (!gpus.has(gpu.node)) gpus.set(gpu.node, new Map());
        gpus.get(gpu.node).set(gpu.gpu, gpu);
        changed.add(gpu.node);
      }
    }
    async function load() {
      const found = await get("overview");
      for (const rows of [nodes, gpus, panels]) rows.clear();
      shown = "";
      putNodes(found.nodes);
      putGpus(found.gpu_rows);
    }

    const rowsOf = (node) => [...(gpus.get(node)?.values() ?? [])].sort((a, b) => a.gpu - b.gpu);
    const matches = (node) => !filter || node.node.toLowerCase().includes(filter) || rowsOf(node.node).some((gpu) => gpu.model.toLowerCase().includes(filter));
    function panelOf(node) {
      if (!panels.has(node.node)) panels.set(node.node, nodePanel(node, rowsOf(node.node)));
      return panels.get(node.node);
    }
    function draw() {
      const all = [...gpus.values()].flatMap((rows) => [...rows.values()]), busy = all.filter((gpu) => gpu.jobs.length).length;
      total.textContent = `${plural(nodes.size, "node")}, ${plural(all.length, "GPU")}, ${percent(all.length ? busy / all.length : 0)} in use`;
      const found = [...nodes.values()].filter(matches).sort((a, b) => a.node.localeCompare(b.node, "en", { numeric: true })), first = found.slice(0, MAX_NODES);
      const names = JSON.stringify([filter, found.length, first.map((node) => node.node)]), same = names === shown;
      const old = new Map([...changed].map((name) => [name, panels.get(name)]));
      for (const name of changed) panels.delete(name);
      changed.clear();
      shown = names;
      keepFocus(body, () => {
        if (same) for (const node of first) old.get(node.node)?.replaceWith(panelOf(node));
        else replace(body, first.length ? first.map(panelOf) : empty(filter ? "No node matches." : "No nodes.", filter ? "" : "weft worker adds a machine."),
          found.length > MAX_NODES ? h("p", { class: "muted" }, `and ${number(found.length - MAX_NODES)} more: filter by name`) : null);
      });
    }

    const search = h("input", { type: "search", placeholder: "Node or model  ( / )", "aria-label": "Filter nodes", oninput: (event) => { filter = event.target.value.toLowerCase(); draw(); } });
    await load();
    draw();
    root.append(h("div", { class: "page-head" }, h("h1", {}, "Nodes and GPUs"), total), h("div", { class: "filters" }, search), body);
    const reload = () => { stale = true; };
    page.stream(["gpus", "nodes"], {
      gpus(message) { if (message.reset) reload(); else putGpus(message.gpus); },
      nodes(message) { if (message.reset) reload(); else putNodes(message.nodes); },
    }, reload);
    page.every(1, async () => {
      if (stale) { stale = false; await load().catch(reload); }
      if (page.isCurrent() && changed.size) draw();
    });
  },
};
