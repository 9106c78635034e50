// A map: sampled points as coloured cells, with axes and a colour scale.

import { colour, sized } from "../core/dom.js";
import { drawMarks, drawNames, short, ticks } from "./axes.js";
import { placeOf } from "./colours.js";
import { marks, widthOf } from "./marks.js";

const TOP = 8;
const BOTTOM = 38;
const TITLE = 30; // room for the name of an axis and its marks
const BAR = 14;
const RIGHT = 78;

/** Draw a grid; gives the area that the cells take, to find what is under the pointer. */
export function drawMap(canvas, { grid, rows, columns, scale, low, high, units, width }) {
  const left = TITLE + widthOf(canvas, rows);
  const inner = Math.max(60, width - left - RIGHT);
  const ratio = (rows.last - rows.first) / Math.max(1, columns.last - columns.first);
  const height = Math.max(140, Math.min(560, Math.round(inner * ratio)));
  const area = { left, top: TOP, right: left + inner, bottom: TOP + height, width };
  const context = sized(canvas, width, TOP + height + BOTTOM);
  const ink = colour("ink");
  place(context, painted(grid, { upward: rows.upward, scale, low, high }), area, rows, columns);
  context.strokeStyle = colour("line");
  context.strokeRect(area.left - 0.5, area.top - 0.5, inner + 1, height + 1);
  drawMarks(context, "x", area, marks(columns, area.left, area.right, Math.floor(inner / 80)), ink);
  const [from, to] = rows.upward ? [area.bottom, area.top] : [area.top, area.bottom];
  drawMarks(context, "y", area, marks(rows, from, to, Math.floor(height / 40)), ink);
  drawNames(context, area, columns.title, rows.title, BOTTOM, ink);
  bar(context, area, { scale, low, high, units, ink });
  return area;
}

/** Put the cells where their indices are; the last ones may reach beyond the area. */
function place(context, picture, { left, top, right, bottom }, rows, columns) {
  const [width, height] = [(right - left) * covered(columns), (bottom - top) * covered(rows)];
  context.save();
  context.beginPath();
  context.rect(left, top, right - left, bottom - top);
  context.clip();
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, left, rows.upward ? bottom - height : top, width, height);
  context.restore();
}

/** Give how much of a side the cells take, of 1. */
function covered({ first, last, indices }) {
  const step = indices.length > 1 ? indices[1] - indices[0] : last - first;
  return (indices.length * step) / (last - first);
}

/** Paint the cells, one pixel each. */
function painted({ values, height, width }, { upward, scale, low, high }) {
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const paints = Uint32Array.from(scale, pixel);
  const none = pixel(components(colour("no-data")));
  for (let row = 0; row < height; row += 1) {
    const from = (upward ? height - 1 - row : row) * width;
    for (let column = 0; column < width; column += 1) {
      const value = values[from + column];
      pixels[row * width + column] = Number.isFinite(value)
        ? paints[placeOf(value, low, high)]
        : none;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Give a colour as the four bytes of a pixel. */
function pixel([red, green, blue]) {
  return new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];
}

/** Give the parts of a colour that is written as 'rgb(red, green, blue)'. */
function components(text) {
  return text.match(/\d+/g).slice(0, 3).map(Number);
}

function bar(context, area, { scale, low, high, units, ink }) {
  const left = area.right + 14;
  const height = area.bottom - area.top;
  for (let step = 0; step < height; step += 1) {
    const [red, green, blue] = scale[Math.round((255 * (height - 1 - step)) / (height - 1))];
    context.fillStyle = `rgb(${red} ${green} ${blue})`;
    context.fillRect(left, area.top + step, BAR, 1);
  }
  context.fillStyle = ink;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const value of ticks(low, high, Math.floor(height / 40))) {
    const share = high > low ? (value - low) / (high - low) : 0.5;
    context.fillText(short(value), left + BAR + 5, area.bottom - share * height);
  }
  context.textBaseline = "bottom";
  context.textAlign = "right";
  context.fillText(units, area.width, area.bottom + BOTTOM);
}
