// The frame of the page: navigation, the state of the connection, the theme, and which page an address shows.
import { ApiError, follow, get, post, useSession } from "./api.js";
import { append, h, replace } from "./dom.js";
import job from "./pages/job.js";
import jobs from "./pages/jobs.js";
import nodes from "./pages/nodes.js";
import overview from "./pages/overview.js";
import policies from "./pages/policies.js";
import services from "./pages/services.js";
import users from "./pages/users.js";

const PAGES = [
  [/^\/$/, overview, "overview"], [/^\/jobs$/, jobs, "jobs"], [/^\/jobs\/([^/]+)$/, job, "jobs"],
  [/^\/nodes$/, nodes, "nodes"], [/^\/services(?:\/([^/]+))?$/, services, "services"], [/^\/users$/, users, "users"],
  [/^\/policies$/, policies, "policies"],
];
const NAV = [["/", "overview", "Overview"], ["/jobs", "jobs", "Jobs"], ["/nodes", "nodes", "Nodes"], ["/services", "services", "Services"], ["/users", "users", "Users"], ["/policies", "policies", "Policies"]];

let session = null;
let cleanup = () => {};
let version = 0;
const main = h("main", { id: "main", tabindex: "-1" });
const state = h("span", { class: "state", role: "status" });
const notice = h("div", { class: "notice", role: "alert", hidden: true });
const links = new Map();

function toast(text, kind = "info") {
  const box = h("div", { class: `toast ${kind}`, role: "status" }, text);
  document.body.append(box);
  setTimeout(() => box.remove(), 6000);
}

function setState(open) {
  state.classList.toggle("off", !open);
  replace(state, h("i", {}), open ? "live" : "reconnecting…");
}

function showCounts(message) {
  const paused = Object.entries(message.counts?.paused_for ?? {});
  if (message.error) replace(notice, h("b", {}, "No scheduler answers. "), message.error, ". The page shows the last known state.");
  else if (paused.length) replace(notice, h("b", {}, "No new jobs start: "), paused.map(([why, detail]) => `${why}${detail ? ` (${detail})` : ""}`).join(", "));
  notice.hidden = !message.error && !paused.length;
}

function context() {
  let stops = [];
  const mine = ++version;
  return {
    session,
    toast,
    navigate,
    isCurrent: () => mine === version,
    // Follows topics, and calls `reload` when the page must start over.
    stream(topics, handlers, reload) {
      if (mine !== version) return;
      const count = (message) => { showCounts(message); handlers.counts?.(message); };
      let opened = false;
      stops.push(follow(topics, { ...handlers, counts: count, reset: () => reload?.() }, (open) => {
        setState(open);
        if (open && opened) reload?.();
        opened ||= open;
      }));
    },
    every(seconds, work) {
      if (mine !== version) return;
      const timer = setInterval(() => { if (!document.hidden) work(); }, seconds * 1000);
      stops.push(() => clearInterval(timer));
    },
    leave() { for (const stop of stops) stop(); stops = []; },
  };
}

function failure(error) {
  return h("div", { class: "panel problem-box", role: "alert" }, h("h2", {}, error instanceof ApiError ? error.message : "This page failed."),
    h("p", { class: "muted" }, error instanceof ApiError ? error.hint : String(error)),
    h("button", { onclick: () => show() }, "Try again"));
}

async function show() {
  cleanup();
  const found = PAGES.map(([pattern, page, name]) => [location.pathname.match(pattern), page, name]).find(([match]) => match);
  for (const [name, link] of links) {
    if (found && name === found[2]) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  const here = context();
  cleanup = () => here.leave();
  if (!found) {
    replace(main, h("div", { class: "panel problem-box" }, h("h2", {}, "There is no such page."), h("p", {}, h("a", { href: "/" }, "Overview"))));
    return;
  }
  const [match, page] = found;
  document.title = `${page.title} · Weft`;
  const root = h("div", { class: "page" });
  try {
    await page.mount(root, here, match[1] === undefined ? null : decodeURIComponent(match[1]));
    if (here.isCurrent()) replace(main, root);
  } catch (error) {
    if (here.isCurrent()) replace(main, failure(error));
  }
}

function navigate(address, { replaceEntry = false, quiet = false } = {}) {
  history[replaceEntry ? "replaceState" : "pushState"](null, "", address);
  if (!quiet) { show(); if (!replaceEntry) window.scrollTo(0, 0); }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='/']");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || link.target) return;
  event.preventDefault();
  navigate(link.getAttribute("href"));
});
addEventListener("popstate", () => show());
addEventListener("pageshow", (event) => { if (event.persisted) show(); }); // back from another site: its stream was closed
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, select, textarea") || event.metaKey || event.ctrlKey || event.altKey) return;
  const field = document.querySelector("input[type=search]");
  if (field) { event.preventDefault(); field.focus(); }
});

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("weft-theme", root.dataset.theme); } catch { /* storage is off */ }
}

async function logOut() {
  await post("/logout").catch(() => {});
  location.assign("/login");
}

function frame() {
  const nav = h("nav", { "aria-label": "Pages" }, NAV.map(([address, name, text]) => {
    const link = h("a", { href: address, class: "nav" }, text);
    links.set(name, link);
    return link;
  }));
  setState(false);
  return h("div", { class: "frame" },
    h("header", { class: "side" },
      h("a", { class: "brand", href: "/" }, h("img", { src: "/static/icon.svg", alt: "", width: 26, height: 26 }), h("span", {}, "Weft")),
      nav,
      h("div", { class: "side-foot" },
        h("div", { class: "where", title: `Weft ${session.version}` }, session.scheduler),
        h("div", { class: "who" }, session.user, session.read_only ? h("span", { class: "badge" }, "read-only") : null),
        h("div", { class: "tools" }, state,
          h("button", { class: "icon", "aria-label": "Switch between light and dark", title: "Light or dark", onclick: switchTheme }, "◐"),
          h("button", { class: "icon", "aria-label": "Log out", title: "Log out", onclick: logOut }, "⎋")))),
    h("div", { class: "content" }, notice, main));
}

try {
  session = await get("session");
  useSession(session);
  replace(document.getElementById("app"), frame());
  await show();
} catch (error) {
  append(document.getElementById("app"), failure(error));
}
