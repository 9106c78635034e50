// The plan of a job: its numbers, what was measured in the end, and the picture of its order.

import { call } from "../core/api.js";
import { el } from "../core/dom.js";
import { term } from "../core/terms.js";
import { duration, scaled, size } from "../core/words.js";

export class PlanView {
  constructor(history, job) {
    this.history = history;
    this.job = job;
    this.facts = el("dl", { class: "facts" });
    this.picture = el("div", { class: "scroll" });
    this.element = el(
      "section",
      { class: "card", hidden: true },
      el("h2", {}, "Plan"),
      this.facts,
      this.picture,
    );
  }

  /** Show the plan, and figures once there are some. */
  update() {
    const { plan, figures } = this.history;
    if (!plan) return;
    this.element.hidden = false;
    const shown = [...numbers(plan), ...(figures ? measured(figures) : [])];
    this.facts.replaceChildren(
      ...shown.flatMap(([name, value]) => [el("dt", {}, term(name)), el("dd", {}, value)]),
    );
    if (this.drawn !== plan || this.figures !== figures) this.#draw(plan, figures);
  }

  async #draw(plan, figures) {
    [this.drawn, this.figures] = [plan, figures];
    try {
      if (plan.blocks < 2 || plan.mode === "resident") return this.picture.replaceChildren(); // there is no order to see
      const text = await (await call(`jobs/${this.job}/plan.svg`)).text();
      const drawn = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
      drawn.setAttribute("class", "picture");
      drawn.setAttribute("width", drawn.viewBox.baseVal.width); // it has no size of its own
      drawn.setAttribute("aria-label", `Order of the blocks: ${plan.order || "row"}`);
      this.picture.replaceChildren(document.importNode(drawn, true));
    } catch {
      this.picture.replaceChildren(); // there are jobs without one
    }
    return undefined;
  }
}

/** Give the numbers of a plan as `[name, value]`; those of a later service among them. */
export function numbers(plan) {
  const sizes = Object.entries(plan.block ?? {}).map(([dim, points]) => `${dim}: ${points}`);
  const halo = Object.entries(plan.halo ?? {}).map(
    ([dim, [before, after]]) => `${dim}: ${before} before, ${after} after`,
  );
  const known = [
    ["Target", plan.target],
    ["Mode", `${plan.mode}: ${plan.reason}`],
    ["Workers", String(plan.workers)],
    ...(plan.mode === "resident"
      ? [
          ["Blocks", `${plan.blocks}, which stay in memory`],
          ["Steps", `${plan.steps}`],
          ["Halo exchange", plan.transport && plan.transport !== "none" ? plan.transport : ""],
        ]
      : [
          ["Blocks", `${plan.blocks} a pass`],
          ["Passes", `${plan.passes} of ${plan.steps_per_pass} steps; ${plan.steps} steps in all`],
          ["Order", plan.order || "row"],
        ]),
    ["One step at a time", plan.unfused ?? ""],
    ["Expected", plan.predicted_rate ? `${scaled(Number(plan.predicted_rate.toPrecision(2)))} cells a second` : ""],
    ["Memory needed", `${size(plan.projected_bytes)} for the data of all workers`],
    ["Halo", halo.join("; ")],
    ["Block", sizes.join(", ")],
    ["Reads", plan.input_bytes ? size(plan.input_bytes) : ""],
    ["Writes", plan.result_bytes ? size(plan.result_bytes) : ""],
  ];
  return known.filter(([, value]) => value !== "");
}

function measured(figures) {
  const rate = (figures.bytes_read + figures.bytes_written) / figures.seconds;
  return [
    ["Computed in", duration(figures.seconds)],
    ["Read", size(figures.bytes_read)],
    ["Written", size(figures.bytes_written)],
    ["Both", Number.isFinite(rate) ? `${size(rate)} a second` : "—"],
    ["Largest process", `${size(figures.peak_bytes)}, with its libraries`],
  ];
}
