// What was read of a variable for a picture, in words.

/** Say how many points and chunks were read, and whether points are left out. */
export function noteOf({ shape, dims, dtype }, chunks, grid) {
  const steps = grid.indices.map((each) => (each.length > 1 ? each[1] - each[0] : 1));
  const isSampled = steps.some((step) => step > 1);
  const points = grid.indices.map((each) => each.length).join(" × ") || "1";
  const all = chunks.reduce((count, chunk, dim) => count * Math.ceil(shape[dim] / chunk), 1);
  const every = isSampled ? `one of ${steps.join(" × ")} points is shown` : "every point is shown";
  return (
    `${shape.join(" × ")} (${dims.join(", ")}), ${dtype}: ${points} read, ${every}; ` +
    `${grid.chunks} of ${all} chunks.`
  );
}
