// Pointing into a picture, by pointer or by keys: what is there, choosing a part, moving, zooming.

import { el } from "../core/dom.js";

const LEAST = 6; // pixels that a drag must have
const NOTCH = 0.0015; // how far a pixel of a wheel zooms

/**
 * Make a layer over a canvas.
 *
 * `area()` is the part of it that is drawn on. `onPoint(x, y)` is told shares of it, from 0 to 1;
 * `onPick(x, y)` what was clicked; `onSelect([x0, x1], [y0, y1])` what was dragged over;
 * `onMove(x, y)` by how much of a side was dragged where `canMove()`; `onZoom(factor, at)` is asked
 * for by wheel and keys, and by 0 for all.
 */
export function pointing(canvas, handlers) {
  const { area, onPoint, onPick, onSelect, onMove, canMove, onZoom } = handlers;
  const cross = el("div", { class: "cross", hidden: true });
  const box = el("div", { class: "box", hidden: true });
  const layer = el("div", { class: "layer" }, canvas, cross, box);
  let at = [0.5, 0.5];
  let from = null; // where a drag began
  let last = null; // where it was when the picture was moved
  let isMoving = false;
  const unbounded = (event) => {
    const { left, top, right, bottom } = area();
    const bounds = canvas.getBoundingClientRect();
    return [
      (event.clientX - bounds.left - left) / (right - left),
      (event.clientY - bounds.top - top) / (bottom - top),
    ];
  };
  const share = (event) => unbounded(event).map((value) => Math.max(0, Math.min(1, value)));
  const mark = (place) => {
    at = place;
    const [x, y] = pixels(area(), at);
    cross.hidden = false;
    cross.style.transform = `translate(${x}px, ${y}px)`;
  };
  const point = (place) => {
    mark(place);
    onPoint(...at);
  };
  const drag = (event) => {
    if (isMoving) {
      const now = unbounded(event);
      onMove(now[0] - last[0], now[1] - last[1]);
      last = now;
      return;
    }
    const [x0, y0] = pixels(area(), from);
    const [x1, y1] = pixels(area(), share(event));
    const [width, height] = [Math.abs(x1 - x0), Math.abs(y1 - y0)];
    box.hidden = width < LEAST || height < LEAST;
    box.style.transform = `translate(${Math.min(x0, x1)}px, ${Math.min(y0, y1)}px)`;
    [box.style.width, box.style.height] = [`${width}px`, `${height}px`];
  };
  const isClick = (event) => {
    const [x0, y0] = pixels(area(), from);
    const [x1, y1] = pixels(area(), unbounded(event));
    return Math.hypot(x1 - x0, y1 - y0) < LEAST;
  };
  canvas.addEventListener("pointermove", (event) => {
    if (!area()) return;
    if (!isMoving) point(share(event));
    if (from) drag(event);
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (!area() || event.button !== 0 || event.pointerType === "touch") return;
    from = share(event);
    last = unbounded(event);
    isMoving = canMove() && !event.shiftKey;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (from && isClick(event)) onPick(...share(event));
    else if (from && !isMoving && !box.hidden) onSelect(...sorted(from, share(event)));
    [from, box.hidden, isMoving] = [null, true, false];
  });
  canvas.addEventListener("click", (event) => {
    if (event.pointerType === "touch" && area()) {
      point(share(event));
      onPick(...share(event));
    }
  });
  canvas.addEventListener("dblclick", () => onZoom(0));
  canvas.addEventListener(
    "wheel",
    (event) => {
      const isMeant = event.ctrlKey || document.activeElement === canvas;
      if (!area() || !isMeant) return; // else the page is scrolled
      event.preventDefault();
      onZoom(Math.exp(event.deltaY * NOTCH), share(event));
    },
    { passive: false },
  );
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
    else if (event.key === "Enter") onPick(...at);
    else return;
    event.preventDefault();
  });
  const forget = () => {
    cross.hidden = true;
    at = [0.5, 0.5];
  };
  const mirror = (place) => {
    if (area()) mark(place);
  };
  return { layer, forget, mirror, at: () => at };
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
