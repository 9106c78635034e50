// Controls made from what a program takes: a variable for each field, a value for each scalar, the
// variable that each result becomes in the next step, a dimension for each axis.

import { choiceControl, numberControl, numberOf, textControl } from "./controls.js";
import { pairsControl, row, rowsControl } from "./compound.js";
import { Fault, missing } from "./fault.js";

const NONE = "The program has none, or is not valid yet.";

/** Make a chooser of a variable for each field; the name of a result that is created is free. */
export function fieldsControl() {
  return rowsControl((scope) => scope.program?.fields ?? [], fieldRow, { none: NONE });
}

function fieldRow(name) {
  const chooser = choiceControl(`field-${name}`, (scope) => scope?.variables ?? [], {
    empty: "choose a variable",
  });
  const result = textControl(`result-${name}`, { placeholder: name });
  const [read, created] = [row(name, chooser), row(name, result)];
  created.element.append(read.element);
  read.element.remove();
  let state = null;
  let wanted;
  const made = {
    element: read.element,
    read() {
      if (!state) return wanted;
      if (!state.read) return result.read() === name ? undefined : result.read();
      const chosen = chooser.read();
      if (chosen === undefined && state.scope.dataset)
        throw missing(`Choose the variable that '${name}' is.`);
      return chosen === name ? undefined : chosen;
    },
    write(value) {
      wanted = value;
      if (value !== undefined) chooser.write(value);
      else chooser.write("");
      result.write(value);
      if (state) suggest();
    },
    renew(scope, field) {
      const isCreated = field.written && !isVariable(scope, name) && !wanted;
      state = { scope, ...field, read: field.read || !isCreated };
      const shown = state.read ? read : created;
      made.element = shown.element;
      const words = [typeOf(field), state.read ? haloOf(field) : "a new variable"];
      shown.note.textContent = words.filter(Boolean).join("; ");
      chooser.renew(scope);
      suggest();
    },
  };
  /** Choose the variable of the same name, or the first one that may be meant. */
  function suggest() {
    if (!state.read || chooser.input.value || wanted) return;
    const { scope } = state;
    const names = scope.variables.map(([each]) => each);
    if (names.includes(name)) chooser.write(name);
    else if (scope.dataset) chooser.write(likely(scope, state));
  }
  return made;
}

const isVariable = ({ variables }, name) => variables.some(([each]) => each === name);
const typeOf = ({ dtype, axes }) =>
  axes.join("") === "IJK" ? dtype : `${dtype} over ${axes.join("")}`;

function haloOf({ halo }) {
  const wide = Object.entries(halo).filter(([, [before, after]]) => before || after);
  const reads = wide.map(([axis, [before, after]]) => `${before} before and ${after} after along ${axis}`);
  return reads.length > 0 ? `reads ${reads.join(", ")}` : "";
}

/** Give the variable that a field may be: one of its type and dimensions, if that is no guess. */
function likely({ dataset: { variables, axes }, program }, field) {
  const needed = Object.entries(field.halo)
    .filter(([, [before, after]]) => before || after)
    .map(([axis]) => axes[axis])
    .filter(Boolean);
  const fits = variables.filter(
    ({ coordinate, dims, dtype }) =>
      !coordinate && dtype === field.dtype && needed.every((dim) => dims.includes(dim)),
  );
  const isAlone = program.fields.filter(({ read, written }) => read && !written).length === 1;
  return fits.length === 1 || isAlone ? (fits[0]?.name ?? "") : "";
}

/** Make a field for each scalar: a number, or a choice of true and false. */
export function scalarsControl() {
  return rowsControl((scope) => scope.program?.scalars ?? [], scalarRow, { none: NONE });
}

function scalarRow(name) {
  const text = numberControl(`scalar-${name}`);
  const made = row(name, text);
  let scalar = null;
  return {
    ...made,
    read() {
      const written = text.input.value.trim();
      if (!written) {
        if (scalar?.default === null || scalar?.default === undefined)
          throw missing(`Type a value for '${name}'.`);
        return undefined;
      }
      return valueOf(written, scalar?.dtype);
    },
    write(value) {
      made.write(value !== null && typeof value === "object" ? JSON.stringify(value) : value);
    },
    renew(_scope, now) {
      scalar = now;
      const { dtype } = now;
      const standard = now.default;
      const has = standard !== null && standard !== undefined;
      made.note.textContent = has ? `${dtype}, ${standard} if left empty` : dtype;
      text.input.placeholder = dtype === "bool" ? "true or false" : String(has ? standard : "");
    },
  };
}

/** Read a value of a scalar's type. */
function valueOf(written, dtype = "float64") {
  if (written.startsWith("{")) {
    try {
      return JSON.parse(written);
    } catch {
      throw new Fault(`Type a number or {"clock": "seconds"}; got '${written}'.`);
    }
  }
  if (dtype === "bool") {
    if (["true", "false"].includes(written)) return written === "true";
    throw new Fault(`Type true or false; got '${written}'.`);
  }
  return numberOf(written, { type: dtype.startsWith("int") ? "integer" : "number" });
}

/** Make a chooser for each result: which input it becomes in the next step. */
export function feedbackControl() {
  const rows = rowsControl(
    (scope) => scope.named("output").map(([name]) => ({ name })),
    (name) => {
      const chooser = choiceControl(`feedback-${name}`, (scope) => inputsOf(scope), {
        empty: "is not fed back",
      });
      const made = row(name, chooser, { title: `${name} becomes` });
      made.note.textContent = "in the next step";
      return made;
    },
    { none: "A valid program says which results there are." },
  );
  return rows;
}

/** Give the fields that a result may become; of a sequence, all variables. */
function inputsOf(scope) {
  return scope ? scope.named("input") : [];
}

/** Make a chooser of a dimension for each axis. */
export function axesControl() {
  return rowsControl(
    () => ["I", "J", "K"].map((name) => ({ name })),
    (axis) => {
      const chooser = choiceControl(
        `axis-${axis}`,
        (scope) => [...(scope?.named("dimension") ?? []), [null, "no dimension"]],
        { empty: "by its attributes and name" },
      );
      const made = row(axis, chooser, { title: `Axis ${axis}` });
      return {
        ...made,
        renew(scope) {
          chooser.renew(scope);
          const known = scope.dataset?.axes[axis];
          made.note.textContent = known ? `that is '${known}'` : "";
        },
        write: (value) => chooser.write(value === null ? "null" : value),
      };
    },
    { none: "" },
  );
}

/** Make names of variables, and numbers, by names in a text that is not analysed while typing. */
export const namedVariables = (name) => pairsControl(name, { values: "variable", key: "a name" });
export const namedValues = (name) => pairsControl(name, { values: "json", key: "a name" });
