// The program's text with the places of errors marked in it: a copy of the text lies beneath, whose
// marks show through.

import { el } from "../core/dom.js";

export class Editor {
  constructor(area, marks, onInput) {
    this.area = area;
    this.layer = marks;
    area.addEventListener("input", () => {
      this.mark([]);
      onInput();
    });
    area.addEventListener("scroll", () => this.#follow());
    area.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#follow()).observe(area);
  }

  get text() {
    return this.area.value;
  }

  /** Mark places, `{line, column, kind}` each, which count from 1. */
  mark(places) {
    const lines = this.text.split("\n");
    const parts = [];
    lines.forEach((line, number) => {
      const here = places.filter((place) => place.line === number + 1);
      parts.push(...marked(line, here), "\n");
    });
    this.layer.replaceChildren(...parts);
    this.area.setAttribute("aria-invalid", String(places.some(({ kind }) => kind === "error")));
    this.#follow();
  }

  /** Put the caret at a place. */
  goTo({ line, column }) {
    const before = this.text.split("\n").slice(0, line - 1);
    const at = before.reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
    this.area.focus();
    this.area.setSelectionRange(at, at + 1);
  }

  #follow() {
    this.layer.scrollTop = this.area.scrollTop;
    this.layer.scrollLeft = this.area.scrollLeft;
  }

  /** Keep the indentation of a line on the next one; TAB stays what moves between fields. */
  #key(event) {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
    const { selectionStart: start, selectionEnd: end, value } = this.area;
    const line = value.slice(value.lastIndexOf("\n", start - 1) + 1, start);
    const deeper = line.trimEnd().endsWith(":") ? "    " : "";
    event.preventDefault();
    this.area.setRangeText(`\n${/^ */.exec(line)[0]}${deeper}`, start, end, "end");
    this.area.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

function marked(line, places) {
  const characters = [...line]; // columns count characters
  const parts = [];
  let from = 0;
  for (const { column, kind } of [...places].sort((a, b) => a.column - b.column)) {
    const start = Math.max(from, Math.min(column - 1, characters.length));
    let end = start;
    while (end < characters.length && /\w/.test(characters[end])) end += 1;
    end = Math.max(end, start + 1);
    parts.push(characters.slice(from, start).join(""));
    parts.push(el("mark", { class: kind }, characters.slice(start, end).join("") || " "));
    from = end;
  }
  parts.push(characters.slice(from).join(""));
  return parts;
}
