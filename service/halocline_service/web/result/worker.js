// Reads results away from the page's thread: decoding chunks takes longer than a frame.

import { key } from "../core/api.js";
import { sample } from "./sample.js";
import { openStore } from "./store.js";

const opened = new Map();
const running = new Map();

onmessage = async ({ data }) => {
  const { id, kind } = data;
  if (kind === "abort") return running.get(id)?.abort();
  const aborted = new AbortController();
  running.set(id, aborted);
  try {
    key.give(data.key);
    const answer = kind === "open" ? await openOnce(data) : await read(data, aborted.signal);
    postMessage({ id, answer }, answer.values ? [answer.values.buffer] : []);
  } catch (error) {
    const { message, hint = "", name } = error;
    postMessage({ id, error: { message: [message, hint].filter(Boolean).join(" "), name } });
  } finally {
    running.delete(id);
  }
  return undefined;
};

/** Open a store, once; gives what is known of its variables. */
async function openOnce({ path }) {
  if (!opened.has(path)) opened.set(path, await openStore(path));
  const { attributes, variables } = opened.get(path);
  return { attributes, variables: variables.map(({ array: _, ...known }) => known) };
}

async function read({ path, name, request }, signal) {
  const variable = opened.get(path).variables.find((each) => each.name === name);
  const array = await variable.array();
  const answer = await sample(array, { ...request, dtype: variable.dtype, signal });
  return { ...answer, shapeOfChunks: array.chunks };
}
