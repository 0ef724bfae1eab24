// The log of a run: the last lines, earlier parts on demand, follow, and a search in all of it.
import { get, jobPath } from "../api.js";
import { clean, render } from "../ansi.js";
import { h, replace } from "../dom.js";
import { number, plural } from "../format.js";

const MAX_LINES = 5000;
const PART_BYTES = 256 * 1024;
const bytesOf = (text) => new TextEncoder().encode(text);

export function logViewer(page, job, runs) {
  let run = job.run, rank = 0, first = 0, next = 0, following = !job.ended, rest = "", typing = null;
  const lines = h("div", { class: "log-lines" });
  const box = h("div", { class: "log", tabindex: "0", role: "log", "aria-label": "Output of the job", "aria-live": "off" }, lines);
  const notes = h("div", { class: "log-notes muted" });
  const results = h("div", { class: "log-results", hidden: true });
  const earlier = h("button", { class: "small", hidden: true, onclick: () => loadEarlier() }, "Earlier output");
  const line = (text) => h("div", { class: "log-line" }, render(text));
  const read = (query) => get(`${jobPath(job.id)}/log`, { run: run || "", rank: rank || "", ...query });
  const none = (text) => { replace(lines, h("div", { class: "muted log-none" }, text)); earlier.hidden = true; };

  function addText(text) {
    const parts = (rest + text).split("\n");
    rest = parts.pop();
    lines.querySelector(".partial")?.remove();
    lines.append(...parts.map(line));
    if (rest) { const last = line(rest); last.classList.add("partial"); lines.append(last); }
    while (lines.childElementCount > MAX_LINES) { lines.firstElementChild.remove(); earlier.hidden = false; }
  }

  async function start() {
    replace(lines);
    replace(notes);
    rest = "";
    first = next = 0;
    if (!job.run) { none("The job has not started yet."); return; }
    try {
      const part = await read({ lines: 400 });
      [first, next] = [part.offset, part.next];
      addText(part.text);
      replace(notes, part.notes.map((each) => h("div", {}, each)));
      if (!part.text) none("No output yet.");
      earlier.hidden = first === 0;
      box.scrollTop = box.scrollHeight;
    } catch (error) {
      none(error.message);
    }
  }

  async function loadEarlier() {
    const from = Math.max(0, first - PART_BYTES);
    const part = await read({ offset: from }).catch(() => null);
    if (!part) return;
    let text = part.text;
    const bytes = bytesOf(text);
    if (part.offset + bytes.length > first) text = new TextDecoder().decode(bytes.slice(0, Math.max(first - part.offset, 0)));
    if (from > 0) text = text.slice(text.indexOf("\n") + 1);
    const height = box.scrollHeight, parts = text.split("\n");
    if (parts[parts.length - 1] === "") parts.pop();
    lines.prepend(...parts.map(line));
    first = from;
    earlier.hidden = first === 0;
    box.scrollTop += box.scrollHeight - height;
  }

  async function poll() {
    if (!following || !job.run) return;
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 30;
    const part = await read({ offset: next }).catch(() => null);
    if (!part || !part.text || part.offset < next) return;
    if (lines.querySelector(".log-none")) replace(lines);
    next = part.next;
    addText(part.text);
    if (atEnd) box.scrollTop = box.scrollHeight;
  }

  async function search(text) {
    results.hidden = !text;
    if (!text) return;
    replace(results, h("div", { class: "muted" }, "Searching…"));
    try {
      const found = await get(`${jobPath(job.id)}/log/search`, { run: run || "", rank: rank || "", q: text });
      replace(results, h("div", { class: "muted" }, `${plural(found.matches.length, "line")} found in ${number(found.searched / 1024, 1)} KB${found.more ? "; the search stopped there" : ""}`),
        found.matches.map((each) => h("button", { class: "log-match", onclick: () => jump(each.offset) }, h("span", { class: "muted" }, number(each.line)), " ", clean(each.text))));
    } catch (error) {
      replace(results, h("div", { class: "muted" }, error.message));
    }
  }

  async function jump(offset) {
    const part = await read({ offset: Math.max(0, offset - 4096) }).catch(() => null);
    if (!part) return;
    following = follow.checked = false;
    rest = "";
    [first, next] = [part.offset, part.next];
    let at = part.offset, target = null;
    replace(lines, part.text.split("\n").map((each) => {
      const made = line(each);
      if (at <= offset) target = made;
      at += bytesOf(each).length + 1;
      return made;
    }));
    earlier.hidden = first === 0;
    if (target) { target.classList.add("hit"); box.scrollTop = target.offsetTop - box.offsetTop - box.clientHeight / 2; }
  }

  const follow = h("input", { type: "checkbox", checked: following, onchange: (event) => { following = event.target.checked; if (following) start(); } });
  const field = h("input", { type: "search", placeholder: "Search the log", "aria-label": "Search the log", maxlength: 200, oninput: (event) => { clearTimeout(typing); typing = setTimeout(() => search(event.target.value.trim()), 400); } });
  const runField = h("select", { "aria-label": "Run", onchange: (event) => { run = Number(event.target.value); start(); } });
  const drawRuns = (all) => { replace(runField, [...all].reverse().map((each) => h("option", { value: each.run, selected: each.run === run }, `run ${each.run}`))); runField.hidden = all.length < 2; };
  const nodes = new Set((job.last_place || "").split(/[\s;]+/).filter((each) => each.includes(":")).map((each) => each.split(":")[0])).size;
  const rankField = nodes > 1 ? h("select", { "aria-label": "Rank", onchange: (event) => { rank = Number(event.target.value); start(); } }, Array.from({ length: nodes }, (_, at) => h("option", { value: at }, `rank ${at}`))) : null;
  drawRuns(runs);
  page.every(1.5, poll);
  start();
  return {
    element: h("div", {}, h("div", { class: "log-tools" }, runField, rankField, field, h("label", { class: "check" }, follow, " Follow"), earlier), results, notes, box),
    update(now) {
      const another = following && now.run !== job.run;
      Object.assign(job, { run: now.run, ended: now.ended });
      if (another) { run = now.run; start(); }
      if ((now.runs ?? []).length !== runField.childElementCount) drawRuns(now.runs ?? []);
    },
  };
}
