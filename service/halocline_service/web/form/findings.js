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

/** Say that a program is valid, and what may not be meant. */
export function factsView({ name, warnings }, goTo) {
  return el(
    "div",
    { class: "findings" },
    el("p", { class: "good" }, `'${name}' is a valid program.`),
    warnings.map((each) => finding("warning", { ...each, detail: each.message }, goTo)),
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
