// Another result beside the one of the page, or the difference of both.

import { json } from "../core/api.js";
import { el } from "../core/dom.js";
import { clock } from "../core/words.js";
import { decode, titleOf } from "./cf.js";
import { choice } from "./controls.js";
import { Source } from "./source.js";

const OFFERED = 50;
const WAYS = { beside: "side by side", difference: "difference" };

/** Chooses another result, its variable, and how both are shown. */
export class Comparison {
  /** `variable()` is the one that is shown; `onChange(isDifference)` has it drawn. */
  constructor(job, { variable, onChange, onError }) {
    Object.assign(this, { job, variable, onChange, onError });
    this.element = el("div", { class: "filters" });
    this.other = null;
    this.way = "beside";
  }

  /** Offer other results to compare with. */
  async offer() {
    const others = await othersOf(this.job);
    this.element.replaceChildren(
      choice("Compare with", [["", "nothing"], ...others], "", (job) => this.#choose(job)),
    );
  }

  /** Whether the difference of both is drawn. */
  get isDifference() {
    return this.other !== null && this.way === "difference";
  }

  /** Open another result; an empty text ends the comparison. */
  async #choose(job) {
    [this.other, this.way] = [null, "beside"];
    for (const extra of [...this.element.children].slice(1)) extra.remove();
    try {
      if (job) this.#open(await openOther(job), job === this.job);
      await this.onChange(false);
    } catch (error) {
      this.onError(error);
    }
  }

  #open(source, isOwn) {
    const { variables } = source;
    const same = source.variable(this.variable().name) ?? variables[0];
    const next = variables.find(({ name }) => name !== same.name);
    this.other = { source, variable: isOwn && next ? next : same };
    this.element.append(
      choice(
        "Its variable",
        variables.map((each) => [each.name, titleOf(each)]),
        this.other.variable.name,
        (name) => {
          this.other.variable = source.variable(name);
          this.onChange(this.isDifference);
        },
      ),
      choice("Shown", Object.entries(WAYS), this.way, (way) => {
        this.way = way;
        this.onChange(this.isDifference);
      }),
    );
  }

  /** Read the other result where the first was read; gives both pictures, or their difference. */
  async read({ along, fixed, ...first }, signal) {
    const { variable, rows, columns, read: one } = first;
    const { source, variable: other } = this.other;
    const reason = mismatch(variable, other, [rows, columns]);
    if (reason) throw new Error(reason);
    const placeOf = (dim) => other.dims.indexOf(variable.dims[dim]);
    const there = along.map((each) => ({ ...each, dim: placeOf(each.dim) }));
    const request = { fixed: fixedIn(variable, other, fixed), along: there, signal };
    const two = await readDecoded(other, { ...request, indices: one.indices });
    if (this.isDifference)
      return [{ ...first, read: { ...one, values: difference(one.values, two.values) } }];
    const axes = await source.axesOf(other);
    const sides = { rows: placeOf(rows), columns: placeOf(columns) };
    return [first, { variable: other, axes, ...sides, read: two }];
  }
}

/** Read values of a variable as they are meant. */
export async function readDecoded(variable, request) {
  const read = await variable.read(request);
  return { ...read, values: decode(read.values, variable.attributes) };
}

/** List results that may be compared: `[job, title]`, newest first. */
async function othersOf(job) {
  const { jobs } = await json(`jobs?status=successful&limit=${OFFERED}`);
  const named = jobs
    .filter(({ processID }) => !["plan", "echo"].includes(processID))
    .map((info) => [info.jobID, nameOf(info, job)]);
  return named;
}

function nameOf(info, job) {
  const name = info.job_name ?? `${info.processID} ${info.jobID.slice(-8)}`;
  if (info.jobID === job) return "another variable of this result";
  return `${name}, ${clock(new Date(info.created))}`;
}

/** Open a result to compare with; what is no dataset is refused. */
async function openOther(job) {
  const { source } = await Source.open(job);
  if (!source) throw new Error("That job has no dataset as its result.");
  return source;
}

/** Say why two variables cannot be drawn together; nothing where they can. */
function mismatch(one, other, drawn) {
  for (const dim of drawn.filter((each) => each >= 0)) {
    const place = other.dims.indexOf(one.dims[dim]);
    if (place < 0) return `'${other.name}' has no dimension '${one.dims[dim]}'.`;
    if (other.shape[place] !== one.shape[dim])
      return (
        `'${other.name}' has ${other.shape[place]} points along '${one.dims[dim]}', ` +
        `'${one.name}' has ${one.shape[dim]}.`
      );
  }
  return "";
}

/** Give indices, or numbers of dimensions, of one variable as those of the other. */
function fixedIn(one, other, fixed) {
  return other.dims.map((dim, place) => {
    const index = fixed[one.dims.indexOf(dim)] ?? 0;
    return index === null ? null : Math.min(index, other.shape[place] - 1);
  });
}

/** Give the difference of what was read of two results at the same places. */
const difference = (one, other) => one.map((value, place) => value - other[place]);
