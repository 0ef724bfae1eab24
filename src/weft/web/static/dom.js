// Elements. Text is only ever set as text: names and logs of jobs may contain anything.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

// Draws a part of the page again, and gives the focus to the element at the place of the one that had it.
export function keepFocus(root, draw) {
  const path = [];
  let at = root.contains(document.activeElement) ? document.activeElement : root;
  for (; at !== root; at = at.parentElement) path.unshift([...at.parentElement.children].indexOf(at));
  draw();
  if (!path.length) return;
  const found = path.reduce((element, index) => element?.children[index], root);
  if (found !== document.activeElement) found?.focus({ preventScroll: true });
}

// Only addresses of this page become links.
export function jobLink(id, text) {
  return h("a", { href: `/jobs/${encodeURIComponent(id)}`, class: "job-link" }, text ?? id);
}

export function badge(status) {
  return h("span", { class: `badge s-${status}` }, status);
}

export function panel(title, ...children) {
  const extra = children.length && children[0]?.aside ? children.shift().aside : null;
  return h("section", { class: "panel" },
    h("header", { class: "panel-head" }, h("h2", {}, title), extra ? h("div", { class: "panel-aside" }, extra) : null),
    children);
}

export function stat(label, value, detail, kind) {
  return h("div", { class: `stat ${kind ?? ""}` },
    h("div", { class: "stat-label" }, label), h("div", { class: "stat-value" }, value),
    h("div", { class: "stat-detail" }, detail ?? "\u00a0"));
}

export function meter(part, label, kind) {
  const percent = Math.max(0, Math.min(1, part || 0)) * 100;
  return h("div", { class: `meter ${kind ?? ""}`, role: "img", "aria-label": label, title: label },
    h("div", { class: "meter-fill", vars: { width: `${percent.toFixed(1)}%` } }));
}

export function empty(text, hint) {
  return h("div", { class: "empty" }, h("p", {}, text), hint ? h("p", { class: "muted" }, hint) : null);
}

export function table(columns, rows, caption) {
  return h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("thead", {}, h("tr", {}, columns.map((each) => h("th", { scope: "col", class: each.class }, each.head ?? each.label)))),
      h("tbody", {}, rows)));
}
