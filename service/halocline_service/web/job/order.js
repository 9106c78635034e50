// In which order the blocks of a grid are begun, as the plan names it.

/** Give the places, `row * length + column`, of a plan's blocks in the order of work. */
export function orderOf({ order = "row", rows, length, width = 1 }) {
  switch (order) {
    case "column":
      return columns(rows, length, width, false);
    case "zigzag":
      return columns(rows, length, width, true);
    default:
      return Array.from({ length: rows * length }, (_, place) => place);
  }
}

/** Give the grid of a plan; where it has none, one that is about square. */
export function gridOf(plan) {
  const { rows = 1, length = 1, blocks } = plan;
  if (rows * length === blocks && blocks > 1) return { ...plan, rows, length };
  const wide = Math.ceil(Math.sqrt(blocks));
  return { order: "row", rows: Math.ceil(blocks / wide), length: wide };
}

function columns(rows, length, width, turns) {
  const places = [];
  for (let start = 0, number = 0; start < length; start += width, number += 1) {
    for (let visit = 0; visit < rows; visit += 1) {
      const row = turns && number % 2 ? rows - 1 - visit : visit;
      const end = Math.min(start + width, length);
      for (let cell = start; cell < end; cell += 1) places.push(row * length + cell);
    }
  }
  return places;
}
