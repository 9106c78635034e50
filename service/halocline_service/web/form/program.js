// A program's text, with what is wrong marked in it and what it needs beneath.

import { el } from "../core/dom.js";
import { freshId } from "./controls.js";
import { Editor } from "./editor.js";
import { factsView, placesOf, problemView } from "./findings.js";

/** Make the editor of a program or an expression. */
export function programControl(name) {
  const marks = el("pre", { "aria-hidden": "true", class: "marks" });
  const input = el("textarea", {
    id: freshId(name),
    rows: name === "program" ? 12 : 5,
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    wrap: "off",
  });
  const checked = el("div", { class: "checked", "aria-live": "polite" });
  const editor = new Editor(input, marks, () => {});
  const goTo = (place) => editor.goTo(place);
  return {
    element: el("div", { class: "program" }, el("div", { class: "editor" }, marks, input), checked),
    input,
    lack: "Write a program, or start from an example.",
    read: () => (input.value.trim() ? input.value : undefined),
    write(value) {
      input.value = value ?? "";
      editor.mark([]);
      checked.replaceChildren();
    },
    renew: () => {},
    /** Show what a valid program needs, and its warnings. */
    showFacts(program) {
      editor.mark(program.warnings.map((each) => ({ ...each, kind: "warning" })));
      checked.replaceChildren(factsView(program, goTo));
    },
    /** Show what is wrong at a place of the text. */
    showProblem(problem) {
      editor.mark(placesOf(problem));
      checked.replaceChildren(problemView(problem, goTo));
    },
  };
}
