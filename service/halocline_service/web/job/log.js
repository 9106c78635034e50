// The log of a job, line by line as its events arrive.

import { el } from "../core/dom.js";
import { clock } from "../core/words.js";

const MOST = 500; // lines; the link below leads to all of them

export class LogView {
  constructor() {
    this.lines = el("pre", { class: "log", tabindex: "0", role: "log", "aria-label": "Log" });
    this.waiting = [];
    this.element = el("details", { class: "card" }, el("summary", {}, "Log"), this.lines);
    this.element.addEventListener("toggle", () => this.update());
  }

  /** Take one event. */
  add({ event, data }) {
    const { at, text, message } = data;
    this.waiting.push([clock(new Date(at)), event, text || message || ""].join(" ").trim());
    if (this.waiting.length > MOST) this.waiting.splice(0, this.waiting.length - MOST);
  }

  /** Show what was taken, if it can be seen. */
  update() {
    if (!this.element.open || this.waiting.length === 0) return;
    const { lines } = this;
    const isAtEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 4;
    for (const line of this.waiting) lines.append(el("span", {}, `${line}\n`));
    this.waiting = [];
    while (lines.childElementCount > MOST) lines.firstElementChild.remove();
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
  }
}
