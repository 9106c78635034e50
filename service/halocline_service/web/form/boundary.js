// What lies beyond the edges of each dimension: a rule, or one for each side.

import { el } from "../core/dom.js";
import { choiceControl, freshId, numberOf } from "./controls.js";
import { rowsControl } from "./compound.js";
import { missing } from "./fault.js";

const RULES = {
  none: "none: cells at the edge are not computed",
  periodic: "periodic: the other end follows",
  edge: "edge: the last cell again",
  reflect: "reflect: mirrored at the last cell",
  symmetric: "symmetric: mirrored at the edge",
  antisymmetric: "antisymmetric: mirrored with the other sign",
  extrapolate: "extrapolate: the line through the last two cells",
  constant: "a constant value",
};
const SIDES = "sides";

/** Make the rules for the dimensions along which the program reads neighbours. */
export function boundaryControl(schema, axesOf) {
  const isPeriodicOnly = schema.additionalProperties?.const === "periodic";
  return rowsControl(
    (scope) => (isPeriodicOnly ? dimensionsOf(scope) : haloDimensions(scope, axesOf())),
    (dim) => dimensionRow(dim, isPeriodicOnly),
    {
      none: isPeriodicOnly
        ? "Choose a dataset first."
        : "Nothing is read beyond the edges, or the dataset is not known yet.",
      keepsWritten: true,
    },
  );
}

const dimensionsOf = (scope) => scope.dimensions.map(([name]) => ({ name, note: "" }));

/** Give the dimensions along which fields are read beyond the domain, with how far. */
export function haloDimensions({ dataset, program }, axes) {
  const dims = [];
  for (const axis of ["I", "J", "K"]) {
    const halos = (program?.fields ?? []).map(({ halo }) => halo[axis] ?? [0, 0]);
    const [before, after] = [0, 1].map((side) => Math.max(0, ...halos.map((halo) => halo[side])));
    const name = axes?.[axis] ?? dataset?.axes[axis];
    if (name && before + after > 0)
      dims.push({ name, note: `${axis}: reads ${before} before, ${after} after` });
  }
  return dims;
}

function dimensionRow(dim, isPeriodicOnly) {
  const options = Object.entries(RULES);
  const both = isPeriodicOnly
    ? [
        ["none", "not periodic"],
        ["periodic", RULES.periodic],
      ]
    : [...options, [SIDES, "one rule for each side"]];
  const whole = ruleControl(`Boundary of ${dim}`, `Constant at ${dim}`, both);
  const sided = options.filter(([rule]) => rule !== "periodic");
  const sides = {
    low: ruleControl(`Boundary before ${dim}`, `Constant before ${dim}`, sided),
    high: ruleControl(`Boundary after ${dim}`, `Constant after ${dim}`, sided),
  };
  const apart = el(
    "div",
    { class: "sides", hidden: true },
    el("span", { class: "note" }, "before"),
    sides.low.element,
    el("span", { class: "note" }, "after"),
    sides.high.element,
  );
  // Rules of single fields, which a job file may have, stay with those of the dimension.
  let fields;
  const note = el("span", { class: "note" });
  const label = el("label", { for: whole.input.id }, dim);
  const show = () => (apart.hidden = whole.chosen() !== SIDES);
  whole.input.addEventListener("change", show);
  return {
    element: el("div", { class: "row wide" }, label, whole.element, note, apart),
    read() {
      if (whole.chosen() !== SIDES) return whole.read();
      const [low, high] = [sides.low.read() ?? "none", sides.high.read() ?? "none"];
      if (fields) return { low, high, fields };
      return low === "none" && high === "none" ? undefined : { low, high };
    },
    write(rule) {
      fields = rule?.fields;
      const isSided = rule && typeof rule === "object" && !("constant" in rule);
      whole.write(isSided ? SIDES : rule);
      sides.low.write(isSided ? rule.low : undefined);
      sides.high.write(isSided ? rule.high : undefined);
      show();
    },
    renew: (_scope, { note: text }) => (note.textContent = text),
  };
}

/** Make a list of rules, with a field for the value of a constant. */
function ruleControl(title, constant, options) {
  const choice = choiceControl("rule", () => options);
  choice.renew(null);
  choice.input.setAttribute("aria-label", title);
  const value = el("input", {
    id: freshId("constant"),
    "aria-label": constant,
    placeholder: "value",
    inputmode: "decimal",
    hidden: true,
  });
  const show = () => (value.hidden = choice.read() !== "constant");
  choice.input.addEventListener("change", show);
  return {
    element: el("div", { class: "rule" }, choice.element, value),
    input: choice.input,
    chosen: () => choice.read(),
    read() {
      const rule = choice.read();
      if (rule !== "constant") return rule === "none" ? undefined : rule;
      if (!value.value.trim()) throw missing(`${constant}: type a value.`);
      return { constant: numberOf(value.value.trim()) };
    },
    write(rule) {
      const isConstant = rule && typeof rule === "object" && "constant" in rule;
      choice.write(isConstant ? "constant" : (rule ?? "none"));
      value.value = isConstant ? String(rule.constant) : "";
      show();
    },
  };
}
