// A timeline of the states of a job: a bar for those who see it, and a list for all.

import { el } from "../core/dom.js";
import { clock, duration } from "../core/words.js";

export class StatesView {
  constructor(history) {
    this.history = history;
    this.bar = el("div", { class: "states", "aria-hidden": "true" });
    this.list = el("ol", { class: "timeline" });
    this.element = el("section", { class: "card" }, el("h2", {}, "States"), this.bar, this.list);
  }

  /** Draw the states up to now. */
  update(now) {
    const spells = this.#spells(now);
    const whole = spells.reduce((sum, { lasted }) => sum + lasted, 0) || 1;
    this.bar.replaceChildren(
      ...spells.map(({ status, lasted }) => {
        const part = el("span", {
          class: `part ${status}`,
          title: `${status}: ${duration(lasted)}`,
        });
        part.style.flexGrow = 1000 * Math.max(lasted / whole, 0.001); // a sum below 1 fills less
        return part;
      }),
    );
    this.list.replaceChildren(
      ...spells.map(({ status, at, lasted, isFinal, message }) =>
        el(
          "li",
          {},
          el("time", { datetime: new Date(at * 1000).toISOString() }, clock(new Date(at * 1000))),
          " ",
          el("span", { class: `state ${status}` }, status),
          isFinal ? "" : ` ${duration(lasted)}`,
          el("span", { class: "note" }, ` ${message}`),
        ),
      ),
    );
  }

  #spells(now) {
    const { states } = this.history;
    return states.map(({ at, status, message }, place) => {
      const isFinal = ["successful", "failed", "dismissed"].includes(status);
      const end = states[place + 1]?.at ?? (isFinal ? at : now);
      return { at, status, message, isFinal, lasted: Math.max(0, end - at) };
    });
  }
}
