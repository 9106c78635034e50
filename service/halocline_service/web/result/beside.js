// Coordinates over both dimensions of a map, such as latitudes of a curved grid: what the pointer
// is told of beside the value.

import { decode, unitsOf } from "./cf.js";

const MOST = 4 * 2 ** 20; // points of a coordinate: it is no more than a help

/** Find the coordinates of a variable that have exactly the two dimensions of a map. */
export function beside(variable, variables, [rows, columns]) {
  const names = String(variable.attributes.coordinates ?? "").split(" ");
  const wanted = [variable.dims[rows], variable.dims[columns]];
  return variables.filter(
    ({ name, dims, shape }) =>
      names.includes(name) &&
      dims.length === 2 &&
      wanted.every((dim) => dims.includes(dim)) &&
      shape[0] * shape[1] <= MOST,
  );
}

/** Read one where a map was read: `{name, values, units}`, in the order of the map. */
export async function readBeside(coordinate, map, signal) {
  const { name, dims, attributes } = coordinate;
  const along = map.dims.map((dim) => ({ dim: dims.indexOf(dim) }));
  const read = { fixed: [null, null], along, signal, indices: map.indices };
  const { values } = await coordinate.read(read);
  return { name, values: decode(values, attributes), units: unitsOf(attributes) };
}
