// Makes ../coast.js: `node coast.js path/to/land-110m.json > ../coast.js`, with the file of the npm
// package world-atlas 2.0.2.

const { readFileSync } = require("node:fs");

const HEAD = `\
// Coastlines of the world: Natural Earth 1:110m land 4.1.0, which is in the public domain, as
// redistributed by the npm package world-atlas 2.0.2. Each line is a longitude and a latitude in
// tenths of a degree, then the steps to the points that follow. Made by make/coast.js.
`;

const { arcs, transform } = JSON.parse(readFileSync(process.argv[2]));
const isEdge = ([x0, y0], [x1, y1]) =>
  (Math.abs(x0) >= 1799 && Math.abs(x1) >= 1799) || (y0 <= -899 && y1 <= -899);

/** Give the points of an arc in tenths of a degree, as lines without the edges of the map. */
function linesOf(arc) {
  const lines = [[]];
  const at = [0, 0];
  for (const step of arc) {
    const point = [0, 1].map((axis) => {
      at[axis] += step[axis];
      return Math.round(10 * (at[axis] * transform.scale[axis] + transform.translate[axis]));
    });
    const last = lines.at(-1).at(-1);
    if (last && isEdge(last, point)) lines.push([]);
    if (!last || String(last) !== String(point)) lines.at(-1).push(point);
  }
  return lines.filter(({ length }) => length > 2);
}

const steps = (line) =>
  line.flatMap(([x, y], place) =>
    place === 0 ? [x, y] : [x - line[place - 1][0], y - line[place - 1][1]],
  );
const coast = arcs.flatMap(linesOf).map(steps);
process.stdout.write(`${HEAD}export const COAST = ${JSON.stringify(coast)};\n`);
