// A timeline for each worker: a bar for each block that an event told of, as long as it took.

import { colour, el, framed, sized } from "../core/dom.js";
import { duration } from "../core/words.js";

const ROW = 18;
const AXIS = 18;

export class WorkersView {
  constructor(history) {
    this.history = history;
    this.canvas = el("canvas", { role: "img", "aria-label": "Workers" });
    this.names = el("ul", { class: "legend" });
    this.element = el(
      "section",
      { class: "card", hidden: true },
      el("h2", {}, "Workers"),
      this.canvas,
      this.names,
      el(
        "p",
        { class: "note" },
        "Each bar is one block that an event told of, as long as it took.",
      ),
    );
    this.frame = framed(() => this.#draw());
    document.addEventListener("themechange", this.frame);
    window.addEventListener("resize", this.frame);
  }

  /** Draw again if there is something new. */
  update() {
    if (this.history.blocks.length === 0) return;
    this.element.hidden = false;
    if (this.drawn !== this.history.blocks.length) this.frame();
  }

  #draw() {
    const { blocks, workers } = this.history;
    if (blocks.length === 0) return;
    this.drawn = blocks.length;
    const width = Math.max(200, this.element.clientWidth - 34);
    const context = sized(this.canvas, width, workers.length * ROW + AXIS);
    const start = blocks.reduce(
      (least, { at, seconds }) => Math.min(least, at - seconds),
      Infinity,
    );
    const inks = workers.map((_, row) => colour(`series-${(row % 6) + 1}`));
    const span = Math.max(1e-3, blocks.at(-1).at - start);
    blocks.forEach(({ at, seconds, worker }) => {
      const row = workers.indexOf(worker);
      const left = ((at - seconds - start) / span) * width;
      context.fillStyle = inks[row];
      context.fillRect(left, row * ROW + 2, Math.max(1, (seconds / span) * width), ROW - 4);
    });
    this.#label(context, width, workers.length * ROW, span);
    const told = workers.map((worker, row) => {
      const own = blocks.filter((block) => block.worker === worker);
      const busy = own.reduce((sum, block) => sum + block.seconds, 0);
      const mark = el("span", { class: "mark" });
      mark.style.background = inks[row];
      return el("li", {}, mark, `${worker}: ${own.length} told, ${duration(busy)}`);
    });
    this.names.replaceChildren(...told);
    this.canvas.setAttribute("aria-label", `${blocks.length} blocks of ${workers.length} workers`);
  }

  #label(context, width, top, span) {
    context.fillStyle = colour("muted");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    context.fillText("0 s", 0, top + 4);
    context.textAlign = "right";
    context.fillText(duration(span), width, top + 4);
  }
}
