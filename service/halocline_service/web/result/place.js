// A view of a result in the fragment of an address: variable, dimensions, slice, part and colours.

import { el } from "../core/dom.js";
import { SCALES } from "./colours.js";

const AT = "at.";
const PART = "part.";
const LINE = "values"; // stands for the side of a line that no dimension has

/** A link to the view that is shown; `onOpen(view)` takes another one that the address names. */
export class ViewLink {
  constructor(onOpen) {
    this.element = el("a", { class: "button" }, "Link to this view");
    window.addEventListener("hashchange", () => {
      const view = this.source && this.asked(this.source);
      if (view && location.hash !== this.element.hash) onOpen(view);
    });
  }

  /** Give the view of a result that the address names; null where it names none. */
  asked(source) {
    this.source = source;
    return viewOf(location.hash, source);
  }

  /** Lead to a view. */
  show(view) {
    this.element.href = location.pathname + location.search + fragmentOf(view);
  }
}

/** Write a view as a fragment, which `viewOf` reads. */
function fragmentOf({ variable, rows, columns, fixed, window, limits }) {
  const { dims, shape } = variable;
  const words = new URLSearchParams({ variable: variable.name });
  if (columns >= 0) words.set("across", dims[columns]);
  words.set("up", rows < 0 ? LINE : dims[rows]);
  dims.forEach((dim, place) => {
    const [first, last] = window[place];
    if (place !== rows && place !== columns) words.set(AT + dim, fixed[place]);
    else if (first > 0 || last < shape[place])
      words.set(PART + dim, `${+first.toPrecision(6)}:${+last.toPrecision(6)}`);
  });
  words.set("colours", limits.scale);
  for (const [word, limit] of [
    ["from", limits.low],
    ["to", limits.high],
  ])
    if (Number.isFinite(limit)) words.set(word, limit);
  return `#${words}`;
}

/** Read the view of a fragment: what a result has of it; null where it names no variable. */
function viewOf(fragment, source) {
  const words = new URLSearchParams(fragment.replace(/^#/, ""));
  const variable = source.variable(words.get("variable"));
  if (!variable) return null;
  const { dims, shape } = variable;
  const number = (word) => (words.get(word)?.trim() ? Number(words.get(word)) : NaN);
  const [rows, columns] = [dims.indexOf(words.get("up")), dims.indexOf(words.get("across"))];
  const isDrawable = columns >= 0 && columns !== rows && (rows >= 0 || words.get("up") === LINE);
  const scale = words.get("colours");
  const [low, high] = [number("from"), number("to")];
  return {
    variable,
    sides: isDrawable ? [rows, columns] : null,
    fixed: dims.map((dim, place) => bounded(number(AT + dim), shape[place])),
    window: dims.map((dim, place) => partOf(words.get(PART + dim), shape[place])),
    limits: {
      ...(Object.hasOwn(SCALES, scale) ? { scale } : {}),
      low: Number.isFinite(low) ? low : null,
      high: Number.isFinite(high) ? high : null,
    },
  };
}

/** Give an index that a dimension has. */
const bounded = (index, length) =>
  Number.isFinite(index) ? Math.max(0, Math.min(length - 1, Math.round(index))) : 0;

/** Read a part of a dimension; all of it where there is none such. */
function partOf(text, length) {
  const [first, last] = (text ?? "").split(":").map((each) => (each.trim() ? Number(each) : NaN));
  return first >= 0 && last <= length && last - first >= Math.min(1, length) ? [first, last] : [0, length];
}
