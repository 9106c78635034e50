// Where the marks of an axis stand: at round coordinates where these rise or fall all the way, else
// at round indices.

import { ticks } from "./axes.js";

const FONT = "11px system-ui, sans-serif";

/** Give the marks of a side between two positions, about so many, as `[position, label]`. */
export function marks(side, from, to, about) {
  const { first, last, at, write, isRound } = side;
  const position = (index) =>
    Math.round(from + ((index + 0.5 - first) / (last - first)) * (to - from));
  const most = Math.max(2, about);
  if (!isRound || last - first < 2) {
    const indices = ticks(Math.ceil(first), Math.ceil(last) - 1, most).filter(Number.isInteger);
    return indices.map((index) => [position(index), write(at(index))]);
  }
  // A part need not begin and end with whole cells; marks stand at what is inside.
  const whole = { at, first: Math.floor(first), last: Math.ceil(last) };
  const ends = [at(whole.first), at(whole.last - 1)];
  const values = ticks(Math.min(...ends), Math.max(...ends), most);
  return values
    .map((value) => [indexIn(value, whole), write(value)])
    .filter(([index]) => index + 0.5 >= first && index + 0.5 <= last)
    .map(([index, label]) => [position(index), label]);
}

/** Say whether values rise or fall all the way. */
export function isMonotonic(values) {
  const sign = Math.sign(values[1] - values[0]);
  for (let index = 1; index < values.length; index += 1)
    if (Math.sign(values[index] - values[index - 1]) !== sign) return false;
  return sign !== 0 && values.length > 1;
}

/** Give how wide the labels of a side are. */
export function widthOf(canvas, side) {
  const context = canvas.getContext("2d");
  context.font = FONT;
  const widths = marks(side, 0, 1, 8).map(([, label]) => context.measureText(label).width);
  return Math.ceil(Math.max(0, ...widths));
}

/** Find where a value lies among the indices, between two of them too. */
export function indexIn(value, { first, last, at }) {
  const rises = at(last - 1) > at(first);
  let [low, high] = [first, last - 1];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (at(middle) <= value === rises) low = middle;
    else high = middle;
  }
  return low + (value - at(low)) / (at(high) - at(low));
}
