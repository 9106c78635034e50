// Coastlines over a map whose sides are longitudes and latitudes.

import { COAST } from "../vendor/coast.js";
import { indexIn } from "./marks.js";

const TURNS = [-360, 0, 360];
const paths = new Map(); // the last one, since it is drawn in many frames

/** Say whether the sides of a map are longitudes and latitudes that rise or fall all the way. */
export const hasCoast = (rows, columns) =>
  rows.degrees === "north" && columns.degrees === "east" && rows.isRound && columns.isRound;

/** Give the coastlines as a path in indices of rows and columns. */
export function coastOf(rows, columns) {
  const known = paths.get(columns.at);
  if (known?.rows === rows.at) return known.path;
  paths.clear();
  const [x, y] = [finder(columns), finder(rows)];
  const path = new Path2D();
  for (const turn of TURNS) for (const line of COAST) trace(path, line, turn, x, y);
  paths.set(columns.at, { rows: rows.at, path });
  return path;
}

/** Give what finds the index of a coordinate; NaN more than half a cell beyond the ends. */
function finder(axis) {
  const side = { ...axis, first: 0, last: axis.length };
  return (value) => {
    const index = indexIn(value, side);
    return index >= -0.5 && index <= axis.length - 0.5 ? index + 0.5 : NaN;
  };
}

function trace(path, line, turn, x, y) {
  let [east, north] = [line[0], line[1]];
  let pen = false;
  for (let place = 2; place <= line.length; place += 2) {
    const [across, up] = [x(east / 10 + turn), y(north / 10)];
    const isInside = !Number.isNaN(across) && !Number.isNaN(up);
    if (isInside && pen) path.lineTo(across, up);
    else if (isInside) path.moveTo(across, up);
    pen = isInside;
    east += line[place];
    north += line[place + 1];
  }
}
