// A field that names a dataset, with those that there are, and what is in the one that is named.

import { json, Problem, told } from "../core/api.js";
import { el } from "../core/dom.js";
import { size } from "../core/words.js";
import { freshId } from "./controls.js";

const PAUSE = 300;
const OFFERED = 6;

/** Make the field; `onDescribed(description)` of it is told of each dataset that is known. */
export function datasetControl(name) {
  const input = el("input", {
    id: freshId(name),
    list: "references",
    placeholder: "a name on the server, upload:… or job:…",
    autocomplete: "off",
    spellcheck: "false",
  });
  const offers = el("div", { class: "offers" });
  const about = el("div", { class: "about", "aria-live": "polite" });
  const control = {
    element: el("div", {}, input, offers, about),
    input,
    lack: "Choose a dataset.",
    read: () => input.value.trim() || undefined,
    write(value) {
      input.value = value ?? "";
      look();
    },
    renew: () => {},
    description: null,
    onDescribed: () => {},
    /** What is wrong with the dataset that is named. */
    problem: null,
  };
  let waiting = 0;
  let asked = "";
  async function look() {
    const reference = input.value.trim();
    if (reference === asked) return;
    asked = reference;
    offers.hidden = reference !== "";
    await describe(control, about, reference, () => reference === asked);
    if (reference === asked) control.onDescribed(control.description);
  }
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(look, PAUSE);
  });
  const listed = [...document.querySelectorAll("#references option")].slice(0, OFFERED);
  offers.append(
    ...listed.map((option) =>
      el(
        "button",
        {
          type: "button",
          class: "chip",
          onclick: () => {
            input.value = option.value;
            input.dispatchEvent(new Event("input", { bubbles: true }));
          },
        },
        option.label || option.value,
      ),
    ),
  );
  return control;
}

/** Ask what a dataset has, and show it. */
async function describe(control, about, reference, isWanted) {
  [control.description, control.problem] = [null, null];
  about.replaceChildren();
  if (!reference) return;
  try {
    const description = await descriptionOf(reference);
    if (!isWanted()) return;
    control.description = description;
    about.replaceChildren(contentsView(description));
  } catch (error) {
    if (isWanted()) control.problem = told(error);
  }
}

/** Ask what a dataset has. Throws what is wrong with it, which the service answers as a finding. */
export async function descriptionOf(reference) {
  const query = new URLSearchParams({ dataset: reference });
  const headers = { Prefer: "handling=lenient" }; // a browser tells of each error on its console
  const { problem, ...description } = await json(`datasets/description?${query}`, { headers });
  if (problem) throw new Problem(problem.status, problem);
  return description;
}

/** Show the variables of a dataset. */
export function contentsView({ variables, sizes, bytes }) {
  const data = variables.filter(({ coordinate }) => !coordinate);
  const along = Object.entries(sizes).map(([dim, length]) => `${dim} ${length}`);
  const rows = variables.map(({ name, dims, dtype, units, long_name: long, ...rest }) =>
    el(
      "tr",
      {},
      el("td", {}, el("code", {}, name), long ? el("div", { class: "note" }, long) : null),
      el("td", {}, dims.join(", ") || "—"),
      el("td", {}, dtype),
      el("td", {}, units ?? ""),
      el("td", {}, size(rest.bytes)),
    ),
  );
  const heads = ["Variable", "Dimensions", "Type", "Units", "Size"];
  return el(
    "details",
    {},
    el(
      "summary",
      {},
      `${data.length} ${data.length === 1 ? "variable" : "variables"} · ` +
        `${along.join(" × ") || "no dimensions"} · ${size(bytes)}`,
    ),
    el(
      "div",
      { class: "scroll" },
      el(
        "table",
        {},
        el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
        el("tbody", {}, rows),
      ),
    ),
  );
}
