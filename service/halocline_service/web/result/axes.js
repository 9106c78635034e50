// Round numbers along an axis.

/** Give round numbers between two values, about so many. */
export function ticks(low, high, about) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const found = [];
  for (let count = Math.ceil(low / step); count * step <= high + step * 1e-9; count += 1)
    found.push(Number((count * step).toPrecision(12)));
  return found;
}

/** Write a number of an axis, as short as its step allows. */
export function short(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(1).replace("e+", "e");
  return String(Number(value.toPrecision(6)));
}

/** Give the coordinate at an index as a table has it: no digit of a number is left out. */
export const exact = ({ at, write }, index) => (write === short ? at(index) : write(at(index)));

/** Give `[lowest, highest]` of the values that are numbers; NaN, NaN where there are none. */
export function range(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [NaN, NaN];
}

/** Draw marks with labels below (`x`) or beside (`y`) an area, `[position, label]` each. */
export function drawMarks(context, side, area, marks, ink) {
  context.fillStyle = context.strokeStyle = ink;
  context.font = "11px system-ui, sans-serif";
  context.lineWidth = 1;
  context.beginPath();
  let free = -Infinity;
  for (const [at, label] of marks) {
    if (side === "x") {
      const half = context.measureText(label).width / 2;
      context.moveTo(at + 0.5, area.bottom);
      context.lineTo(at + 0.5, area.bottom + 4);
      const middle = Math.max(half, Math.min(area.width - half, at));
      if (middle - half < free + 6) continue;
      free = middle + half;
      context.textAlign = "center";
      context.textBaseline = "top";
      context.fillText(label, middle, area.bottom + 6);
    } else {
      context.moveTo(area.left, at + 0.5);
      context.lineTo(area.left - 4, at + 0.5);
      context.textAlign = "right";
      context.textBaseline = "middle";
      context.fillText(label, area.left - 6, at);
    }
  }
  context.stroke();
}

/** Write what is along the lower side of an area, `space` below it, and along the left one. */
export function drawNames(context, area, below, beside, space, ink) {
  context.fillStyle = ink;
  context.textAlign = "center";
  context.textBaseline = "bottom";
  context.fillText(below, (area.left + area.right) / 2, area.bottom + space);
  context.save();
  context.translate(11, (area.top + area.bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.fillText(beside, 0, 0);
  context.restore();
}
