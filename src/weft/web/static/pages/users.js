// Users and teams: what each holds now, waits for, and has used.
import { get } from "../api.js";
import { bars } from "../charts.js";
import { empty, h, meter, replace, table } from "../dom.js";
import { gpuHours, number, percent, plural } from "../format.js";

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const PERIODS = [["day_s", "24 hours"], ["week_s", "7 days"], ["month_s", "30 days"]];
const COLUMNS = [["User"], ["Holds now"], ["Running", "num"], ["Waiting", "num"], ["Waits for", "num hide-s"], ["GPU hours", "num"], ["Share", "num"], ["Last 14 days", "hide-s"]].map(([label, kind]) => ({ label, class: kind }));
const TEAM_COLUMNS = [["Team"], ["Holds now"], ["Guarantee", "num"], ["Borrowed", "num"], ["Running", "num hide-s"], ["Waiting", "num"], ["Members", "hide-s"]].map(([label, kind]) => ({ label, class: kind }));

// A bar of the GPUs that a user or a team holds.
function holding(held, all) {
  const text = `${number(held, 2)} ${held === 1 ? "GPU" : "GPUs"}`;
  return h("td", { class: "wide" }, h("div", { class: "progress" }, meter(all ? held / all : 0, `${text} of ${number(all)}`), h("span", { class: "nowrap" }, text)));
}

function teamRow(each, gpus) {
  return h("tr", {}, h("td", {}, each.team), holding(each.held, each.max ?? gpus),
    h("td", { class: "num" }, number(each.guaranteed)), h("td", { class: "num" }, number(each.borrowed, 2)),
    h("td", { class: "num hide-s" }, number(each.running)), h("td", { class: "num" }, number(each.waiting)), h("td", { class: "hide-s" }, each.members.join(", ")));
}

export default {
  title: "Users",
  async mount(root, page) {
    const getTeams = () => get("teams").then((each) => each.teams).catch(() => null); // the scheduler may be away
    let [found, teams] = await Promise.all([get("users"), getTeams()]), by = "week_s", stale = false;
    const body = h("div", {}), periods = h("div", { class: "tabs", role: "group", "aria-label": "Period" }), total = h("span", { class: "muted" });
    const dayText = (days) => (at, value) => `${DAY.format(new Date((found.now - (days - 1 - at) * 86400) * 1000))}: ${gpuHours(value)} GPU hours`;
    function row(each, sum) {
      return h("tr", {}, h("td", {}, h("a", { href: `/jobs?user=${encodeURIComponent(each.user)}` }, each.user || "–")),
        holding(each.gpus, found.gpus),
        h("td", { class: "num" }, number(each.running)), h("td", { class: "num" }, number(each.waiting)), h("td", { class: "num hide-s nowrap" }, each.gpus_wanted ? plural(each.gpus_wanted, "GPU") : ""),
        h("td", { class: "num" }, gpuHours(each[by])), h("td", { class: "num nowrap" }, percent(sum ? each[by] / sum : 0)),
        h("td", { class: "hide-s" }, bars(each.days, `GPU hours of ${each.user} on the last 14 days`, dayText(each.days.length))));
    }
    function draw() {
      const sum = found.users.reduce((all, each) => all + each[by], 0);
      const users = [...found.users].sort((a, b) => b[by] - a[by] || b.gpus - a.gpus || a.user.localeCompare(b.user));
      total.textContent = `${plural(users.length, "user")}, ${gpuHours(sum)} GPU hours`;
      replace(periods, PERIODS.map(([name, text]) => h("button", { class: "tab", "aria-pressed": String(by === name), onclick: () => { by = name; draw(); } }, text)));
      replace(body, users.length ? h("section", { class: "panel flush" }, table(COLUMNS, users.map((each) => row(each, sum)), "Users")) : empty("No users yet."),
        teams?.length ? h("section", { class: "panel flush" }, h("header", { class: "panel-head" }, h("h2", {}, "Teams")), table(TEAM_COLUMNS, teams.map((each) => teamRow(each, found.gpus)), "Teams")) : null);
    }
    draw();
    root.append(h("div", { class: "page-head" }, h("h1", {}, "Users"), total), periods, body);
    const mark = () => { stale = true; };
    page.stream(["jobs"], { jobs: mark }, mark);
    page.every(5, async () => {
      if (!stale) return;
      stale = false;
      const [users, newTeams] = await Promise.all([get("users").catch(() => null), getTeams()]);
      stale = stale || !users || !newTeams;
      if (users && page.isCurrent()) { [found, teams] = [users, newTeams ?? teams]; draw(); }
    });
  },
};
