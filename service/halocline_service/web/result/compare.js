// Another result beside the one of the page, or the difference of both.

import { json } from "../core/api.js";
import { clock } from "../core/words.js";
import { Source } from "./source.js";

const OFFERED = 50;
export const WAYS = { beside: "side by side", difference: "difference" };

/** List results that may be compared: `[job, title]`, newest first. */
export async function othersOf(job) {
  const { jobs } = await json(`jobs?status=successful&limit=${OFFERED}`);
  const named = jobs
    .filter(({ processID }) => !["plan", "echo"].includes(processID))
    .map((info) => [info.jobID, titleOf(info, job)]);
  return named;
}

function titleOf(info, job) {
  const name = info.job_name ?? info.name ?? `${info.processID} ${info.jobID.slice(-8)}`;
  if (info.jobID === job) return "another variable of this result";
  return `${name}, ${clock(new Date(info.created))}`;
}

/** Open a result to compare with; what is no dataset is refused. */
export async function openOther(job) {
  const { source } = await Source.open(job);
  if (!source) throw new Error("That job has no dataset as its result.");
  return source;
}

/** Say why two variables cannot be drawn together; nothing where they can. */
export function mismatch(one, other, drawn) {
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
export function fixedIn(one, other, fixed) {
  return other.dims.map((dim, place) => {
    const index = fixed[one.dims.indexOf(dim)] ?? 0;
    return index === null ? null : Math.min(index, other.shape[place] - 1);
  });
}

/** Give the difference of what was read of two results at the same places. */
export const difference = (one, other) => one.map((value, place) => value - other[place]);
