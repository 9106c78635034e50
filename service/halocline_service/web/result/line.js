// A line: values along one dimension, with axes; it breaks where there is no data.

import { colour, sized } from "../core/dom.js";
import { drawMarks, drawNames, short, ticks } from "./axes.js";
import { marks } from "./marks.js";

const [TOP, BOTTOM, LEFT, RIGHT, HEIGHT] = [10, 38, 74, 16, 300];

/** Draw values; gives the area that they take. */
export function drawLine(canvas, { values, columns, low, high, units, width }) {
  const inner = Math.max(60, width - LEFT - RIGHT);
  const area = { left: LEFT, top: TOP, right: LEFT + inner, bottom: TOP + HEIGHT, width };
  const context = sized(canvas, width, TOP + HEIGHT + BOTTOM);
  const [from, to] = high > low ? [low, high] : [low - 1, high + 1];
  const y = (value) => area.bottom - ((value - from) / (to - from)) * HEIGHT;
  const { first, last, indices } = columns;
  const x = (index) => area.left + ((index + 0.5 - first) / (last - first)) * inner;
  context.strokeStyle = colour("line");
  context.strokeRect(area.left - 0.5, area.top - 0.5, inner + 1, HEIGHT + 1);
  context.strokeStyle = colour("series-1");
  context.lineWidth = 1.5;
  context.save();
  context.beginPath();
  context.rect(area.left, area.top, inner, HEIGHT);
  context.clip();
  context.beginPath();
  let pen = false;
  values.forEach((value, place) => {
    const isThere = Number.isFinite(value);
    if (isThere && pen) context.lineTo(x(indices[place]), y(value));
    else if (isThere) context.moveTo(x(indices[place]), y(value));
    pen = isThere;
  });
  context.stroke();
  context.restore();
  const ink = colour("ink");
  drawMarks(context, "x", area, marks(columns, area.left, area.right, inner / 80), ink);
  drawMarks(
    context,
    "y",
    area,
    ticks(from, to, 6).map((value) => [Math.round(y(value)), short(value)]),
    ink,
  );
  drawNames(context, area, columns.title, units, BOTTOM, ink);
  return area;
}
