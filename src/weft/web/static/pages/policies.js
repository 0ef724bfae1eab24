// Policies: what another policy or a further node would change for the waiting jobs. The address holds the question.
import { get } from "../api.js";
import { empty, h, jobLink, panel, replace, stat, table } from "../dom.js";
import { duration, number, plural } from "../format.js";

const COLUMNS = [["Now", "num"], ["What if", "num"], ["Change", "num"]];
const heads = (...first) => [...first, ...COLUMNS].map(([label, kind]) => ({ label, class: kind }));

function change(before, after) {
  if (before === null || after === null) return "–";
  const gap = after - before;
  return `${gap < 0 ? "−" : "+"}${duration(Math.abs(gap))}`;
}

const cells = (before, after) => [duration(before), duration(after), change(before, after)].map((text) => h("td", { class: "num nowrap" }, text));

function waits(found) {
  const { before, after } = found;
  return h("div", { class: "stats" },
    stat("Average wait", duration(after.average_s), `now ${duration(before.average_s)} (${change(before.average_s, after.average_s)})`),
    stat("Wait at P90", duration(after.p90_s), `now ${duration(before.p90_s)} (${change(before.p90_s, after.p90_s)})`),
    stat("Waiting jobs", number(found.waiting), after.unknown ? `${plural(after.unknown, "job")} without an estimate` : "all with an estimate"),
    stat("Policy", found.policy, `${found.samples} samples`));
}

function effects(title, jobs) {
  if (!jobs.length) return null;
  const rows = jobs.map((each) => h("tr", {}, h("td", {}, jobLink(each.job)), h("td", { class: "name", title: each.name }, each.name || "–"), h("td", { class: "hide-s" }, each.user), h("td", { class: "hide-s" }, each.what), cells(each.before_s, each.after_s)));
  return panel(title, table(heads(["Job"], ["Name"], ["User", "hide-s"], ["Of", "hide-s"]), rows, title));
}

function users(found) {
  if (!found.users.length) return null;
  const rows = found.users.map((each) => h("tr", {}, h("td", {}, each.user || "–"), h("td", { class: "num" }, number(each.jobs)), cells(each.before_s, each.after_s)));
  return panel("Average wait by user", table(heads(["User"], ["Jobs", "num"]), rows, "Average wait by user"));
}

export default {
  title: "Policies",
  async mount(root, page) {
    const { policies } = await get("policies"), given = new URLSearchParams(location.search);
    const choice = h("select", { id: "policy" }, h("option", { value: "" }, "the present policy"), policies.map((name) => h("option", { value: name, selected: name === given.get("policy") }, name)));
    const gpus = h("input", { type: "number", id: "add-node", min: "0", max: "1024", step: "1", value: given.get("add_node") ?? "0" });
    const body = h("div", { "aria-live": "polite" });

    async function ask() {
      const wanted = { policy: choice.value, add_node: Number(gpus.value) ? gpus.value : "" };
      const text = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)).toString();
      page.navigate(`/policies${text ? `?${text}` : ""}`, { quiet: true, replaceEntry: true });
      if (!text) { replace(body, empty("Choose a policy, or add a node.", "Nothing changes: the scheduler looks ahead from its present state, with and without the change.")); return; }
      replace(body, empty("The scheduler looks ahead…"));
      try {
        const found = await get("whatif", wanted);
        if (page.isCurrent()) replace(body, found.waiting ? [waits(found), users(found), effects("Jobs that gain most", found.gain), effects("Jobs that lose most", found.lose)] : empty("No job waits.", "A change of policy matters once jobs wait."));
      } catch (error) {
        if (page.isCurrent()) replace(body, empty(error.message, error.hint));
      }
    }

    const form = h("form", { class: "filters", onsubmit: (event) => { event.preventDefault(); ask(); } },
      h("label", { for: "policy" }, "Policy "), choice, h("label", { for: "add-node" }, "GPUs of a further node "), gpus, h("button", { type: "submit" }, "See the effect"));
    root.append(h("div", { class: "page-head" }, h("h1", {}, "Policies"), h("span", { class: "muted" }, "what if?")), form, body);
    page.stream(["counts"], {}, null);
    ask();
  },
};
