// Which dimension of a variable is drawn along which side of the picture, and its coordinates.

import { short } from "./axes.js";
import { decode, isDownward, titleOf, unitsOf, writerOf } from "./cf.js";
import { isMonotonic } from "./marks.js";

const ACROSS = /^(x|lon|longitude|i|rlon|xc)$/i;
const UP = /^(y|lat|latitude|j|rlat|yc)$/i;
const LONGEST = 200_000; // of a coordinate that is read whole

/** Choose the dimensions of a map, `[rows, columns]`, as numbers; one of them may be -1. */
export function sides(variable, coordinates) {
  const wide = variable.dims.map((_, dim) => dim).filter((dim) => variable.shape[dim] > 1);
  const fits = (pattern, axis) =>
    wide.find((dim) => {
      const attributes = coordinates.get(variable.dims[dim])?.attributes ?? {};
      return attributes.axis === axis || pattern.test(variable.dims[dim]);
    });
  const columns = fits(ACROSS, "X") ?? wide.at(-1) ?? variable.dims.length - 1;
  const rows = fits(UP, "Y") ?? wide.filter((dim) => dim !== columns).at(-1) ?? -1;
  return rows === columns ? [-1, columns] : [rows, columns];
}

/** Whether two variables have the same dimensions, so that their series can be drawn together. */
export function sameDims({ variable: one }, { variable: other }) {
  return one.dims.join() === other.dims.join() && one.shape.join() === other.shape.join();
}

/** Find the variables that are the coordinates of dimensions. */
export function coordinatesOf(variables) {
  const own = variables.filter(({ name, dims }) => dims.length === 1 && dims[0] === name);
  return new Map(own.map((variable) => [variable.name, variable]));
}

/**
 * Read the coordinate of a dimension: `{title, at(index), write(value), isRound, isDown}`.
 *
 * `isRound` says that marks may stand between indices, at round numbers.
 */
export async function axisOf(name, length, coordinates) {
  const variable = coordinates.get(name);
  const isNumeric = variable && /^(u?int|float)/.test(variable.dtype);
  if (!isNumeric || length > LONGEST)
    return { title: `${name} (index)`, at: (index) => index, write: String, isDown: false };
  const whole = [{ dim: 0, first: 0, last: length, most: length }];
  const { values } = await variable.read({ fixed: [null], along: whole });
  const known = decode(values, variable.attributes);
  const units = unitsOf(variable.attributes);
  const write = writerOf(variable.attributes, short);
  const isTime = write !== short;
  const title = [titleOf(variable), units && !isTime ? `(${units})` : ""].filter(Boolean).join(" ");
  const falls = known.length > 1 && known[0] > known[known.length - 1];
  return {
    title,
    at: (index) => known[index],
    write,
    isRound: !isTime && isMonotonic(known),
    isDown: isDownward(variable.attributes) !== falls,
    degrees: degreesOf(variable.attributes),
    length: known.length,
  };
}

/** Give what degrees a coordinate has: "east", "north" or nothing. */
function degreesOf({ units, standard_name: name }) {
  const text = String(units ?? "").toLowerCase();
  if (/^degrees?_?e(ast)?$/.test(text) || name === "longitude") return "east";
  if (/^degrees?_?n(orth)?$/.test(text) || name === "latitude") return "north";
  return null;
}
