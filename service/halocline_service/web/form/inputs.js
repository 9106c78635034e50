// The inputs of a stencil as the form has them.

import { boundaries, numbers, pairs, written } from "../core/pairs.js";

const READ = {
  boundary: boundaries,
  scalars: numbers,
  feedback: pairs,
  fields: pairs,
  axes: pairs,
};
const field = (name) => document.getElementById(name);
const title = (name) => name[0].toUpperCase() + name.slice(1);

/** Read the form; what is left empty is left out. Throws an error for people. */
export function readInputs() {
  const inputs = { program: field("program").value };
  if (field("dataset").value.trim()) inputs.dataset = field("dataset").value.trim();
  for (const [name, read] of Object.entries(READ)) {
    const text = field(name).value.trim();
    if (text) inputs[name] = read(title(name), text);
  }
  const steps = Number(field("steps").value || 1);
  if (!Number.isInteger(steps) || steps < 1)
    throw new Error("Steps must be a whole number from 1.");
  if (steps !== 1) inputs.steps = steps;
  if (field("target").value !== "auto") inputs.target = field("target").value;
  return inputs;
}

/** Write inputs into the form; gives the names of those that it has no field for. */
export function writeInputs(inputs) {
  const { program, dataset, steps, target, ...rest } = inputs;
  field("program").value = program ?? "";
  field("dataset").value = dataset ?? "";
  field("steps").value = steps ?? 1;
  field("target").value = target ?? "auto";
  for (const name of Object.keys(READ)) field(name).value = written(rest[name]);
  return Object.keys(rest).filter((name) => !(name in READ));
}
