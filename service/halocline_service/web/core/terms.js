// Words of the field, explained where they stand.

import { el } from "./dom.js";

const MEANINGS = {
  Target: "What computes: GPUs (cuda), the cores of CPUs (cpu), or NumPy (reference).",
  Mode:
    "Streamed: blocks are read, computed and written one after the other. " +
    "Resident: blocks stay in the memory of the workers for all steps.",
  Blocks: "The data is cut into blocks, so that it need not fit into memory.",
  Passes: "How often all data is read and written; several steps can be made in one pass.",
  Order: "In which order blocks are computed, so that neighbours share what they read.",
  Halo: "Cells around a block that it reads from its neighbours.",
  "Halo exchange": "How workers send each other the cells at the edges of their blocks.",
  Block: "How many cells a block has along each dimension.",
  Expected: "An estimate from the speed of the memory, to within a factor of two or three.",
  "Memory needed": "For the arrays of the job alone, as projected before it began.",
  "Largest process": "The most memory of one process, with Python and its libraries.",
};

/** Give a word, with what it means where that is known. */
export function term(word) {
  const title = MEANINGS[word];
  return title ? el("abbr", { title, tabindex: "0" }, word) : word;
}
