// Controls for single values. Each has an `element` and `input` to be labelled, `read()`, which
// gives undefined where nothing is chosen and throws a `Fault`, `write(value)`, and `renew(scope)`.

import { el } from "../core/dom.js";
import { Fault } from "./fault.js";

let count = 0;
/** Give an identifier that no other element of the page has. */
export const freshId = (name) => `${name}-${(count += 1)}`;

const nothing = () => {};

/** Make a field for one line of text. */
export function textControl(name, { placeholder = "", list = null, mode = null } = {}) {
  const input = el("input", {
    id: freshId(name),
    placeholder,
    list,
    inputmode: mode,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
  });
  return {
    element: input,
    input,
    read: () => input.value.trim() || undefined,
    write: (value) => (input.value = value ?? ""),
    renew: nothing,
  };
}

/** Make a field for a number within the bounds of a schema. */
export function numberControl(name, schema = {}, { placeholder } = {}) {
  const isWhole = schema.type === "integer";
  const text = textControl(name, {
    placeholder: placeholder ?? String(schema.default ?? ""),
    mode: isWhole ? "numeric" : "decimal",
  });
  return {
    ...text,
    read: () => (text.read() === undefined ? undefined : numberOf(text.read(), schema)),
  };
}

/** Read a number; what is no number, or out of bounds, is a fault. */
export function numberOf(written, { type, minimum, maximum, exclusiveMinimum } = {}) {
  const value = Number(written.replace("−", "-"));
  if (!Number.isFinite(value)) throw new Fault(`Type a number, such as 0.5 or 1e-3; got '${written}'.`);
  if (type === "integer" && !Number.isInteger(value))
    throw new Fault(`Type a whole number; got '${written}'.`);
  if (minimum !== undefined && value < minimum) throw new Fault(`Type ${minimum} or more.`);
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum)
    throw new Fault(`Type more than ${exclusiveMinimum}.`);
  if (maximum !== undefined && value > maximum) throw new Fault(`Type ${maximum} or less.`);
  return value;
}

/** Make a box to tick. */
export function tickControl(name, { isOn = false } = {}) {
  const input = el("input", { type: "checkbox", id: freshId(name) });
  input.checked = isOn;
  return {
    element: input,
    input,
    isInline: true,
    read: () => (input.checked === isOn ? undefined : input.checked),
    write: (value) => (input.checked = value ?? isOn),
    renew: nothing,
  };
}

/**
 * Make a list to choose from. `options(scope)` gives `[value, title]` pairs; a value that was
 * written and is not among them stays to choose, since the data may not be known yet.
 */
export function choiceControl(name, options, { empty = null } = {}) {
  const input = el("select", { id: freshId(name) });
  let wanted = "";
  let scope = null;
  const renew = (now) => {
    scope = now;
    const offered = options(scope);
    const known = offered.some(([value]) => String(value) === wanted);
    const all = [
      ...(empty === null ? [] : [["", empty]]),
      ...offered,
      ...(known || !wanted ? [] : [[wanted, wanted]]),
    ];
    const text = JSON.stringify(all);
    if (input.dataset.offered !== text) {
      input.replaceChildren(...all.map(([value, title]) => el("option", { value }, title)));
      input.dataset.offered = text;
    }
    if (wanted || empty !== null) input.value = wanted;
    else wanted = input.value;
  };
  input.addEventListener("change", () => (wanted = input.value));
  return {
    element: input,
    input,
    read: () => typed(options(scope), input.value),
    write: (value) => {
      wanted = value === undefined || value === null ? "" : String(value);
      renew(scope);
    },
    renew,
  };
}

/** Give a chosen value with the type that it has among the options. */
function typed(options, text) {
  if (text === "") return undefined;
  const option = options.find(([value]) => String(value) === text);
  return option ? option[0] : text;
}
