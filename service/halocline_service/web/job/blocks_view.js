// The map of blocks of a job on the page: what it shows, in which colours, and what lies under
// the pointer.

import { colour, el, framed } from "../core/dom.js";
import { clock, duration } from "../core/words.js";
import { BlockMap } from "./blocks.js";
import { gridOf, orderOf } from "./order.js";

const LARGEST = 18; // pixels of the screen for a side of a block
const WAYS = { state: "state", time: "time taken", worker: "worker" };

export class BlocksView {
  constructor(history) {
    this.history = history;
    this.canvas = el("canvas", { role: "img", class: "blocks", "aria-label": "Blocks" });
    this.grid = el("div", { class: "block-grid" }, this.canvas);
    this.caption = el("p", { class: "note" });
    this.legend = el("ul", { class: "legend" });
    this.pointed = el("p", { class: "pointed" }, " ");
    const options = Object.entries(WAYS).map(([way, title]) => el("option", { value: way }, title));
    this.way = el("select", { onchange: () => this.#recolour() }, options);
    this.element = el(
      "section",
      { class: "card", hidden: true },
      el("h2", {}, "Blocks"),
      el("label", { class: "inline" }, el("span", {}, "Colour by"), this.way),
      el("div", { class: "scroll" }, this.grid),
      this.legend,
      this.pointed,
      this.caption,
    );
    this.frame = framed(() => this.#draw());
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    document.addEventListener("themechange", () => this.#recolour());
  }

  /** Take what the history has now. */
  update() {
    const { plan, pass, done, blocks } = this.history;
    if (!plan || plan.blocks < 2 || this.history.resident) return;
    if (plan !== this.plan || pass !== this.pass) this.#begin(plan, pass);
    for (; this.taken < blocks.length; this.taken += 1) {
      const told = blocks[this.taken];
      if (told.pass === pass) this.map.finish(told.step + 1, told);
    }
    this.map.finish(done);
    this.#say(plan, pass, done);
    this.frame();
  }

  #begin(plan, pass) {
    [this.plan, this.pass, this.taken] = [plan, pass, this.history.planned];
    this.element.hidden = false;
    const grid = gridOf(plan);
    const width = Math.max(240, Math.min(900, this.element.clientWidth - 34));
    this.cell = Math.max(1, Math.min(LARGEST, Math.floor(width / grid.length)));
    [this.canvas.width, this.canvas.height] = [grid.length, grid.rows];
    this.canvas.style.width = `${this.cell * grid.length}px`;
    this.grid.style.setProperty("--cell", `${this.cell}px`);
    this.grid.classList.toggle("gaps", this.cell > 3);
    this.map = new BlockMap(this.canvas.getContext("2d"), {
      ...grid,
      order: orderOf(grid),
      total: plan.blocks,
      paint: (block) => this.#paint(block),
    });
    this.colours = null;
  }

  #say(plan, pass, done) {
    const passes = plan.passes > 1 ? `, pass ${pass + 1} of ${plan.passes}` : "";
    this.canvas.setAttribute("aria-label", `${done} of ${plan.blocks} blocks finished${passes}`);
    this.caption.textContent =
      `${done} of ${plan.blocks} blocks finished${passes}. The map fills in the order in which ` +
      "blocks begin; with several workers, the last ones may differ. At most five blocks a second " +
      "are recorded, so time and worker of the others are unknown.";
  }

  #recolour() {
    if (!this.map) return;
    this.colours = null;
    this.map.repaint();
    this.frame();
  }

  #inks() {
    return (this.colours ??= {
      waiting: colour("block-waiting"),
      finished: colour("block-finished"),
      untold: colour("block-untold"),
      series: [1, 2, 3, 4, 5, 6].map((number) => colour(`series-${number}`)),
      slow: [1, 2, 3, 4, 5].map((number) => colour(`heat-${number}`)),
    });
  }

  #paint(block) {
    const colours = this.#inks();
    if (!block) return colours.waiting;
    if (this.way.value === "state") return colours.finished;
    if (block.worker === undefined) return colours.untold;
    if (this.way.value === "worker") return this.#ofWorker(block.worker);
    return colours.slow[this.#slowness(block.seconds)];
  }

  #ofWorker(worker) {
    const { series } = this.#inks();
    return series[this.history.workers.indexOf(worker) % series.length];
  }

  /** Say what the colours mean. */
  #explain() {
    const { waiting, finished, untold, slow } = this.#inks();
    const usual = duration(this.#usual);
    const times = ["a quarter", "half", usual, "twice", "four times and more"];
    const meanings = {
      state: [[finished, "finished"]],
      time: [...slow.map((ink, place) => [ink, times[place]]), [untold, "unknown"]],
      worker: [
        ...this.history.workers.map((worker) => [this.#ofWorker(worker), worker]),
        [untold, "unknown"],
      ],
    }[this.way.value];
    const items = [[waiting, "waiting"], ...meanings].map(([ink, words]) => {
      const mark = el("span", { class: "mark" });
      mark.style.background = ink;
      return el("li", {}, mark, words);
    });
    this.legend.replaceChildren(...items);
  }

  /** How long blocks take: as the second one that was told of, since the first one compiles. */
  get #usual() {
    const { blocks } = this.history;
    return (blocks[1] ?? blocks[0])?.seconds ?? NaN;
  }

  /** From 0 to 4: how long a block took, in powers of two around the usual. */
  #slowness(taken) {
    const least = 1e-6;
    const times = Math.max(taken, least) / Math.max(this.#usual, least);
    return Math.min(4, Math.max(0, 2 + Math.round(Math.log2(times))));
  }

  #draw() {
    this.#explain();
    this.canvas.dataset.drawn = this.map.draw();
  }

  #point(event) {
    const place = [event.offsetY, event.offsetX].map((at) => Math.floor(at / this.cell));
    const found = this.map?.at(...place);
    if (!found) return;
    const [step, block] = found;
    const name = `Block ${step + 1}: `;
    if (!block) this.pointed.textContent = `${name}waiting.`;
    else if (block.worker === undefined) this.pointed.textContent = `${name}finished.`;
    else
      this.pointed.textContent =
        `${name}finished at ${clock(new Date(block.at * 1000))} by ${block.worker} ` +
        `in ${duration(block.seconds)}.`;
  }
}
