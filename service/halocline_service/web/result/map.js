// A map: sampled points as coloured cells, with coastlines, axes and a colour scale.

import { colour, sized } from "../core/dom.js";
import { drawMarks, drawNames, short, ticks } from "./axes.js";
import { coastOf, hasCoast } from "./coast.js";
import { placeOf } from "./colours.js";
import { marks, widthOf } from "./marks.js";

const TOP = 8;
const BOTTOM = 38;
const TITLE = 30; // room for the name of an axis and its marks
const BAR = 14;
const RIGHT = 78;

/**
 * Draw a grid; gives the area that the cells take, to find what is under the pointer.
 *
 * `rows` and `columns` say which indices were read, `from` and `to` which part of them is shown.
 */
export function drawMap(canvas, { grid, rows, columns, scale, low, high, units, width }) {
  const left = TITLE + widthOf(canvas, rows);
  const inner = Math.max(60, width - left - RIGHT);
  const ratio = rows.length / Math.max(1, columns.length);
  const height = Math.max(140, Math.min(560, Math.round(inner * ratio)));
  const area = { left, top: TOP, right: left + inner, bottom: TOP + height, width };
  const context = sized(canvas, width, TOP + height + BOTTOM);
  const ink = colour("ink");
  const place = placing(area, rows, columns);
  context.save();
  context.beginPath();
  context.rect(left, TOP, inner, height);
  context.clip();
  drawCells(context, painted(grid, { scale, low, high }), place, rows, columns);
  if (hasCoast(rows, columns)) drawCoast(context, place, rows, columns);
  context.restore();
  context.strokeStyle = colour("line");
  context.strokeRect(area.left - 0.5, area.top - 0.5, inner + 1, height + 1);
  drawMarks(context, "x", area, marks(columns, area.left, area.right, Math.floor(inner / 80)), ink);
  const [from, to] = rows.upward ? [area.bottom, area.top] : [area.top, area.bottom];
  drawMarks(context, "y", area, marks(rows, from, to, Math.floor(height / 40)), ink);
  drawNames(context, area, columns.title, rows.title, BOTTOM, ink);
  bar(context, area, { scale, low, high, units, ink });
  return area;
}

/** Give the matrix from indices of columns and rows to the canvas. */
function placing({ left, top, right, bottom }, rows, columns) {
  const across = (right - left) / (columns.last - columns.first);
  const down = ((bottom - top) / (rows.last - rows.first)) * (rows.upward ? -1 : 1);
  const start = rows.upward ? bottom : top;
  return new DOMMatrix([
    across,
    0,
    0,
    down,
    left - columns.first * across,
    start - rows.first * down,
  ]);
}

/** Put the cells where their indices are. */
function drawCells(context, picture, place, rows, columns) {
  const [x, wide] = extent(columns);
  const [y, high] = extent(rows);
  context.save();
  context.imageSmoothingEnabled = false;
  context.transform(place.a, 0, 0, place.d, place.e, place.f);
  context.drawImage(picture, x, y, wide, high);
  context.restore();
}

/** Give the first index that the cells of a side cover, and how many. */
function extent({ length, indices }) {
  const step = indices.length > 1 ? indices[1] - indices[0] : length;
  const first = indices.length > 1 ? indices[0] - Math.floor((step - 1) / 2) : 0;
  return [first, step * indices.length];
}

function drawCoast(context, place, rows, columns) {
  const path = new Path2D();
  path.addPath(coastOf(rows, columns), place);
  context.lineJoin = "round";
  context.strokeStyle = "#ffffff";
  context.globalAlpha = 0.6;
  context.lineWidth = 2.2;
  context.stroke(path);
  context.globalAlpha = 1;
  context.strokeStyle = "#17242b";
  context.lineWidth = 0.9;
  context.stroke(path);
}

const pictures = new WeakMap(); // of grids, as they were painted last

/** Paint the cells, one pixel each; the first row is the first of the picture. */
function painted(grid, { scale, low, high }) {
  const none = colour("no-data");
  const kept = pictures.get(grid);
  const isSame = kept?.scale === scale && kept.low === low && kept.high === high;
  if (isSame && kept.none === none) return kept.canvas;
  const { values, height, width } = grid;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const paints = Uint32Array.from(scale, pixel);
  const noData = pixel(none.match(/\d+/g).slice(0, 3).map(Number));
  for (let place = 0; place < values.length; place += 1) {
    const value = values[place];
    pixels[place] = Number.isFinite(value) ? paints[placeOf(value, low, high)] : noData;
  }
  context.putImageData(image, 0, 0);
  pictures.set(grid, { scale, low, high, none, canvas });
  return canvas;
}

/** Give a colour as the four bytes of a pixel. */
function pixel([red, green, blue]) {
  return new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];
}

function bar(context, area, { scale, low, high, units, ink }) {
  const left = area.right + 14;
  const height = area.bottom - area.top;
  const paint = context.createLinearGradient(0, area.bottom, 0, area.top);
  for (let step = 0; step <= 16; step += 1) {
    const [red, green, blue] = scale[Math.round((255 * step) / 16)];
    paint.addColorStop(step / 16, `rgb(${red} ${green} ${blue})`);
  }
  context.fillStyle = paint;
  context.fillRect(left, area.top, BAR, height);
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
