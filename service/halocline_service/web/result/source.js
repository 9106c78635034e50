// A result whose values are read by a worker: its variables, their coordinates and axes.

import { json, key } from "../core/api.js";
import { axisOf, coordinatesOf } from "./dims.js";

const ZARR = "application/vnd+zarr";

/** Asks the worker, which is started once. */
class Reader {
  constructor() {
    this.waiting = new Map();
    this.count = 0;
  }

  /** Ask, and give the answer; an abort ends the work on it. */
  ask(message, signal) {
    this.worker ??= this.#started();
    const id = (this.count += 1);
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      this.waiting.set(id, { resolve, reject });
      signal?.addEventListener("abort", () => {
        this.worker.postMessage({ id, kind: "abort" });
        this.waiting.delete(id);
        reject(signal.reason);
      });
      this.worker.postMessage({ id, key: key.get(), ...message });
    });
  }

  #started() {
    const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data: { id, answer, error } }) => {
      const asked = this.waiting.get(id);
      this.waiting.delete(id);
      if (error) asked?.reject(new Error(error.message));
      else asked?.resolve(answer);
    };
    return worker;
  }
}

const reader = new Reader();

/** One result: `variables`, each of which reads its values, and their coordinates. */
export class Source {
  constructor(path, { attributes, variables }) {
    this.path = path;
    this.attributes = attributes;
    this.all = variables.map((known) => ({
      ...known,
      read: ({ signal, ...request }) =>
        reader.ask({ kind: "read", path, name: known.name, request }, signal),
    }));
    this.coordinates = coordinatesOf(this.all);
    const drawn = this.all.filter(
      ({ dtype, name }) => /^(u?int|float|bool)/.test(dtype) && !this.coordinates.has(name),
    );
    this.variables = drawn.length > 0 ? drawn : this.all;
    this.axes = new Map();
  }

  /** Open the result of a job; gives its values instead where they are no arrays. */
  static async open(job) {
    const path = `jobs/${job}/results`;
    const outputs = await json(path);
    const name = Object.keys(outputs).find((each) => outputs[each]?.type === ZARR);
    if (!name) return { values: outputs };
    const store = `${path}/${name}.zarr`;
    return { source: new Source(store, await reader.ask({ kind: "open", path: store })) };
  }

  /** Give a variable by its name. */
  variable(name) {
    return this.variables.find((each) => each.name === name);
  }

  /** Give what is along the dimensions of a variable, each of which is read once. */
  axesOf({ dims, shape }) {
    return Promise.all(
      dims.map((dim, place) => {
        if (!this.axes.has(dim)) this.axes.set(dim, axisOf(dim, shape[place], this.coordinates));
        return this.axes.get(dim);
      }),
    );
  }
}
