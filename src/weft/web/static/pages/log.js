// The log of a run: the last lines, earlier parts on demand, follow, and a search in all of it.
import { get, jobPath } from "../api.js";
import { clean, render } from "../ansi.js";
import { h, replace } from "../dom.js";
import { number, plural } from "../format.js";

const MAX_LINES = 5000;
const PART_BYTES = 256 * 1024;
const bytesOf = (text) => new TextEncoder().encode(text);

export function logViewer(page, job) {
  let run = job.run, rank = 0, first = 0, next = 0, following = !job.ended, rest = "", typing = null;
  const lines = h("div", { class: "log-lines" });
  const box = h("div", { class: "log", tabindex: "0", role: "log", "aria-label": "Output of the job", "aria-live": "off" }, lines);
  const notes = h("div", { class: "log-notes muted" });
  const results = h("div", { class: "log-results", hidden: true });
  const earlier = h("button", { class: "small", hidden: true, onclick: () => loadEarlier() }, "Earlier output");
  const lineAt = (text, at) => Object.assign(line(text), { at, size: bytesOf(text).length + 1 });
  const line = (text) => h("div", { class: "log-line" }, render(text));
  const read = (query) => get(`${jobPath(job.id)}/log`, { run: run || "", rank: rank || "", ...query });
  const none = (text) => { replace(lines, h("div", { class: "muted log-none" }, text)); earlier.hidden = true; };

  // Lines with the position of each in the log; the last one may go on in the next part.
  function linesAt(text, at) {
    return text.split("\n").map((each) => { const made = lineAt(each, at); at += made.size; return made; });
  }

  function setFirst(at) {
    first = at;
    earlier.hidden = first === 0;
  }

  function addText(text, at, keep = MAX_LINES) {
    lines.querySelector(".partial")?.remove();
    const made = linesAt(rest + text, at - bytesOf(rest).length), last = made[made.length - 1];
    rest = (rest + text).slice((rest + text).lastIndexOf("\n") + 1);
    if (rest) last.classList.add("partial"); else made.pop();
    lines.append(...made);
    if (lines.childElementCount <= keep) return;
    while (lines.childElementCount > keep) lines.firstElementChild.remove();
    setFirst(lines.firstElementChild.at);
  }

  async function start() {
    replace(lines);
    replace(notes);
    rest = "";
    first = next = 0;
    drawRanks();
    if (!job.run) { none("The job has not started yet."); return; }
    try {
      const part = await read({ lines: 400 });
      next = part.next;
      setFirst(part.offset);
      addText(part.text, part.offset);
      replace(notes, part.notes.map((each) => h("div", {}, each)));
      if (!part.text) none("No output yet.");
      box.scrollTop = box.scrollHeight;
    } catch (error) {
      none(error.message);
    }
  }

  async function loadEarlier() {
    const from = Math.max(0, first - PART_BYTES);
    earlier.disabled = true; // a second click must not load the same part
    const part = await read({ offset: from, until: first }).catch(() => null);
    earlier.disabled = false;
    if (!part) return;
    if (!part.text) { setFirst(0); return; } // the rest of the log is gone
    const height = box.scrollHeight, made = linesAt(part.text, part.offset);
    if (part.text.endsWith("\n")) made.pop();
    if (part.offset > 0 && made.length > 1) made.shift(); // it begins before this part
    lines.prepend(...made);
    setFirst(made[0].at);
    box.scrollTop += box.scrollHeight - height;
  }

  async function poll() {
    if (!following || !job.run) return;
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 30;
    const part = await read({ offset: next }).catch(() => null);
    if (!part || !part.text || part.offset < next) return;
    if (lines.querySelector(".log-none")) replace(lines);
    next = part.next;
    addText(part.text, part.offset, atEnd ? MAX_LINES : 4 * MAX_LINES);
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
    next = part.next;
    const made = linesAt(part.text, part.offset);
    if (part.offset > 0 && made.length > 1 && made[1].at <= offset) made.shift(); // it begins before this part
    setFirst(made[0].at);
    replace(lines, made);
    const target = made.findLast((each) => each.at <= offset);
    if (target) { target.classList.add("hit"); box.scrollTop = target.offsetTop - box.offsetTop - box.clientHeight / 2; }
  }

  const follow = h("input", { type: "checkbox", checked: following, onchange: (event) => { following = event.target.checked; if (following) start(); } });
  const field = h("input", { type: "search", placeholder: "Search the log", "aria-label": "Search the log", maxlength: 200, oninput: (event) => { clearTimeout(typing); typing = setTimeout(() => search(event.target.value.trim()), 400); } });
  const runField = h("select", { "aria-label": "Run", onchange: (event) => { run = Number(event.target.value); rank = 0; start(); } });
  const drawRuns = (all) => { replace(runField, [...all].reverse().map((each) => h("option", { value: each.run, selected: each.run === run }, `run ${each.run}`))); runField.hidden = all.length < 2; };
  const rankField = h("select", { "aria-label": "Rank", onchange: (event) => { rank = Number(event.target.value); start(); } });
  // The nodes of the run: each has a log.
  function drawRanks() {
    const nodes = (job.runs ?? []).find((each) => each.run === run)?.nodes ?? (run === job.run ? job.last_nodes : []);
    replace(rankField, nodes.map((node, at) => h("option", { value: at, selected: at === rank }, `rank ${at}: ${node}`)));
    rankField.hidden = nodes.length < 2;
  }
  drawRuns(job.runs ?? []);
  page.every(1.5, poll);
  start();
  return {
    element: h("div", {}, h("div", { class: "log-tools" }, runField, rankField, field, h("label", { class: "check" }, follow, " Follow"), earlier), results, notes, box),
    update(now) {
      const another = following && now.run !== job.run;
      Object.assign(job, { run: now.run, ended: now.ended, runs: now.runs, last_nodes: now.last_nodes });
      if (another) { run = now.run; rank = 0; start(); }
      if ((now.runs ?? []).length !== runField.childElementCount) drawRuns(now.runs ?? []);
    },
  };
}
