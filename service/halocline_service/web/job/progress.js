// How far a job is, and how long it will take, from its events.

import { el } from "../core/dom.js";
import { duration } from "../core/words.js";

export class ProgressView {
  constructor(history) {
    this.history = history;
    this.bar = el("progress", { max: 100, value: 0, "aria-label": "Progress" });
    this.text = el("p", { class: "left" });
    this.link = el("span", { class: "link", role: "status" });
    this.element = el("section", { class: "card" }, this.bar, this.text, this.link);
  }

  /** Say how it stands. */
  update(now) {
    const { history } = this;
    this.element.hidden = ["successful", "failed", "dismissed"].includes(history.status);
    const percent = Math.floor(history.progress * 100);
    this.bar.value = percent;
    const left = history.left(now);
    const pass =
      history.plan?.passes > 1 ? `pass ${history.pass + 1} of ${history.plan.passes}` : "";
    const blocks = history.resident
      ? `step ${history.steps} of ${history.plan.steps}`
      : history.plan
        ? `block ${history.done} of ${history.plan.blocks}`
        : "";
    const rest = left === null ? "" : `about ${duration(left)} left`;
    const awaited = history.status === "accepted" ? history.states.at(-1)?.message : "";
    const words = [`${percent} %`, awaited || history.status, pass, blocks, rest, history.rate];
    this.text.textContent = words.filter(Boolean).join(" · ");
  }

  /** Say how the stream of events is. */
  connection(state) {
    const words = { live: "Events are live.", lost: "Connection lost; trying again.", over: "" };
    this.link.textContent = words[state];
    this.link.dataset.state = state;
  }
}
