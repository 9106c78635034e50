// The result of a job as a picture: what is chosen, what is read for it, and what is drawn.

import { json, told } from "../core/api.js";
import { el, framed } from "../core/dom.js";
import { figure } from "../core/words.js";
import { range, short } from "./axes.js";
import { beside, readBeside } from "./beside.js";
import { decode, titleOf, unitsOf } from "./cf.js";
import { scaleOf } from "./colours.js";
import { choice, colours, slider, zoomButtons } from "./controls.js";
import { axisOf, coordinatesOf, sides } from "./dims.js";
import { drawLine } from "./line.js";
import { drawMap } from "./map.js";
import { noteOf } from "./note.js";
import { pointing } from "./pointer.js";
import { sample } from "./sample.js";
import { openStore } from "./store.js";

const ZARR = "application/vnd+zarr";
const MOST_ROWS = 480;
const MOST_COLUMNS = 720;
const MOST_POINTS = 2000;
const PAUSE = 120; // after a slider was moved

export class ResultView {
  constructor(job) {
    this.path = `jobs/${job}/results`;
    this.controls = el("div", { class: "filters" });
    this.sliders = el("div", { class: "sliders" });
    this.canvas = el("canvas", {
      role: "img",
      tabindex: "0",
      class: "result",
      "aria-label": "Result",
    });
    this.readout = el("p", { class: "pointed", "aria-live": "polite" }, " ");
    this.none = el(
      "p",
      { class: "legend", hidden: true },
      el("span", { class: "mark none" }),
      "no data",
    );
    this.note = el("p", { class: "note" });
    this.pointer = pointing(this.canvas, {
      area: () => this.area,
      onPoint: (x, y) => this.#point(x, y),
      onSelect: (x, y) => this.#select(x, y),
      onZoom: (factor, at) => this.#zoom(factor, at),
    });
    this.element = el(
      "section",
      { class: "card", hidden: true, id: "result" },
      el("h2", {}, "Result"),
      this.controls,
      this.sliders,
      this.pointer.layer,
      el(
        "div",
        { class: "zoom" },
        zoomButtons((factor) => this.#zoom(factor, this.pointer.at())),
        this.none,
      ),
      this.readout,
      this.note,
    );
    const draw = framed(() => this.#draw());
    document.addEventListener("themechange", draw);
    window.addEventListener("resize", draw);
  }

  /** Open the store and show its first variable; what was opened stays. */
  async open() {
    if (this.opened) return undefined;
    this.opened = true;
    this.element.hidden = false;
    try {
      const outputs = await json(this.path);
      const name = Object.keys(outputs).find((each) => outputs[each]?.type === ZARR);
      if (!name) return this.#values(outputs);
      const { variables } = await openStore(`${this.path}/${name}.zarr`);
      this.all = variables;
      this.coordinates = coordinatesOf(variables);
      const drawn = variables.filter(
        ({ dtype, name }) => /^(u?int|float|bool)/.test(dtype) && !this.coordinates.has(name),
      );
      this.variables = drawn.length > 0 ? drawn : variables;
      this.scale = "sequential";
      const largest = Math.max(...this.variables.map(({ dims }) => dims.length));
      await this.#choose(this.variables.find(({ dims }) => dims.length === largest)?.name);
    } catch (error) {
      this.note.textContent = `The result cannot be shown: ${told(error)}`;
    }
    return undefined;
  }

  /** Show outputs that are values and no arrays. */
  #values(outputs) {
    this.pointer.layer.replaceWith(el("pre", {}, JSON.stringify(outputs, null, 2)));
    this.readout.hidden = true;
  }

  async #choose(name) {
    const variable = this.variables.find((each) => each.name === name);
    if (!variable) throw new Error("it has no variable of numbers.");
    this.variable = variable;
    this.array = await variable.array();
    [this.rows, this.columns] = sides(variable, this.coordinates);
    this.fixed = variable.dims.map(() => 0);
    await this.#reset();
  }

  /** Show all of the dimensions that are drawn. */
  async #reset() {
    const { dims, shape } = this.variable;
    [this.low, this.high] = [null, null];
    this.window = shape.map((length) => [0, length]);
    const axes = dims.map((dim, place) => axisOf(dim, shape[place], this.coordinates));
    this.axes = await Promise.all(axes);
    this.#offer();
    await this.#load();
  }

  #offer() {
    const { variable, variables } = this;
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
    this.controls.replaceChildren(
      choice(
        "Variable",
        variables.map((each) => [each.name, titleOf(each)]),
        variable.name,
        (name) => this.#choose(name),
      ),
      ...(dims.length > 1
        ? [
            choice("Across", dims, this.columns, (dim) => set({ columns: Number(dim) })),
            choice("Up", [[-1, "values (line)"], ...dims], this.rows, (dim) =>
              set({ rows: Number(dim) }),
            ),
          ]
        : []),
      el("span", { class: "colours" }),
    );
    const others = dims.filter(
      ([dim]) => dim !== this.rows && dim !== this.columns && variable.shape[dim] > 1,
    );
    this.sliders.replaceChildren(
      ...others.map(([dim, name]) =>
        slider(
          name,
          variable.shape[dim],
          this.fixed[dim],
          (index) => this.axes[dim].write(this.axes[dim].at(index)),
          (index) => {
            this.fixed[dim] = index;
            clearTimeout(this.moving);
            this.moving = setTimeout(() => this.#load(), PAUSE);
          },
        ),
      ),
    );
  }

  async #load() {
    this.reading?.abort();
    this.pointer.forget();
    this.readout.textContent = " ";
    const { signal } = (this.reading = new AbortController());
    const { variable } = this;
    const [rows, columns] = [this.rows, this.columns];
    const side = (dim, most) => ({
      dim,
      first: this.window[dim][0],
      last: this.window[dim][1],
      most,
    });
    const along = rows < 0 ? [] : [side(rows, MOST_ROWS)];
    if (columns >= 0) along.push(side(columns, rows < 0 ? MOST_POINTS : MOST_COLUMNS));
    this.element.setAttribute("aria-busy", "true");
    try {
      const fixed = this.fixed.map((index, dim) =>
        dim === rows || dim === columns ? null : index,
      );
      const read = await sample(this.array, { fixed, along, dtype: variable.dtype, signal });
      if (signal.aborted) return;
      this.grid = { ...read, values: decode(read.values, variable.attributes) };
      this.found = range(this.grid.values);
      this.beside = [];
      this.note.textContent = noteOf(variable, this.array.chunks, this.grid);
      this.#draw();
      if (rows >= 0) this.beside = await this.#beside(signal);
    } catch (error) {
      if (signal.aborted) return;
      this.note.textContent = `The result cannot be shown: ${told(error)}`;
    } finally {
      if (!signal.aborted) this.element.removeAttribute("aria-busy");
    }
  }

  /** Read what is told beside the values of the map. */
  #beside(signal) {
    const { rows, columns, variable, grid } = this;
    const found = beside(variable, this.all, [rows, columns]);
    const map = { dims: [variable.dims[rows], variable.dims[columns]], indices: grid.indices };
    return Promise.all(found.map((each) => readBeside(each, map, signal)));
  }

  /** Give what a side of the picture shows. */
  #side(dim, place) {
    const [first, last] = this.window[dim];
    return { ...this.axes[dim], first, last, indices: this.grid.indices[place] };
  }

  #draw() {
    if (!this.grid) return;
    const { grid, variable } = this;
    const units = unitsOf(variable.attributes);
    this.none.hidden = this.rows < 0 || !grid.values.some(Number.isNaN);
    const limits = { low: this.low ?? this.found[0], high: this.high ?? this.found[1] };
    const width = Math.max(260, Math.min(1000, this.element.clientWidth - 34));
    const columns = this.columns < 0 ? null : this.#side(this.columns, this.rows < 0 ? 0 : 1);
    this.canvas.setAttribute(
      "aria-label",
      `${titleOf(variable)}, from ${figure(limits.low)} to ${figure(limits.high)} ${units}`,
    );
    if (!columns) {
      this.area = null;
      this.readout.textContent = `${variable.name} = ${figure(grid.values[0])} ${units}`;
      this.canvas.hidden = true;
      return;
    }
    this.canvas.hidden = false;
    if (this.rows < 0) {
      this.area = drawLine(this.canvas, { values: grid.values, columns, ...limits, units, width });
    } else {
      const rows = this.#side(this.rows, 0);
      rows.upward = !rows.isDown;
      const shape = {
        values: grid.values,
        height: rows.indices.length,
        width: columns.indices.length,
      };
      this.area = drawMap(this.canvas, {
        grid: shape,
        rows,
        columns,
        scale: scaleOf(this.scale),
        ...limits,
        units,
        width,
      });
    }
    const place = this.controls.querySelector(".colours");
    place.replaceChildren(
      ...colours({ scale: this.scale, ...limits }, (change) => this.#recolour(change)),
    );
    const { left, top, right, bottom } = this.area;
    this.canvas.dataset.area = [left, top, right, bottom].join(" ");
    this.canvas.dataset.ready = `${variable.name} ${this.fixed.join(",")}`;
  }

  #recolour(change) {
    Object.assign(this, change);
    this.#draw();
  }

  /** Give the index, and its place among those that were read, at a share of a side. */
  #nearest(dim, place, share) {
    const [first, last] = this.window[dim];
    const wanted = first + share * (last - first) - 0.5;
    const { indices } = { indices: this.grid.indices[place] };
    const step = indices.length > 1 ? indices[1] - indices[0] : 1;
    const at = Math.max(0, Math.min(indices.length - 1, Math.round((wanted - indices[0]) / step)));
    return [indices[at], at];
  }

  #point(x, y) {
    const { grid, variable, axes } = this;
    const name = (dim, index) => `${variable.dims[dim]} = ${axes[dim].write(axes[dim].at(index))}`;
    const [column, across] = this.#nearest(this.columns, this.rows < 0 ? 0 : 1, x);
    const words = [name(this.columns, column)];
    let place = across;
    if (this.rows >= 0) {
      const [row, up] = this.#nearest(this.rows, 0, axes[this.rows].isDown ? y : 1 - y);
      words.unshift(name(this.rows, row));
      place += up * grid.indices[1].length;
    }
    for (const each of this.beside)
      words.push(`${each.name} = ${short(each.values[place])} ${each.units}`.trim());
    const value = grid.values[place];
    const units = Number.isFinite(value) ? unitsOf(variable.attributes) : "";
    this.readout.textContent =
      `${words.join(", ")}: ${figure(value, this.found[1] - this.found[0])} ${units}`.trim();
  }

  #select(x, y) {
    this.#narrow(this.columns, x);
    if (this.rows >= 0) {
      const up = this.axes[this.rows].isDown ? y : [1 - y[1], 1 - y[0]];
      this.#narrow(this.rows, up);
    }
    this.#load();
  }

  /** Show a part of what is shown of a dimension. */
  #narrow(dim, [from, to]) {
    const [first, last] = this.window[dim];
    const low = Math.floor(first + from * (last - first));
    const high = Math.ceil(first + to * (last - first));
    this.window[dim] = [
      Math.max(0, low),
      Math.min(this.variable.shape[dim], Math.max(high, low + 2)),
    ];
  }

  #zoom(factor, [x, y] = [0.5, 0.5]) {
    if (factor === 0) this.window = this.variable.shape.map((length) => [0, length]);
    else {
      const around = (at) => [at - factor / 2, at + factor / 2];
      const bounded = ([from, to]) => [Math.min(from, 1), Math.max(to, 0)];
      this.#narrow(this.columns, bounded(around(x)));
      if (this.rows >= 0)
        this.#narrow(this.rows, bounded(around(this.axes[this.rows].isDown ? y : 1 - y)));
    }
    this.#load();
  }
}
