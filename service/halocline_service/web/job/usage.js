// Memory, processors and speed of a job over time.

import { colour, el, framed } from "../core/dom.js";
import { duration, scaled, size } from "../core/words.js";
import { short } from "../result/axes.js";
import { drawLines } from "../result/line.js";

const POINTS = 120;
const HEIGHT = 130;

export class UsageView {
  constructor(history) {
    this.history = history;
    this.plots = el("div", { class: "plots" });
    this.element = el(
      "section",
      { class: "card", hidden: true },
      el("h2", {}, "Memory and speed over time"),
      this.plots,
    );
    this.frame = framed(() => this.#draw());
    document.addEventListener("themechange", this.frame);
    window.addEventListener("resize", this.frame);
  }

  /** Draw again if there is something new. */
  update() {
    const { usage, track } = this.history;
    const known = usage.length + track.length;
    if (known === this.known) return;
    this.known = known;
    this.frame();
  }

  #draw() {
    const shown = plotsOf(this.history).filter(({ points }) => points.length > 2);
    this.element.hidden = shown.length === 0;
    if (this.element.hidden) return;
    this.plots.replaceChildren(
      ...shown.map(({ title, unit, points, now }) => {
        const canvas = el("canvas", { role: "img", "aria-label": `${title}: ${now}` });
        const figure = el("figure", {}, el("figcaption", {}, `${title}: ${now}`), canvas);
        requestAnimationFrame(() => draw(canvas, points, unit, figure.clientWidth));
        return figure;
      }),
    );
  }
}

/** Give what is drawn: `points` are `[seconds, value]`. */
function plotsOf({ usage, track, plan }) {
  const start = Math.min(usage[0]?.at ?? Infinity, track[0]?.[0] ?? Infinity);
  const memory = usage.map(({ at, memory: bytes }) => [at - start, bytes / 2 ** 20]);
  const processors = usage.map(({ at, processors: busy }) => [at - start, busy]);
  const last = usage.at(-1);
  const { points, unit, words } = speedOf(track, plan, start);
  return [
    { title: "Memory of all workers", unit: "MiB", points: memory, now: last ? size(last.memory) : "" },
    { title: "Processors busy", unit: "", points: processors, now: last ? short(last.processors) : "" },
    { title: "Speed", unit, points, now: points.length > 0 ? words(points.at(-1)[1]) : "" },
  ];
}

/** Give the speed from how far the job was when: in steps, or in bytes where it makes one. */
function speedOf(track, plan, start) {
  const isSteps = (plan?.steps ?? 1) > 1;
  const bytes = (plan?.input_bytes ?? 0) + (plan?.result_bytes ?? 0);
  const whole = isSteps ? plan.steps : bytes / 2 ** 20;
  const every = Math.max(1, Math.floor(track.length / POINTS));
  const points = [];
  for (let place = every; place < track.length; place += every) {
    const [[from, before], [to, reached]] = [track[place - every], track[place]];
    if (to > from) points.push([to - start, ((reached - before) * whole) / (to - from)]);
  }
  return {
    points: whole > 0 ? points : [],
    unit: isSteps ? "steps a second" : "MiB a second",
    words: (value) => `${scaled(value)} ${isSteps ? "steps" : "MiB"} a second`,
  };
}

/** Draw points over time on even places, which is what lines are drawn over. */
function draw(canvas, points, unit, width) {
  if (width === 0) return;
  const end = points.at(-1)[0];
  const count = Math.min(POINTS, Math.max(2, points.length * 2));
  const values = [];
  let place = 0;
  for (let index = 0; index < count; index += 1) {
    const at = (index / (count - 1)) * end;
    while (place < points.length - 1 && points[place + 1][0] <= at) place += 1;
    values.push(points[place][0] <= at + 1e-9 ? points[place][1] : NaN);
  }
  const side = {
    first: 0,
    last: count,
    indices: values.map((_, index) => index),
    at: (index) => (index / (count - 1)) * end,
    write: (seconds) => duration(seconds),
    isRound: true,
    title: "since the start",
  };
  const high = Math.max(1e-9, ...values.filter(Number.isFinite)) * 1.08;
  const lines = [{ values, ink: colour("series-1"), isPlain: true }];
  drawLines(canvas, { lines, side, low: 0, high, units: unit, width, height: HEIGHT });
}
