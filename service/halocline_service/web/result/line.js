// Lines: values along one dimension, with axes; they break where there is no data. Along a vertical
// dimension the values go across.

import { colour, sized } from "../core/dom.js";
import { drawMarks, drawNames, range, short, ticks } from "./axes.js";
import { marks, widthOf } from "./marks.js";

const [TOP, BOTTOM, LEFT, RIGHT] = [10, 38, 74, 16];

/**
 * Draw lines, `{values, ink}` each; gives the area that they take.
 *
 * `side` is what they go along; `isUpright` draws that from below upwards, or downwards.
 */
export function drawLines(canvas, { lines, side, low, high, units, width, ...how }) {
  const { height = 300, isUpright = false } = how;
  const left = isUpright ? 30 + widthOf(canvas, side) : LEFT;
  const inner = Math.max(60, width - left - RIGHT);
  const area = { left, top: TOP, right: left + inner, bottom: TOP + height, width };
  const context = sized(canvas, width, TOP + height + BOTTOM);
  const [from, to] = high > low ? [low, high] : [low - 1, high + 1];
  const isFalling = isUpright && side.isDown;
  const along = isUpright
    ? (share) => (isFalling ? TOP + share * height : area.bottom - share * height)
    : (share) => left + share * inner;
  const values = isUpright
    ? (value) => left + ((value - from) / (to - from)) * inner
    : (value) => area.bottom - ((value - from) / (to - from)) * height;
  const at = (index) => along((index + 0.5 - side.first) / (side.last - side.first));
  const point = (index, value) => (isUpright ? [values(value), at(index)] : [at(index), values(value)]);
  context.strokeStyle = colour("line");
  context.strokeRect(left - 0.5, TOP - 0.5, inner + 1, height + 1);
  context.save();
  context.beginPath();
  context.rect(left, TOP, inner, height);
  context.clip();
  for (const line of lines) drawLine(context, line, side.indices, point);
  context.restore();
  const ink = colour("ink");
  const ends = [along(0), along(1)];
  const ofSide = marks(side, ...ends, (isUpright ? height : inner) / (isUpright ? 40 : 80));
  const ofValues = ticks(from, to, isUpright ? inner / 80 : height / 50).map((value) => [
    Math.round(values(value)),
    short(value),
  ]);
  drawMarks(context, "x", area, isUpright ? ofValues : ofSide, ink);
  drawMarks(context, "y", area, isUpright ? ofSide : ofValues, ink);
  const names = isUpright ? [units, side.title] : [side.title, units];
  drawNames(context, area, ...names, BOTTOM, ink);
  return area;
}

function drawLine(context, { values, ink, isPlain = false }, indices, point) {
  context.strokeStyle = context.fillStyle = ink;
  context.lineWidth = 1.7;
  context.beginPath();
  let pen = false;
  values.forEach((value, place) => {
    const isThere = Number.isFinite(value);
    if (isThere && pen) context.lineTo(...point(indices[place], value));
    else if (isThere) context.moveTo(...point(indices[place], value));
    pen = isThere;
  });
  context.stroke();
  if (values.length > 60 || isPlain) return;
  values.forEach((value, place) => {
    if (!Number.isFinite(value)) return;
    context.beginPath();
    context.arc(...point(indices[place], value), 2.2, 0, 2 * Math.PI);
    context.fill();
  });
}

/** Give the limits of several lines, with a little room. */
export function limitsOf(lines) {
  const [low, high] = range(lines.flatMap(({ values }) => [...values]));
  const room = (high - low) * 0.05;
  return { low: low - room, high: high + room };
}
