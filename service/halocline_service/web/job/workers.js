// A timeline for each worker: a bar for each block that an event told of, in its parts.

import { colour, el, framed, sized } from "../core/dom.js";
import { duration } from "../core/words.js";

const ROW = 18;
const AXIS = 18;
const PARTS = { reading: 1, waiting: 0, computing: 2, writing: 3 }; // by number of their colour

export class WorkersView {
  constructor(history) {
    this.history = history;
    this.canvas = el("canvas", { role: "img", "aria-label": "Workers" });
    this.parts = el("ul", { class: "parts" });
    this.names = el("ul", { class: "legend" });
    this.element = el(
      "section",
      { class: "card", hidden: true },
      el("h2", {}, "Workers"),
      this.canvas,
      this.parts,
      this.names,
      el(
        "p",
        { class: "note" },
        "Each bar is one block that an event told of, as long as it took. Reading and writing are of " +
          "the store; a block waits while another one is computed. Through a device, computing " +
          "is all between reading and writing.",
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
    const span = Math.max(1e-3, blocks.at(-1).at - start);
    const inks = partInks();
    blocks.forEach((block) => {
      const top = workers.indexOf(block.worker) * ROW + 2;
      let left = ((block.at - block.seconds - start) / span) * width;
      for (const [part, seconds] of partsOf(block)) {
        const wide = (seconds / span) * width;
        context.fillStyle = inks[part];
        context.fillRect(left, top, Math.max(1, wide), ROW - 4);
        left += wide;
      }
    });
    this.#label(context, width, workers.length * ROW, span);
    const totals = Object.entries(sums(blocks)).filter(([, seconds]) => seconds > 0);
    this.parts.replaceChildren(
      ...totals.map(([part, seconds]) => marked(inks[part], `${part} ${duration(seconds)}`)),
    );
    const told = workers.map((worker, row) => {
      const own = blocks.filter((block) => block.worker === worker);
      const busy = own.reduce((sum, block) => sum + block.seconds, 0);
      return el("li", {}, `row ${row + 1}: ${worker}: ${own.length} told, ${duration(busy)}`);
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

/** Give the parts of a block in their order, as `[name, seconds]`; all of it where none is known. */
export function partsOf({ seconds, reading, computing, writing }) {
  if (computing === 0) return [["computing", seconds]];
  const waiting = Math.max(0, seconds - reading - computing - writing);
  const parts = { reading, waiting, computing, writing };
  return Object.keys(PARTS).map((part) => [part, parts[part]]);
}

function sums(blocks) {
  const found = { reading: 0, waiting: 0, computing: 0, writing: 0 };
  for (const block of blocks) for (const [part, taken] of partsOf(block)) found[part] += taken;
  return found;
}

function partInks() {
  const named = (number) => (number ? `series-${number}` : "block-waiting");
  return Object.fromEntries(
    Object.entries(PARTS).map(([part, number]) => [part, colour(named(number))]),
  );
}

function marked(ink, words) {
  const mark = el("span", { class: "mark" });
  mark.style.background = ink;
  return el("li", {}, mark, words);
}
