// A timeline for each worker: a bar for each block or stretch of steps, in its parts.

import { colour, el, framed, sized } from "../core/dom.js";
import { duration } from "../core/words.js";
import { PARTS, barsOfBlocks, barsOfRanks, barsOfSteps } from "./spans.js";

const ROW = 18;
const AXIS = 18;
const NOTES = {
  blocks:
    "Each bar is one block. Reading includes the cells around the block; sending and fetching are " +
    "copies to and from a GPU. At most five blocks a second are recorded.",
  ranks:
    "Each row is one worker. Times within a bar are summed, because steps and exchanges of halos " +
    "(the cells at the edges of blocks) alternate. Exchanges that kernels make on a GPU count as " +
    "computing. Until the job ends, only the first worker reports.",
};

export class WorkersView {
  constructor(history) {
    this.history = history;
    this.canvas = el("canvas", { role: "img", "aria-label": "Workers" });
    this.parts = el("ul", { class: "parts" });
    this.names = el("ul", { class: "legend" });
    this.note = el("p", { class: "note" });
    this.element = el(
      "section",
      { class: "card", hidden: true },
      el("h2", {}, "Workers"),
      this.canvas,
      this.parts,
      this.names,
      this.note,
    );
    this.frame = framed(() => this.#draw());
    document.addEventListener("themechange", this.frame);
    window.addEventListener("resize", this.frame);
  }

  /** Draw again if there is something new. */
  update() {
    const { blocks, stretches, worked } = this.history;
    const told = blocks.length + stretches.length + worked.length;
    if (told === 0 || this.told === told) return;
    this.told = told;
    this.element.hidden = false;
    this.frame();
  }

  #draw() {
    if (this.element.hidden) return;
    const { bars, rows, names, note } = shown(this.history);
    if (bars.length === 0) return;
    const width = Math.max(200, this.element.clientWidth - 34);
    const context = sized(this.canvas, width, rows * ROW + AXIS);
    const span = Math.max(1e-3, ...bars.map(({ to }) => to));
    const inks = Object.fromEntries(
      Object.entries(PARTS).map(([part, name]) => [part, colour(name)]),
    );
    for (const { row, from, parts } of bars) {
      let left = (from / span) * width;
      for (const [part, seconds] of parts) {
        const wide = (seconds / span) * width;
        context.fillStyle = inks[part];
        context.fillRect(left, row * ROW + 2, Math.max(1, wide), ROW - 4);
        left += wide;
      }
    }
    label(context, width, rows * ROW, span);
    const totals = Object.entries(sums(bars)).filter(([, seconds]) => seconds > 0);
    const words = totals.map(([part, seconds]) => `${part} ${duration(seconds)}`);
    this.parts.replaceChildren(
      ...totals.map(([part], place) => marked(inks[part], words[place])),
    );
    this.names.replaceChildren(...names.map((name) => el("li", {}, name)));
    this.note.textContent = note;
    this.canvas.setAttribute(
      "aria-label",
      `Timeline of ${duration(span)}, ${bars.length} bars in ${rows} rows: ${words.join(", ")}`,
    );
  }
}

/** Give the bars that there are, and what the rows are. */
function shown({ blocks, stretches, worked, workers }) {
  const ranks = worked.filter(({ intervals }) => intervals?.length);
  if (ranks.length)
    return { ...barsOfRanks(ranks), names: ranks.map(nameOf), note: NOTES.ranks };
  if (blocks.length === 0)
    return { ...barsOfSteps(stretches), names: ["the first worker"], note: NOTES.ranks };
  const names = workers.map((worker) => {
    const own = blocks.filter((block) => block.worker === worker);
    const busy = own.reduce((sum, block) => sum + block.seconds, 0);
    return `${worker}: ${own.length} recorded, ${duration(busy)}`;
  });
  return { ...barsOfBlocks(blocks, workers), names, note: NOTES.blocks };
}

/** Name a worker, with its number where it has one. */
export function nameOf({ worker, rank }) {
  return rank === null || rank === undefined ? worker : `worker ${rank}: ${worker}`;
}

function label(context, width, top, span) {
  context.fillStyle = colour("muted");
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "top";
  context.fillText("0 s", 0, top + 4);
  context.textAlign = "right";
  context.fillText(duration(span), width, top + 4);
}

function sums(bars) {
  const found = Object.fromEntries(Object.keys(PARTS).map((part) => [part, 0]));
  for (const { parts } of bars) for (const [part, seconds] of parts) found[part] += seconds;
  return found;
}

function marked(ink, words) {
  const mark = el("span", { class: "mark" });
  mark.style.background = ink;
  return el("li", {}, mark, words);
}
