// The program as it was compiled: its kernels with the storage of temporaries, and the code.

import { el } from "../core/dom.js";

export class CodeView {
  constructor(history) {
    this.history = history;
    this.schedule = el("pre", { class: "code", tabindex: "0", "aria-label": "Schedule" });
    this.code = el("pre", { class: "code", tabindex: "0", "aria-label": "Generated code" });
    this.title = el("h3", {}, "Code");
    this.element = el(
      "details",
      { class: "card", hidden: true },
      el("summary", {}, "Kernels"),
      el("h3", {}, "Schedule"),
      this.schedule,
      this.title,
      this.code,
    );
  }

  /** Show what the event of the compiler told, once. */
  update() {
    const { compiled } = this.history;
    if (!compiled || this.shown === compiled) return;
    this.shown = compiled;
    this.element.hidden = false;
    this.schedule.textContent = compiled.schedule;
    this.title.textContent = `Code for ${compiled.target}`;
    this.code.textContent = compiled.code;
  }
}
