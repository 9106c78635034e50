// What workers did when, as bars in rows: of blocks, or of ranks whose blocks stay in memory.

/** The parts of a bar in their order, and the name of the colour of each. */
export const PARTS = {
  reading: "series-1",
  waiting: "block-waiting",
  sending: "series-5",
  compiling: "muted",
  halos: "series-4",
  computing: "series-2",
  fetching: "series-6",
  writing: "series-3",
};
const INTERVAL = ["reading", "sending", "compiling", "computing", "halos", "fetching", "writing"];
const LANES = 4; // blocks of one worker beside each other

/** Give the parts of a bar as `[name, seconds]`; all of it is computing where none is known. */
export function partsOf(told) {
  const known = Object.keys(PARTS).map((part) => [part, told[part] ?? 0]);
  const sum = known.reduce((total, [, seconds]) => total + seconds, 0);
  if (sum === 0) return [["computing", told.seconds]];
  return known
    .map(([part, seconds]) =>
      part === "waiting" ? [part, Math.max(0, told.seconds - sum)] : [part, seconds],
    )
    .filter(([, seconds]) => seconds > 0);
}

/** Give the bars of blocks, `{row, from, to, parts}`; those at the same time lie in lanes. */
export function barsOfBlocks(blocks, workers) {
  const start = Math.min(...blocks.map(({ at, seconds }) => at - seconds));
  const rows = new Map(workers.map((worker) => [worker, []])); // where each lane ends
  const placed = [...blocks]
    .sort((one, other) => one.at - one.seconds - (other.at - other.seconds))
    .map((block) => {
      const [from, to] = [block.at - block.seconds - start, block.at - start];
      const ends = rows.get(block.worker);
      let lane = ends.findIndex((end) => end <= from + 1e-9);
      if (lane < 0) lane = ends.length < LANES ? ends.length : ends.indexOf(Math.min(...ends));
      ends[lane] = Math.max(ends[lane] ?? 0, to);
      return { worker: block.worker, lane, from, to, parts: partsOf(block) };
    });
  const first = new Map();
  let count = 0;
  for (const [worker, ends] of rows) {
    first.set(worker, count);
    count += Math.max(1, ends.length);
  }
  const bars = placed.map(({ worker, lane, ...bar }) => ({ row: first.get(worker) + lane, ...bar }));
  return { bars, rows: count };
}

/** Give the bars of ranks from what they told at the end. */
export function barsOfRanks(worked) {
  const bars = worked.flatMap(({ intervals }, row) =>
    intervals.map(([from, to, ...spent]) => {
      const told = Object.fromEntries(INTERVAL.map((part, place) => [part, spent[place]]));
      return { row, from, to, parts: partsOf({ ...told, seconds: to - from }) };
    }),
  );
  return { bars, rows: worked.length };
}

/** Give the bars of the first rank from what it tells meanwhile: seconds so far, and of halos. */
export function barsOfSteps(told) {
  let [from, halos] = [0, 0];
  const bars = told.map((one) => {
    const [taken, of] = [one.seconds - from, one.halos - halos];
    const bar = { row: 0, from, to: one.seconds };
    [from, halos] = [one.seconds, one.halos];
    return { ...bar, parts: partsOf({ seconds: taken, halos: of, computing: taken - of }) };
  });
  return { bars, rows: 1 };
}
