// Reads a few points of a large array: only the chunks that they lie in, and never too many.

const MOST_CHUNKS = 256;
const MOST_BYTES = 256 * 2 ** 20; // decoded, of all chunks that are read for one picture
const AT_ONCE = 6;

/** What the values of an array take in memory, by the type's name. */
export function bytesOf(dtype) {
  const bits = /(\d+)$/.exec(dtype);
  return bits ? Number(bits[1]) / 8 : 1;
}

/** Give evenly spaced indices of `[first, last)`, at most so many. */
export function spaced(first, last, most) {
  const step = Math.max(1, Math.ceil((last - first) / most));
  const indices = [];
  for (let index = first + Math.floor((step - 1) / 2); index < last; index += step)
    indices.push(index);
  return indices.length > 0 ? indices : [first];
}

const chunksOf = (indices, chunk) =>
  new Set(indices.map((index) => Math.floor(index / chunk))).size;

/**
 * Choose which indices of some axes are read, so that the chunks stay within the limits.
 *
 * `axes` are `{first, last, most, chunk}`; gives the indices of each. Throws where one chunk alone
 * is too large.
 */
export function choose(axes, chunkBytes) {
  if (chunkBytes > MOST_BYTES)
    throw new Error("One chunk of this variable is too large for a browser: open it in Python.");
  const most = Math.min(MOST_CHUNKS, Math.max(1, Math.floor(MOST_BYTES / chunkBytes)));
  const wanted = axes.map(({ most: points }) => points);
  for (;;) {
    const indices = axes.map(({ first, last }, axis) => spaced(first, last, wanted[axis]));
    const counts = indices.map((each, axis) => chunksOf(each, axes[axis].chunk));
    if (counts.reduce((product, count) => product * count, 1) <= most) return indices;
    const widest = counts.indexOf(Math.max(...counts));
    wanted[widest] = Math.max(1, Math.floor(counts[widest] * 0.8));
  }
}

/**
 * Read points of an array.
 *
 * `fixed` gives the index of each dimension that is not read along; `along` are the dimensions'
 * numbers with `{first, last, most}`. `indices` are read where they are given. Gives
 * `{values, indices, chunks}`: values in the order of `along`, last fastest.
 */
export async function sample(array, { fixed, along, dtype, signal, indices = null }) {
  const size = bytesOf(dtype) * array.chunks.reduce((product, length) => product * length, 1);
  const axes = along.map(({ dim, ...window }) => ({ ...window, chunk: array.chunks[dim] }));
  indices ??= choose(axes, size);
  const groups = indices.map((each, axis) => grouped(each, axes[axis].chunk));
  const values = new Float64Array(indices.reduce((product, each) => product * each.length, 1));
  const work = product(groups);
  const lengths = indices.map((each) => each.length);
  const dims = along.map(({ dim }) => dim);
  const one = async (parts) => {
    const place = fixed.map((index, dim) => Math.floor((index ?? 0) / array.chunks[dim]));
    parts.forEach(({ chunk }, axis) => (place[dims[axis]] = chunk));
    const read = await chunkOf(array, place, size, signal);
    copy(read, parts, { array, fixed, dims, place, lengths, values });
  };
  await pooled(work, one, signal);
  return { values, indices, chunks: work.length };
}

const decoded = new Map(); // chunks that were read last, by their arrays and places
let bytesDecoded = 0;

/** Read a chunk, or give it where it was read before and is not forgotten yet. */
async function chunkOf(array, place, bytes, signal) {
  const key = `${array.store?.path ?? ""} ${array.path} ${place.join()}`;
  const kept = decoded.get(key);
  decoded.delete(key);
  const read = kept ?? { chunk: await array.getChunk(place, { signal }), bytes };
  if (!kept) bytesDecoded += bytes;
  decoded.set(key, read);
  for (const [oldest, { bytes: freed }] of decoded) {
    if (bytesDecoded <= MOST_BYTES) break;
    decoded.delete(oldest);
    bytesDecoded -= freed;
  }
  return read.chunk;
}

/** Copy the points of one chunk to their places. */
function copy({ data, stride }, parts, { array, fixed, dims, place, lengths, values }) {
  const value = typeof data.get === "function" ? (at) => data.get(at) : (at) => data[at];
  let base = 0;
  fixed.forEach((index, dim) => {
    if (!dims.includes(dim)) base += ((index ?? 0) - place[dim] * array.chunks[dim]) * stride[dim];
  });
  const visit = (axis, from, to) => {
    if (axis === dims.length) {
      values[to] = Number(value(from));
      return;
    }
    const dim = dims[axis];
    for (const [at, index] of parts[axis].points)
      visit(
        axis + 1,
        from + (index - place[dim] * array.chunks[dim]) * stride[dim],
        to * lengths[axis] + at,
      );
  };
  visit(0, base, 0);
}

/** Group indices by their chunks: `{chunk, points: [[place among the indices, index]]}`. */
function grouped(indices, chunk) {
  const groups = new Map();
  indices.forEach((index, at) => {
    const number = Math.floor(index / chunk);
    if (!groups.has(number)) groups.set(number, { chunk: number, points: [] });
    groups.get(number).points.push([at, index]);
  });
  return [...groups.values()];
}

function product(lists) {
  return lists.reduce(
    (rows, list) => rows.flatMap((row) => list.map((each) => [...row, each])),
    [[]],
  );
}

async function pooled(items, work, signal) {
  const rest = [...items];
  const run = async () => {
    while (rest.length > 0) {
      signal?.throwIfAborted();
      await work(rest.pop());
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, rest.length) }, run));
}
