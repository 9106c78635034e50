// What a job was asked for.

import { json } from "./api.js";

/** Give the inputs of a job; null where the API does not give them. */
export async function inputsOf(info) {
  if (info.inputs) return info.inputs;
  if (!info.links.some(({ rel }) => rel === "inputs")) return null;
  return (await json(`jobs/${info.jobID}/inputs`)).inputs;
}
