// The roofline of a job: how fast kernels were, beside what the machine of each worker can do.

import { el, svg } from "../core/dom.js";
import { duration, scaled, size } from "../core/words.js";
import { nameOf } from "./workers.js";

const [WIDTH, HEIGHT] = [560, 300];
const MARGIN = { left: 74, right: 16, top: 14, bottom: 44 };
const SERIES = 6;
const NOTE =
  "Bytes: each field that a step reads or writes, counted once a step; in sequences and other " +
  "processes, once a block. The slope is the measured rate of copies, the level that of a product " +
  "of matrices in float64. Points above the slope keep fields in a cache between steps.";

export class RooflineView {
  constructor(history) {
    this.history = history;
    this.picture = el("div", { class: "scroll" });
    this.table = el("div", { class: "scroll" });
    this.note = el("p", { class: "note" });
    this.element = el(
      "section",
      { class: "card", hidden: true, id: "roofline" },
      el("h2", {}, "Rates of the kernels"),
      this.picture,
      this.table,
      this.note,
    );
  }

  /** Show what workers told at the end. */
  update() {
    const { worked, ceilings } = this.history;
    const told = worked.length + Object.keys(ceilings).length;
    if (worked.length === 0 || this.told === told) return;
    this.told = told;
    this.element.hidden = false;
    const rows = worked.map((one, place) => ({
      ...ratesOf(one, ceilings[one.worker]),
      ink: `series-${(place % SERIES) + 1}`,
    }));
    const chart = drawn(rows);
    this.picture.replaceChildren(...(chart ? [chart] : []));
    this.table.replaceChildren(table(rows));
    this.note.textContent = chart ? NOTE : NOTE.slice(0, NOTE.indexOf("The slope"));
  }
}

/** Give what there is to show of a worker; null is unknown. */
export function ratesOf(told, ceiling) {
  const { bytes, operations, computing } = told;
  const per = (number) => (number > 0 && computing > 0 ? number / computing : null);
  const copy = ceiling?.copy_rate || null;
  const most = ceiling?.operation_rate || null;
  const moved = per(bytes);
  return {
    name: nameOf(told),
    bytes,
    seconds: computing,
    moved,
    rate: per(operations),
    intensity: operations > 0 && bytes > 0 ? operations / bytes : null,
    copy,
    most,
    share: moved !== null && copy !== null ? moved / copy : null,
  };
}

function table(rows) {
  const head = ["Worker", "Bytes", "In kernels", "Rate", "Copy", "Share of it", "Operations"];
  const cells = rows.map((row) => [
    [el("span", { class: `mark ${row.ink}` }), row.name],
    size(row.bytes),
    duration(row.seconds),
    row.moved === null ? "—" : `${size(row.moved)}/s`,
    row.copy === null ? "not measured" : `${size(row.copy)}/s`,
    row.share === null ? "—" : `${Math.round(row.share * 100)} %`,
    row.rate === null ? "none counted" : `${scaled(row.rate)}/s`,
  ]);
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, head.map((word) => el("th", { scope: "col" }, word)))),
    el("tbody", {}, cells.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell))))),
  );
}

/** Draw the points below the roof of each machine, on logarithmic axes; null without any. */
function drawn(rows) {
  const points = rows.filter(({ rate, copy }) => rate !== null && copy !== null);
  if (points.length === 0) return null;
  const ridges = points.map(({ most, copy, intensity }) => (most ? most / copy : intensity));
  const across = decades([...points.map(({ intensity }) => intensity), ...ridges]);
  const up = decades(points.flatMap(({ rate, copy, intensity, most }) =>
    [rate, copy * intensity, ...(most ? [most] : [])]));
  const x = scale(across, MARGIN.left, WIDTH - MARGIN.right);
  const y = scale(up, HEIGHT - MARGIN.bottom, MARGIN.top);
  const words = points.map(spoken);
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, class: "roofline", role: "img" },
    svg("title", {}, `Roofline. ${words.join(" ")}`),
    ...axes(across, up, x, y),
    ...points.map((point) => roof(point, across, up, x, y)),
    ...points.map(({ intensity, rate, name, ink }) =>
      svg(
        "circle",
        { cx: x(intensity), cy: y(rate), r: 5, class: `point ${ink}` },
        svg("title", {}, name),
      ),
    ),
  );
}

function spoken({ name, rate, intensity, copy, most }) {
  const attainable = Math.min(most ?? Infinity, copy * intensity);
  return (
    `${name}: ${scaled(rate)} operations a second, ${Math.round((rate / attainable) * 100)} % of ` +
    `the ${scaled(attainable)} that its memory and cores allow at ${intensity.toPrecision(2)} ` +
    "operations a byte."
  );
}

/** Give whole powers of ten around some numbers, as their exponents. */
function decades(numbers) {
  const logs = numbers.map(Math.log10);
  const low = Math.floor(Math.min(...logs) - 0.2);
  return [low, Math.max(low + 1, Math.ceil(Math.max(...logs) + 0.2))];
}

function scale([low, high], from, to) {
  return (number) => from + ((Math.log10(number) - low) / (high - low)) * (to - from);
}

function axes(across, up, x, y) {
  const [bottom, left] = [HEIGHT - MARGIN.bottom, MARGIN.left];
  const line = (x1, y1, x2, y2) => svg("line", { x1, y1, x2, y2, class: "grid" });
  const text = (x0, y0, anchor, words) =>
    svg("text", { x: x0, y: y0, "text-anchor": anchor }, words);
  const found = [];
  for (let power = across[0]; power <= across[1]; power += 1) {
    const at = x(10 ** power);
    found.push(line(at, MARGIN.top, at, bottom));
    found.push(text(at, bottom + 16, "middle", String(Number(`1e${power}`))));
  }
  for (let power = up[0]; power <= up[1]; power += 1) {
    const at = y(10 ** power);
    found.push(line(left, at, WIDTH - MARGIN.right, at));
    found.push(text(left - 6, at + 4, "end", `${scaled(10 ** power)}/s`));
  }
  const middle = (left + WIDTH - MARGIN.right) / 2;
  found.push(text(middle, HEIGHT - 8, "middle", "operations a byte"));
  return found;
}

/** Draw what a machine allows: the slope of its memory up to the level of its operations. */
function roof({ copy, most, ink }, across, up, x, y) {
  const [from, to] = across.map((power) => 10 ** power);
  const top = Math.min(10 ** up[1], most ?? Infinity);
  const start = Math.max(from, 10 ** up[0] / copy);
  const ridge = Math.min(to, top / copy);
  const points = [
    [start, copy * start],
    [ridge, copy * ridge],
    ...(most && ridge < to ? [[to, most]] : []),
  ];
  const path = points.map(([one, other]) => `${x(one)},${y(other)}`).join(" ");
  return svg("polyline", { points: path, class: `roof ${ink}` });
}
