// Pointing into a picture, by pointer or by keys, and choosing a part of it.

import { el } from "../core/dom.js";

const LEAST = 6; // pixels that a drag must have

/**
 * Make a layer over a canvas.
 *
 * `area()` is the part of it that is drawn on. `onPoint(x, y)` is told shares of it, from 0 to 1;
 * `onSelect([x0, x1], [y0, y1])` what was dragged over; `onZoom(factor)` is asked for by keys, and
 * by 0 for all.
 */
export function pointing(canvas, { area, onPoint, onSelect, onZoom }) {
  const cross = el("div", { class: "cross", hidden: true });
  const box = el("div", { class: "box", hidden: true });
  const layer = el("div", { class: "layer" }, canvas, cross, box);
  let at = [0.5, 0.5];
  let from = null;
  const share = (event) => {
    const { left, top, right, bottom } = area();
    const bounds = canvas.getBoundingClientRect();
    const inside = (value) => Math.max(0, Math.min(1, value));
    return [
      inside((event.clientX - bounds.left - left) / (right - left)),
      inside((event.clientY - bounds.top - top) / (bottom - top)),
    ];
  };
  const point = (place) => {
    at = place;
    const [x, y] = pixels(area(), at);
    cross.hidden = false;
    cross.style.transform = `translate(${x}px, ${y}px)`;
    onPoint(...at);
  };
  const drag = (place) => {
    const [x0, y0] = pixels(area(), from);
    const [x1, y1] = pixels(area(), place);
    const [width, height] = [Math.abs(x1 - x0), Math.abs(y1 - y0)];
    box.hidden = width < LEAST || height < LEAST;
    box.style.transform = `translate(${Math.min(x0, x1)}px, ${Math.min(y0, y1)}px)`;
    [box.style.width, box.style.height] = [`${width}px`, `${height}px`];
  };
  canvas.addEventListener("pointermove", (event) => {
    if (!area()) return;
    point(share(event));
    if (from) drag(share(event));
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (!area() || event.button !== 0 || event.pointerType === "touch") return;
    from = share(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (from && !box.hidden) onSelect(...sorted(from, share(event)));
    [from, box.hidden] = [null, true];
  });
  canvas.addEventListener("dblclick", () => onZoom(0));
  canvas.addEventListener("keydown", (event) => {
    if (!area()) return;
    const step = event.shiftKey ? 0.1 : 0.01;
    const moves = {
      ArrowLeft: [-step, 0],
      ArrowRight: [step, 0],
      ArrowUp: [0, -step],
      ArrowDown: [0, step],
    };
    const move = moves[event.key];
    if (move) point(at.map((value, axis) => Math.max(0, Math.min(1, value + move[axis]))));
    else if (event.key === "+") onZoom(0.5, at);
    else if (event.key === "-") onZoom(2, at);
    else if (event.key === "0") onZoom(0);
    else return;
    event.preventDefault();
  });
  const forget = () => {
    cross.hidden = true;
    at = [0.5, 0.5];
  };
  return { layer, forget, at: () => at };
}

const pixels = ({ left, top, right, bottom }, [x, y]) => [
  left + x * (right - left),
  top + y * (bottom - top),
];

function sorted([x0, y0], [x1, y1]) {
  return [
    [Math.min(x0, x1), Math.max(x0, x1)],
    [Math.min(y0, y1), Math.max(y0, y1)],
  ];
}
