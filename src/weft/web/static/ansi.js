// Logs as elements: colours of terminals become classes, all other control sequences are removed.
import { h } from "./dom.js";

const CODES = /\u001b\[([0-9;]*)m/g;
const OTHERS = /\u001b(?:\[[0-9;?<=>!]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])|[\u0000-\u0008\u000b\u000c\u000e-\u001a\u001c-\u001f\u007f-\u009f]/g;
const BIDI = /[\u202a-\u202e\u2066-\u2069\u200e\u200f]/g;

function styleOf(codes, style) {
  let next = { ...style };
  for (const code of codes.split(";").map(Number)) {
    if (code === 0) next = {};
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 22) next = { ...next, bold: false, dim: false };
    else if (code >= 30 && code <= 37) next.colour = code - 30;
    else if (code >= 90 && code <= 97) next.colour = code - 90;
    else if (code === 39) delete next.colour;
  }
  return next;
}

const classOf = (style) => [style.bold ? "bold" : "", style.dim ? "dim" : "", style.colour !== undefined ? `c${style.colour}` : ""].join(" ").trim();

// The last state of a line that a progress bar rewrote.
export function visible(line) {
  const parts = line.replace(/\r+$/, "").split("\r");
  return parts[parts.length - 1] || parts[parts.length - 2] || "";
}

export function clean(text) {
  return text.replace(CODES, "").replace(OTHERS, "").replace(/\u001b/g, "").replace(BIDI, "\ufffd");
}

export function render(line) {
  const text = visible(line);
  const found = [];
  let style = {}, at = 0;
  const add = (part) => {
    const shown = clean(part);
    if (shown) found.push(classOf(style) ? h("span", { class: classOf(style) }, shown) : shown);
  };
  for (const match of text.matchAll(CODES)) {
    add(text.slice(at, match.index));
    style = styleOf(match[1], style);
    at = match.index + match[0].length;
  }
  add(text.slice(at));
  return found;
}
