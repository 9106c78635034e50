// In which order the blocks of a grid are begun, as the plan names it.

/** Give the places, `row * length + column`, of a plan's blocks in the order of work. */
export function orderOf({ order = "row", rows, length, width = 1, height = 1 }) {
  switch (order) {
    case "column":
      return columns(0, rows, length, width, false);
    case "zigzag":
      return columns(0, rows, length, width, true);
    case "tiles":
      return tiles(rows, length, width, height);
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

function columns(top, rows, length, width, turns) {
  const places = [];
  for (let start = 0, number = 0; start < length; start += width, number += 1) {
    for (let visit = 0; visit < rows; visit += 1) {
      const row = top + (turns && number % 2 ? rows - 1 - visit : visit);
      const end = Math.min(start + width, length);
      for (let cell = start; cell < end; cell += 1) places.push(row * length + cell);
    }
  }
  return places;
}

function tiles(rows, length, width, height) {
  const places = [];
  for (let top = 0; top < rows; top += height)
    places.push(...columns(top, Math.min(height, rows - top), length, width, false));
  return places;
}
