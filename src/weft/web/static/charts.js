// Charts in SVG: lines over time, and the runs of a job. They redraw when their box changes its size.
import { h, replace, s } from "./dom.js";
import { duration, figure, minute, moment } from "./format.js";

const LEFT = 44, RIGHT = 10, TOP = 10, BOTTOM = 22;

function niceTop(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((each) => each * size).find((each) => each >= value * 0.999);
}

function timeStep(span) {
  return [60, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400].find((each) => span / each <= 7) ?? 172800;
}

// series: [{name, kind, points: [[x, y]], area, dashed, step}]
export function chart({ series, label, height = 180, top, bottom = 0, format = figure, ticks, from, to, times = true, xLabel = moment }) {
  const box = h("div", { class: "chart", role: "img", "aria-label": label });
  const tip = h("div", { class: "tip", hidden: true });
  const holder = h("div", { class: "chart-holder" }, box, tip);
  const legend = h("div", { class: "legend" }, series.map((each) => h("span", {}, h("i", { class: `key k-${each.kind}${each.dashed ? " dashed" : ""}` }), each.name)));
  let state = { series, from, to };

  function draw() {
    const width = Math.max(box.clientWidth, 160);
    const all = state.series.flatMap((each) => each.points).filter((point) => point[1] !== null && point[1] !== undefined);
    if (!all.length) {
      replace(box, h("div", { class: "chart-empty", vars: { height: `${height}px` } }, "No data yet"));
      return;
    }
    const xs = all.map((point) => point[0]), ys = all.map((point) => point[1]);
    const x0 = state.from ?? Math.min(...xs), x1 = Math.max(state.to ?? Math.max(...xs), x0 + 1e-9);
    let y0 = bottom, y1 = top ?? niceTop(Math.max(...ys));
    if (bottom === null) {
      const low = Math.min(...ys), high = Math.max(...ys), pad = (high - low || Math.abs(high) || 1) * 0.08;
      [y0, y1] = [low < 0 ? low - pad : Math.max(low - pad, 0), high + pad];
    }
    const px = (x) => LEFT + ((x - x0) / (x1 - x0)) * (width - LEFT - RIGHT);
    const py = (y) => height - BOTTOM - ((y - y0) / (y1 - y0 || 1)) * (height - TOP - BOTTOM);
    const parts = [];
    for (let i = 0; i <= 4; i += 1) {
      const value = y0 + ((y1 - y0) * i) / 4, y = py(value);
      parts.push(s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
      if (i % 2 === 0) parts.push(s("text", { class: "tick", x: LEFT - 7, y: y + 4, "text-anchor": "end" }, (ticks ?? format)(value)));
    }
    if (times) {
      const step = timeStep(x1 - x0), offset = new Date().getTimezoneOffset() * 60;
      for (let t = Math.ceil((x0 - offset) / step) * step + offset; t <= x1; t += step) {
        parts.push(s("line", { class: "grid", x1: px(t), x2: px(t), y1: TOP, y2: height - BOTTOM }));
        parts.push(s("text", { class: "tick", x: px(t), y: height - 6, "text-anchor": "middle" }, minute(t)));
      }
    } else {
      parts.push(s("text", { class: "tick", x: LEFT, y: height - 6 }, xLabel(x0)));
      parts.push(s("text", { class: "tick", x: width - RIGHT, y: height - 6, "text-anchor": "end" }, xLabel(x1)));
    }
    for (const each of state.series) parts.push(...line(each, px, py, height - BOTTOM));
    const cursor = s("line", { class: "cursor", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    const picture = s("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, parts, cursor);
    picture.addEventListener("pointermove", (event) => point(event, picture, cursor, px, x0, x1, width));
    picture.addEventListener("pointerleave", () => { tip.hidden = true; cursor.setAttribute("visibility", "hidden"); });
    replace(box, picture);
  }

  function line(each, px, py, base) {
    const pieces = [];
    let piece = [];
    for (const [x, y] of each.points) {
      if (y === null || y === undefined) { if (piece.length) pieces.push(piece); piece = []; } else piece.push([px(x), py(y)]);
    }
    if (piece.length) pieces.push(piece);
    return pieces.flatMap((points) => {
      let path = `M${points[0][0].toFixed(1)},${points[0][1].toFixed(1)}`;
      for (let i = 1; i < points.length; i += 1) {
        const [x, y] = points[i];
        path += each.step ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `L${x.toFixed(1)},${y.toFixed(1)}`;
      }
      const found = [s("path", { class: `line k-${each.kind}${each.dashed ? " dashed" : ""}`, d: path })];
      if (each.area) found.unshift(s("path", { class: `area k-${each.kind}`, d: `${path}V${base}H${points[0][0].toFixed(1)}Z` }));
      if (points.length === 1) found.push(s("circle", { class: `dot k-${each.kind}`, cx: points[0][0], cy: points[0][1], r: 2.5 }));
      return found;
    });
  }

  function point(event, picture, cursor, px, x0, x1, width) {
    const bounds = picture.getBoundingClientRect();
    const x = x0 + ((event.clientX - bounds.left - LEFT) / (width - LEFT - RIGHT)) * (x1 - x0);
    const rows = [];
    let nearest = null;
    for (const each of state.series) {
      let best = null;
      for (const one of each.points) if (one[1] !== null && one[1] !== undefined && (best === null || Math.abs(one[0] - x) < Math.abs(best[0] - x))) best = one;
      if (best) { nearest ??= best[0]; rows.push(h("div", {}, h("i", { class: `key k-${each.kind}` }), `${each.name} `, h("b", {}, format(best[1])))); }
    }
    if (nearest === null) return;
    cursor.setAttribute("x1", px(nearest));
    cursor.setAttribute("x2", px(nearest));
    cursor.setAttribute("visibility", "visible");
    replace(tip, h("div", { class: "tip-head" }, xLabel(nearest)), rows);
    tip.hidden = false;
    const left = px(nearest) + 14;
    tip.style.left = `${Math.min(left, Math.max(0, width - tip.offsetWidth - 4))}px`;
    tip.style.top = "8px";
  }

  new ResizeObserver(draw).observe(box);
  return { element: h("div", { class: "chart-block" }, series.length > 1 ? legend : null, holder), update(next) { state = { ...state, ...next }; draw(); } };
}

// Runs of a job as one lane: when it waited, ran and stopped.
export function timeline(job, runs, now) {
  const start = Date.parse(job.submitted) / 1000;
  const end = job.ended ? Date.parse(job.ended) / 1000 : now;
  const span = Math.max(end - start, 1);
  const part = (at) => `${(((Math.min(Math.max(at, start), end) - start) / span) * 100).toFixed(3)}%`;
  const width = (from, to) => `${((Math.max(to - from, 0) / span) * 100).toFixed(3)}%`;
  const bars = runs.map((run) => {
    const until = run.ended ?? end;
    const kind = run.ended === null || run.ended === undefined ? "running" : run.why === "preempted" || run.outcome === "stopped" || run.outcome === "requeued" ? "preempted" : run.outcome;
    const text = `Run ${run.run}: ${kind}${run.why ? ` (${run.why})` : ""}, ${duration(until - run.started)} on ${run.place || "no GPU"}`;
    return h("div", { class: `bar b-${kind}`, title: text, tabindex: "0", role: "img", "aria-label": text, vars: { left: part(run.started), width: width(run.started, until) } }, h("span", {}, `run ${run.run}`));
  });
  return h("div", { class: "timeline" }, h("div", { class: "lane" }, bars),
    h("div", { class: "axis" }, h("span", {}, moment(start)), h("span", {}, duration(end - start)), h("span", {}, job.ended ? moment(end) : "now")),
    h("div", { class: "legend" }, [["waiting", "waiting"], ["running", "running"], ["done", "done"], ["preempted", "preempted or stopped"], ["failed", "failed"]].map(([kind, name]) => h("span", {}, h("i", { class: `key b-${kind}` }), name))));
}

export function bars(values, label, names) {
  const most = Math.max(...values, 1e-9);
  return h("div", { class: "mini-bars", role: "img", "aria-label": label }, values.map((value, at) => h("i", { title: names(at, value), vars: { height: `${Math.max((value / most) * 100, value > 0 ? 6 : 2).toFixed(0)}%` } })));
}
