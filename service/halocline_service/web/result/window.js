// Which part of a dimension is shown: `[first, last)` in indices, which need not be whole.

const LEAST = 2; // cells

/** Show a part of a window, given by shares of it. */
export function narrowed([first, last], [from, to], length) {
  const size = last - first;
  return bounded([first + from * size, first + to * size], length);
}

/** Move a window by a share of itself; it stops at the ends. */
export function moved([first, last], share, length) {
  const size = last - first;
  const start = Math.max(0, Math.min(length - size, first + share * size));
  return [start, start + size];
}

/** Make a window larger or smaller by a factor, around a share of it. */
export function zoomed([first, last], factor, around, length) {
  const size = Math.min(length, Math.max(Math.min(LEAST, length), (last - first) * factor));
  const start = first + around * (last - first) - around * size;
  return bounded([start, start + size], length);
}

/** Give a share, or a part between two, counted from the other end. */
export const flipped = (at) => (Array.isArray(at) ? [1 - at[1], 1 - at[0]] : 1 - at);

/** Whether less than all of a dimension is shown. */
export const isPart = ([first, last], length) => last - first < length - 1e-6;

/** Give the whole cells of a window, with a margin to move it by. */
export function withMargin([first, last], length) {
  const margin = isPart([first, last], length) ? (last - first) / 4 : 0;
  return [Math.max(0, Math.floor(first - margin)), Math.min(length, Math.ceil(last + margin))];
}

function bounded([from, to], length) {
  const size = Math.min(length, Math.max(Math.min(LEAST, length), to - from));
  const first = Math.max(0, Math.min(length - size, from));
  return [first, first + size];
}
