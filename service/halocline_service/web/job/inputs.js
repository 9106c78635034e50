// What a job was asked for, if the API gives it.

import { el } from "../core/dom.js";

/** Make the part of the page that shows inputs. */
export function inputsView(inputs) {
  const { program, ...rest } = inputs;
  const rows = Object.entries(rest).flatMap(([name, value]) => [
    el("dt", {}, name),
    el("dd", {}, el("code", {}, typeof value === "string" ? value : JSON.stringify(value))),
  ]);
  return el(
    "details",
    { class: "card", open: true },
    el("summary", {}, "Inputs"),
    program ? el("pre", { class: "program-text", tabindex: "0" }, program) : null,
    el("dl", { class: "facts" }, rows),
  );
}
