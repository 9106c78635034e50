// What the check of a program found: errors and warnings with their places, or what it needs.

import { el } from "../core/dom.js";

/** Give the places that a problem of the API names. */
export function placesOf(body) {
  const all = [body, ...(body.others ?? [])].filter((each) => each.line);
  return all.map(({ line, column }) => ({ line, column, kind: "error" }));
}

/** Show a problem; `goTo(place)` leads to its place in the text. */
export function problemView(body, goTo) {
  const others = (body.others ?? []).map((each) => ({ ...each, detail: each.message }));
  return el(
    "div",
    { class: "findings" },
    [body, ...others].map((each) => finding("error", each, goTo)),
  );
}

/** Show what a program needs, and what may not be meant. */
export function factsView(program, goTo) {
  const fields = el(
    "table",
    {},
    el("thead", {}, row("th", ["Field", "Type", "Used", "Halo"])),
    el(
      "tbody",
      {},
      program.fields.map((each) => row("td", [each.name, typeOf(each), useOf(each), haloOf(each)])),
    ),
  );
  const scalars = program.scalars.map(({ name, dtype, default: given }) =>
    given === null || given === undefined ? `${name}: ${dtype}` : `${name}: ${dtype} = ${given}`,
  );
  return el(
    "div",
    { class: "findings" },
    el("p", { class: "good" }, `'${program.name}' is a valid program.`),
    program.warnings.map((each) => finding("warning", { ...each, detail: each.message }, goTo)),
    el("div", { class: "scroll" }, fields),
    scalars.length > 0 ? el("p", {}, `Scalars: ${scalars.join(", ")}`) : null,
  );
}

function finding(kind, { detail, hint, line, column, excerpt }, goTo) {
  const place = line
    ? el(
        "button",
        { type: "button", class: "place", onclick: () => goTo({ line, column }) },
        `line ${line}, column ${column}`,
      )
    : null;
  return el(
    "div",
    { class: `finding ${kind}` },
    el("p", {}, place, " ", el("strong", {}, `${kind}: `), detail),
    excerpt ? el("pre", {}, excerpt) : null,
    hint ? el("p", { class: "hint" }, `Hint: ${hint}`) : null,
  );
}

function row(cell, values) {
  return el(
    "tr",
    {},
    values.map((value) => el(cell, cell === "th" ? { scope: "col" } : {}, value)),
  );
}

const typeOf = ({ dtype, axes }) =>
  axes.join("") === "IJK" ? dtype : `${dtype} over ${axes.join("")}`;
const useOf = ({ read, written }) =>
  [read && "read", written && "written"].filter(Boolean).join(", ");

function haloOf({ halo }) {
  const wide = Object.entries(halo).filter(([, [before, after]]) => before || after);
  return (
    wide.map(([axis, [before, after]]) => `${axis}: ${before} before, ${after} after`).join("; ") ||
    "none"
  );
}
