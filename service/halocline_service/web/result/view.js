// The result of a job as a picture: what is chosen, what is read for it, and what is drawn.

import { told } from "../core/api.js";
import { el, framed } from "../core/dom.js";
import { range } from "./axes.js";
import { beside, readBeside } from "./beside.js";
import { titleOf } from "./cf.js";
import { Comparison, readDecoded } from "./compare.js";
import { choice, ColourControls, slider, zoomButtons } from "./controls.js";
import { sameDims, sides } from "./dims.js";
import { downloadBar } from "./downloads.js";
import { noteOf } from "./note.js";
import { Panel } from "./panel.js";
import { ViewLink } from "./place.js";
import { SeriesView } from "./series.js";
import { Source } from "./source.js";
import { flipped, isPart, moved, narrowed, withMargin, zoomed } from "./window.js";

const MOST_ROWS = 480;
const MOST_COLUMNS = 720;
const MOST_POINTS = 2000;
const PAUSE = 120; // after the part that is shown has changed
const HELP =
  "Click a point for its series. Drag over a part to look closer, then drag to move; " +
  "Ctrl and the wheel zoom.";

export class ResultView {
  constructor(job) {
    this.job = job;
    this.controls = el("div", { class: "filters" });
    this.comparison = new Comparison(job, {
      variable: () => this.variable,
      onChange: (isDifference) => {
        this.limits = { scale: isDifference ? "diverging" : "sequential", low: null, high: null };
        return this.#load();
      },
      onError: (error) => this.#refuse(error),
    });
    this.sliders = el("div", { class: "sliders" });
    this.colours = new ColourControls((change) => this.#recolour(change));
    this.limits = { scale: "sequential", low: null, high: null };
    this.panels = [this.#panel()];
    this.place = el("div", { class: "panels" }, this.panels[0].element);
    this.none = el("p", { class: "legend", hidden: true }, el("span", { class: "mark none" }), "no data");
    this.note = el("p", { class: "note read" });
    this.series = new SeriesView();
    this.link = new ViewLink((view) =>
      this.#choose(view.variable.name, view).catch((error) => this.#refuse(error)),
    );
    const closer = (factor) => this.#zoom(factor, this.panels[0].pointer.at());
    this.zooming = el("div", { class: "zoom" }, zoomButtons(closer), this.none);
    this.element = el(
      "section",
      { class: "card", hidden: true, id: "result" },
      el("h2", {}, "Result"),
      this.controls,
      this.comparison.element,
      this.sliders,
      this.place,
      this.zooming,
      el("p", { class: "note" }, HELP),
      this.series.element,
      this.note,
    );
    this.draw = framed(() => this.#draw());
    const redraw = () => (this.draw(), this.series.draw());
    for (const [place, event] of [
      [document, "themechange"],
      [window, "resize"],
    ])
      place.addEventListener(event, redraw);
  }

  #panel() {
    const panel = new Panel({
      onPoint: (x, y) => this.#point(x, y, panel),
      onPick: (x, y) => this.#pick(x, y, panel),
      onSelect: (x, y) => this.#change((dim, at) => narrowed(this.window[dim], at(x, y), this.#size(dim))),
      onMove: (x, y) => this.#move(x, y),
      canMove: () => this.#isZoomed(),
      onZoom: (factor, at) => this.#zoom(factor, at),
    });
    return panel;
  }

  /** Open the store and show its first variable; what was opened stays. */
  async open() {
    if (this.opened) return;
    this.opened = true;
    this.element.hidden = false;
    try {
      const { source, values } = await Source.open(this.job);
      if (!source) return this.#values(values);
      this.source = source;
      const largest = Math.max(...source.variables.map(({ dims }) => dims.length));
      const first = source.variables.find(({ dims }) => dims.length === largest);
      const isSeries = source.variables.every(({ dims }) => dims.length <= 1);
      const bar = downloadBar(this.job, { isSeries, picture: () => this.#picture() });
      bar.append(this.link.element);
      this.note.before(bar);
      const linked = this.link.asked(source);
      await this.#choose(linked?.variable.name ?? first?.name, linked);
      await this.comparison.offer();
    } catch (error) {
      this.#refuse(error);
    }
  }

  #refuse(error) {
    this.note.textContent = `The result cannot be shown: ${told(error)}`;
  }

  /** Show outputs that are values and no arrays. */
  #values(outputs) {
    this.element.replaceChildren(
      el("h2", {}, "Result"),
      el("pre", {}, JSON.stringify(outputs, null, 2)),
    );
  }

  /** Show a variable, as a link has it or as a whole. */
  async #choose(name, linked = null) {
    const variable = this.source.variable(name);
    if (!variable) throw new Error("it has no variable of numbers.");
    this.variable = variable;
    [this.rows, this.columns] = linked?.sides ?? sides(variable, this.source.coordinates);
    this.fixed = linked?.fixed ?? variable.dims.map(() => 0);
    await this.#reset(linked);
  }

  /** Show all of the dimensions that are drawn, in the colours of what is there, but for a link. */
  async #reset(linked = null) {
    Object.assign(this.limits, linked?.limits ?? { low: null, high: null });
    this.series.clear();
    this.axes = await this.source.axesOf(this.variable);
    this.window = linked?.window ?? this.variable.shape.map((length) => [0, length]);
    this.#offer();
    await this.#load();
  }

  #offer() {
    const { variable } = this;
    const dims = variable.dims.map((dim, place) => [place, dim]);
    const set = (change) => {
      const before = [this.rows, this.columns];
      Object.assign(this, change);
      if (this.rows === this.columns) this.rows = -1;
      // What was drawn along and is not any more stays in the middle: edges are often land.
      const left = before.filter((dim) => dim >= 0 && dim !== this.rows && dim !== this.columns);
      for (const dim of left) this.fixed[dim] = Math.floor(variable.shape[dim] / 2);
      this.#reset();
    };
    const named = this.source.variables.map((each) => [each.name, titleOf(each)]);
    this.controls.replaceChildren(
      choice("Variable", named, variable.name, (name) => this.#choose(name)),
      ...(dims.length > 1
        ? [
            choice("Across", dims, this.columns, (dim) => set({ columns: Number(dim) })),
            choice("Up", [[-1, "values (line)"], ...dims], this.rows, (dim) =>
              set({ rows: Number(dim) }),
            ),
          ]
        : []),
      ...this.colours.elements,
    );
    const isFree = ([dim]) => !this.#isDrawn(dim) && variable.shape[dim] > 1;
    this.sliders.replaceChildren(...dims.filter(isFree).map(([dim, name]) => this.#slider(dim, name)));
  }

  #slider(dim, name) {
    const write = (index) => this.axes[dim].write(this.axes[dim].at(index));
    return slider(name, this.#size(dim), this.fixed[dim], write, (index) => {
      this.fixed[dim] = index;
      return this.#load();
    });
  }

  #isDrawn(dim) {
    return dim === this.rows || dim === this.columns;
  }

  #size(dim) {
    return this.variable.shape[dim];
  }

  #isZoomed() {
    return this.window.some((window, dim) => this.#isDrawn(dim) && isPart(window, this.#size(dim)));
  }

  async #load() {
    this.reading?.abort();
    const { signal } = (this.reading = new AbortController());
    this.element.setAttribute("aria-busy", "true");
    try {
      const pictures = await this.#read(signal);
      if (signal.aborted) return;
      this.#arrange(pictures.length);
      pictures.forEach((picture, number) => this.panels[number].show(picture));
      this.pictures = pictures;
      this.#settle();
      this.note.textContent = noteOf(this.variable, pictures[0].read.shapeOfChunks, pictures[0].read);
      this.#draw();
      await this.#readBeside(signal);
    } catch (error) {
      if (!signal.aborted) this.#refuse(error);
    } finally {
      if (!signal.aborted) this.element.removeAttribute("aria-busy");
    }
  }

  /** Read what is drawn: one picture, two beside each other, or one of their difference. */
  async #read(signal) {
    const { variable, rows, columns } = this;
    const side = (dim, most) => {
      const [first, last] = withMargin(this.window[dim], this.#size(dim));
      return { dim, first, last, most };
    };
    const along = rows < 0 ? [] : [side(rows, MOST_ROWS)];
    if (columns >= 0) along.push(side(columns, rows < 0 ? MOST_POINTS : MOST_COLUMNS));
    const fixed = this.fixed.map((index, dim) => (this.#isDrawn(dim) ? null : index));
    const one = await readDecoded(variable, { fixed, along, signal });
    const first = { variable, axes: this.axes, rows, columns, read: one };
    const drawn = { ...first, along, fixed };
    return this.comparison.other ? this.comparison.read(drawn, signal) : [first];
  }

  /** Make as many panels as there are pictures. */
  #arrange(count) {
    while (this.panels.length > count) this.panels.pop().element.remove();
    while (this.panels.length < count) {
      this.panels.push(this.#panel());
      this.place.append(this.panels.at(-1).element);
    }
    const titles = ["this result", "the other result"];
    const { other, isDifference } = this.comparison;
    this.panels.forEach(({ caption }, number) => {
      caption.hidden = !other;
      caption.textContent = isDifference ? "this result minus the other" : titles[number];
    });
    this.place.classList.toggle("two", count > 1);
  }

  /** Keep the limits of the colours; where there are none, take them from what was read. */
  #settle() {
    const all = this.pictures.flatMap(({ read }) => range(read.values));
    const [low, high] = range(all);
    for (const picture of this.pictures) picture.span = high - low;
    const { isDifference } = this.comparison;
    const most = Math.max(Math.abs(low), Math.abs(high));
    this.limits.low ??= isDifference ? -most : low;
    this.limits.high ??= isDifference ? most : high;
    this.none.hidden =
      this.rows < 0 || !this.pictures.some(({ read }) => read.values.some(Number.isNaN));
  }

  async #readBeside(signal) {
    const { rows, columns, variable, source } = this;
    if (rows < 0) return;
    const found = beside(variable, source.all, [rows, columns]);
    const map = {
      dims: [variable.dims[rows], variable.dims[columns]],
      indices: this.pictures[0].read.indices,
    };
    this.panels[0].beside = await Promise.all(found.map((each) => readBeside(each, map, signal)));
  }

  #draw() {
    if (!this.pictures) return;
    const room = this.element.clientWidth - 40;
    const share = this.panels.length > 1 && room > 700 ? (room - 16) / 2 : room;
    const width = Math.max(260, Math.min(1000, share));
    this.panels.forEach((panel, number) => {
      const { variable } = this.pictures[number];
      const window = variable.dims.map((dim, place) => {
        const own = this.variable.dims.indexOf(dim);
        return own < 0 ? [0, variable.shape[place]] : this.window[own];
      });
      panel.draw({ ...this.limits, window, width });
    });
    this.colours.show(this.limits);
    this.link.show(this);
    this.panels[0].canvas.dataset.ready = `${this.variable.name} ${this.fixed.join(",")}`;
  }

  #recolour(change) {
    Object.assign(this.limits, change);
    this.#settle();
    this.#draw();
  }

  #point(x, y, from) {
    from.point(x, y);
    for (const panel of this.panels.filter((each) => each !== from)) {
      panel.pointer.mirror([x, y]);
      panel.point(x, y);
    }
  }

  #pick(x, y, panel) {
    const here = panel.indicesAt(x, y);
    const { variable } = panel.picture;
    const at = Object.fromEntries(
      Object.entries(here).map(([dim, index]) => [this.variable.dims.indexOf(variable.dims[dim]), index]),
    );
    const isPair = this.pictures.length > 1 && sameDims(...this.pictures);
    const pictures = isPair ? this.pictures : [this.pictures[0]];
    this.series.pick(pictures, this.fixed, at).catch((error) => {
      if (error.name !== "AbortError") this.#refuse(error);
    });
  }

  /** Change what is shown of the drawn dimensions; it is drawn at once, and read soon. */
  #change(windowOf) {
    const share = (x) => (this.axes[this.rows]?.isDown ? x : flipped(x));
    const ways = [
      [this.columns, (x, _y) => x],
      [this.rows, (_x, y) => share(y)],
    ];
    for (const [dim, at] of ways) if (dim >= 0) this.window[dim] = windowOf(dim, at);
    this.draw();
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.#load(), PAUSE);
  }

  #move(x, y) {
    this.#change((dim, at) => {
      const share = dim === this.columns ? -x : this.axes[dim].isDown ? -y : y;
      return moved(this.window[dim], share, this.#size(dim));
    });
  }

  #zoom(factor, [x, y] = [0.5, 0.5]) {
    if (factor === 0) this.#change((dim) => [0, this.#size(dim)]);
    else this.#change((dim, at) => zoomed(this.window[dim], factor, at(x, y), this.#size(dim)));
  }

  /** Give what is drawn, for a file. */
  #picture() {
    const others = this.variable.dims
      .map((dim, place) => [dim, place])
      .filter(([, place]) => !this.#isDrawn(place) && this.#size(place) > 1)
      .map(([dim, place]) => `${dim} = ${this.axes[place].write(this.axes[place].at(this.fixed[place]))}`);
    return {
      name: `${this.variable.name}-${this.job.slice(-8)}`,
      title: [titleOf(this.variable), ...others].join(", "),
      canvases: this.panels.map(({ canvas }) => canvas),
      rows: this.panels[0].rows(),
    };
  }
}
