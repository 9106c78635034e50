// What a point of the map has along the other dimensions: its series over time, its profile over
// levels.

import { colour, el } from "../core/dom.js";
import { figure } from "../core/words.js";
import { exact } from "./axes.js";
import { titleOf, unitsOf } from "./cf.js";
import { saveTable } from "./downloads.js";
import { drawLines, limitsOf } from "./line.js";
import { decode } from "./cf.js";

const MOST = 2000;
const HEIGHT = 190;

/** A place for the lines of the point that was picked last. */
export class SeriesView {
  constructor() {
    this.element = el("div", { class: "series", hidden: true });
  }

  /** Show nothing. */
  clear() {
    this.reading?.abort();
    this.element.hidden = true;
    this.shown = null;
  }

  /** Read and show the lines of a point: `pictures` of one or two results, `at` by dimension. */
  async pick(pictures, fixed, at) {
    this.reading?.abort();
    const { signal } = (this.reading = new AbortController());
    const [{ variable, axes }] = pictures;
    const dims = variable.dims.map((_, dim) => dim);
    const along = dims.filter((dim) => !(dim in at) && variable.shape[dim] > 1);
    const where = fixed.map((index, dim) => at[dim] ?? index);
    const place = dims
      .filter((dim) => dim in at)
      .map((dim) => `${variable.dims[dim]} = ${axes[dim].write(axes[dim].at(at[dim]))}`)
      .join(", ");
    this.element.hidden = false;
    if (along.length === 0) {
      this.element.replaceChildren(
        el("h3", {}, `At ${place}`),
        el("p", { class: "note" }, "This variable has no time or level to draw a series along."),
      );
      return;
    }
    const lines = await Promise.all(
      along.map((dim) =>
        Promise.all(pictures.map((picture) => lineOf(picture, where, dim, signal))),
      ),
    );
    if (signal.aborted) return;
    this.shown = along.map((dim, number) => ({ dim, read: lines[number] }));
    this.element.replaceChildren(
      el("h3", {}, `At ${place}`),
      el("div", { class: "plots" }, this.shown.map((one) => this.#plot(one, pictures))),
    );
    this.draw();
  }

  #plot(one, pictures) {
    const [{ variable, axes }] = pictures;
    const name = variable.dims[one.dim];
    one.canvas = el("canvas", {
      role: "img",
      "aria-label": `${titleOf(variable)} along ${name}, from ${figure(one.read[0].low)} to ${figure(one.read[0].high)}`,
    });
    one.axis = axes[one.dim];
    one.units = unitsOf(variable.attributes);
    one.isUpright = isVertical(one.axis, name);
    const save = () => saveTable(`${variable.name}-${name}.csv`, rowsOf(name, one, pictures));
    const title = one.isUpright ? "Profile" : "Series";
    return el(
      "figure",
      {},
      el("figcaption", {}, `${title} along ${name}`),
      one.canvas,
      el("button", { type: "button", class: "chip", onclick: save }, "Save as CSV"),
    );
  }

  /** Draw the lines again, as after a change of the theme. */
  draw() {
    for (const one of this.shown ?? []) {
      const { indices } = one.read[0];
      const lines = one.read.map(({ values }, number) => ({
        values,
        ink: colour(`series-${number + 1}`),
      }));
      const side = { ...one.axis, first: 0, last: one.axis.size, indices };
      const width = Math.max(240, one.canvas.parentElement.clientWidth);
      drawLines(one.canvas, {
        lines,
        side,
        ...limitsOf(lines),
        units: one.units,
        width,
        height: HEIGHT,
        isUpright: one.isUpright,
      });
    }
  }
}

const isVertical = ({ isLevel }, name) => isLevel || /^(z|k|depth|lev|level|height|alt)/i.test(name);

/** Read the values of one variable along a dimension. */
async function lineOf({ variable, axes }, where, dim, signal) {
  const length = variable.shape[dim];
  axes[dim].size = length;
  const fixed = where.map((index, other) => (other === dim ? null : index));
  const along = [{ dim, first: 0, last: length, most: MOST }];
  const { values, indices } = await variable.read({ fixed, along, signal });
  const known = decode(values, variable.attributes);
  const finite = [...known].filter(Number.isFinite);
  return {
    values: known,
    indices: indices[0],
    low: Math.min(...finite),
    high: Math.max(...finite),
  };
}

/** Give lines as the rows of a table. */
function rowsOf(name, { axis, read }, pictures) {
  const heads = [name, ...pictures.map(({ variable, title }) => title ?? variable.name)];
  const rows = read[0].indices.map((index, place) => [
    exact(axis, index),
    ...read.map(({ values }) => (Number.isFinite(values[place]) ? values[place] : "")),
  ]);
  return [heads, ...rows];
}
