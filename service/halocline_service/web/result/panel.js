// One picture of a result: what was read, drawn as a map or a line, with a pointer over it.

import { el, colour } from "../core/dom.js";
import { figure } from "../core/words.js";
import { exact, short } from "./axes.js";
import { titleOf, unitsOf } from "./cf.js";
import { scaleOf } from "./colours.js";
import { drawLines } from "./line.js";
import { drawMap } from "./map.js";
import { pointing } from "./pointer.js";

/** A canvas with its caption; `handlers` are those of `pointing`. */
export class Panel {
  constructor(handlers) {
    this.caption = el("p", { class: "caption", hidden: true });
    this.canvas = el("canvas", {
      role: "img",
      tabindex: "0",
      class: "result",
      "aria-label": "Result",
    });
    this.readout = el("p", { class: "pointed", "aria-live": "polite" }, " ");
    this.pointer = pointing(this.canvas, { area: () => this.area, ...handlers });
    this.element = el("div", { class: "panel" }, this.caption, this.pointer.layer, this.readout);
    this.beside = [];
  }

  /** Take what was read: `{variable, axes, rows, columns, grid}`. */
  show(picture) {
    const { rows, columns, read } = picture;
    const [height, width] = rows < 0 ? [1, read.values.length] : read.indices.map((each) => each.length);
    this.picture = { ...picture, cells: { values: read.values, height, width } };
    this.places = { [columns]: rows < 0 ? 0 : 1, ...(rows < 0 ? {} : { [rows]: 0 }) };
    this.beside = [];
    this.readout.textContent = " ";
  }

  /** Give what a side of the picture shows. */
  #side(dim, window) {
    const { axes, read, variable } = this.picture;
    const [first, last] = window[dim];
    const indices = read.indices[this.places[dim]];
    return { ...axes[dim], first, last, indices, length: variable.shape[dim] };
  }

  /** Draw it in the colours and the part that are chosen. */
  draw({ scale, low, high, window, width }) {
    if (!this.picture) return;
    const { variable, rows, columns, cells } = this.picture;
    const units = unitsOf(variable.attributes);
    const text = `${titleOf(variable)}, from ${figure(low)} to ${figure(high)} ${units}`;
    this.canvas.setAttribute("aria-label", text);
    this.canvas.hidden = columns < 0;
    if (columns < 0) {
      this.area = null;
      this.readout.textContent = `${variable.name} = ${figure(cells.values[0])} ${units}`;
      return;
    }
    const side = this.#side(columns, window);
    this.window = window;
    if (rows < 0) {
      const lines = [{ values: cells.values, ink: colour("series-1") }];
      this.area = drawLines(this.canvas, { lines, side, low, high, units, width });
    } else {
      const up = this.#side(rows, window);
      up.upward = !up.isDown;
      const sides = { grid: cells, rows: up, columns: side };
      this.area = drawMap(this.canvas, { ...sides, scale: scaleOf(scale), low, high, units, width });
    }
    const { left, top, right, bottom } = this.area;
    this.canvas.dataset.area = [left, top, right, bottom].join(" ");
  }

  /** Give the index, and its place among those that were read, at a share of a side. */
  nearest(dim, share) {
    const [first, last] = this.window[dim];
    const wanted = first + share * (last - first) - 0.5;
    const indices = this.picture.read.indices[this.places[dim]];
    const step = indices.length > 1 ? indices[1] - indices[0] : 1;
    const at = Math.max(0, Math.min(indices.length - 1, Math.round((wanted - indices[0]) / step)));
    return [indices[at], at];
  }

  /** Give the indices of the drawn dimensions at a point, as `{[dim]: index}`. */
  indicesAt(x, y) {
    const { rows, columns } = this.picture;
    const at = { [columns]: this.nearest(columns, x)[0] };
    if (rows >= 0) at[rows] = this.nearest(rows, this.#upward(y))[0];
    return at;
  }

  /** Give the values that are drawn as the rows of a table: coordinates, and the value. */
  rows() {
    const { variable, axes, rows, columns, read } = this.picture;
    const drawn = [rows, columns].filter((dim) => dim >= 0);
    const table = [[...drawn.map((dim) => variable.dims[dim]), variable.name]];
    const isShown = (dim, index) => index + 1 > this.window[dim][0] && index < this.window[dim][1];
    const width = read.indices.at(-1)?.length ?? 1;
    read.values.forEach((value, place) => {
      const places = [Math.floor(place / width), place % width].slice(2 - drawn.length);
      const indices = places.map((at, side) => read.indices[side][at]);
      if (!drawn.every((dim, side) => isShown(dim, indices[side]))) return;
      const where = drawn.map((dim, side) => exact(axes[dim], indices[side]));
      table.push([...where, Number.isFinite(value) ? value : ""]);
    });
    return table;
  }

  #upward(y) {
    return this.picture.axes[this.picture.rows].isDown ? y : 1 - y;
  }

  /** Say what is under a point. */
  point(x, y) {
    const { variable, axes, rows, columns, cells, span } = this.picture;
    const name = (dim, index) => `${variable.dims[dim]} = ${axes[dim].write(axes[dim].at(index))}`;
    const [column, across] = this.nearest(columns, x);
    const words = [name(columns, column)];
    let place = across;
    if (rows >= 0) {
      const [row, up] = this.nearest(rows, this.#upward(y));
      words.unshift(name(rows, row));
      place += up * cells.width;
    }
    for (const each of this.beside)
      words.push(`${each.name} = ${short(each.values[place])} ${each.units}`.trim());
    const value = cells.values[place];
    const units = Number.isFinite(value) ? unitsOf(variable.attributes) : "";
    this.readout.textContent = `${words.join(", ")}: ${figure(value, span)} ${units}`.trim();
  }
}
