// What the events of a job tell, put together: states, plan, blocks, workers, figures.

import { scaled } from "../core/words.js";

/** Seconds since 1970 of a time of the API. */
export const seconds = (text) => Date.parse(text) / 1000;

const MOST_TRACKED = 4000;
const RECENT = 30; // seconds of progress that tell how fast it is

export class History {
  constructor() {
    this.states = []; // {at, status, message}
    this.plan = null;
    this.planned = 0; // blocks that earlier attempts told of
    this.pass = 0;
    this.done = 0; // blocks of this pass
    this.steps = 0; // steps that are complete
    this.transport = ""; // how halos go from worker to worker
    this.blocks = []; // {at, seconds, worker, step, pass, ...}: those that were told
    this.workers = []; // names, as they were first heard of
    this.figures = null;
    this.warnings = [];
    this.compiled = null;
    this.stretches = []; // {seconds, halos}: what the first rank has told since it began
    this.worked = []; // what each worker did, told at the end
    this.ceilings = {}; // what the machine of a worker can do
    this.progress = 0;
    this.points = []; // [at, progress], of the last seconds
    this.track = []; // the same, since the last start
    this.usage = []; // {at, memory, processors}, since the last start
  }

  /** Take one event of the stream. */
  add({ event, data }) {
    const at = seconds(data.at);
    if (typeof data.progress === "number") this.#reach(at, data.progress);
    switch (event) {
      case "status":
        this.states.push({ at, status: data.status, message: data.message || "" });
        if (data.status === "running") {
          this.points = [[at, this.progress]];
          [this.track, this.usage] = [[[at, this.progress]], []];
        }
        break;
      case "planned":
        this.plan = data;
        this.planned = this.blocks.length;
        [this.pass, this.done] = [0, 0];
        [this.stretches, this.worked] = [[], []];
        break;
      case "compiled":
        this.compiled = data;
        break;
      case "resumed":
        [this.steps, this.stretches] = [data.steps_done, []];
        break;
      case "checkpointed":
      case "snapshot-written":
        this.steps = data.steps_done;
        break;
      case "steps-finished":
        [this.steps, this.transport] = [data.steps_done, data.transport];
        this.stretches.push({ seconds: data.seconds, halos: data.halos ?? 0 });
        break;
      case "worked":
        this.worked.push(data);
        break;
      case "ceilings":
        this.ceilings[data.worker] = data;
        break;
      case "block-finished":
        if (data.pass_index !== this.pass) [this.pass, this.done] = [data.pass_index, 0];
        this.done = Math.max(this.done, data.done);
        if (!this.workers.includes(data.worker)) this.workers.push(data.worker);
        this.blocks.push({
          at,
          seconds: data.seconds,
          worker: data.worker,
          step: data.done - 1,
          pass: data.pass_index,
          reading: data.reading,
          sending: data.sending,
          compiling: data.compiling,
          computing: data.computing,
          fetching: data.fetching,
          writing: data.writing,
        });
        break;
      case "pass-finished":
        this.pass = data.pass_index;
        this.done = this.plan ? this.plan.blocks : this.done;
        break;
      case "finished":
        this.figures = data;
        if (this.plan) [this.pass, this.done] = [this.plan.passes - 1, this.plan.blocks];
        break;
      case "usage":
        this.usage.push({ at, memory: data.memory, processors: data.processors });
        break;
      case "warned":
        this.warnings.push(data);
        break;
      default: // kinds that later versions tell stand in the log
    }
  }

  #reach(at, progress) {
    this.progress = progress;
    this.points.push([at, progress]);
    if (progress > (this.track.at(-1)?.[1] ?? -1)) this.track.push([at, progress]);
    if (this.track.length > MOST_TRACKED) this.track = this.track.filter((_, place) => place % 2);
    while (this.points.length > 2 && at - this.points[1][0] > RECENT) this.points.shift();
  }

  /** Whether blocks stay in memory: then all of them make the same steps at the same time. */
  get resident() {
    return this.plan?.mode === "resident";
  }

  get status() {
    return this.states.at(-1)?.status ?? "accepted";
  }

  /** How many steps a second are made now, in words; nothing where that is unknown. */
  get rate() {
    if (this.status !== "running" || this.points.length < 2 || !(this.plan?.steps > 1)) return "";
    const [[from, before], [to, reached]] = [this.points[0], this.points.at(-1)];
    if (reached <= before || to <= from) return "";
    return `${scaled(((reached - before) * this.plan.steps) / (to - from))} steps a second`;
  }

  /** How many seconds are left, by the progress of the last seconds; null where that is unknown. */
  left(now) {
    if (this.status !== "running" || this.points.length < 2) return null;
    const [from, before] = this.points[0];
    const [to, reached] = this.points.at(-1);
    if (reached <= before || to <= from) return null;
    return Math.max(0, ((1 - reached) * (to - from)) / (reached - before) - (now - to));
  }
}
