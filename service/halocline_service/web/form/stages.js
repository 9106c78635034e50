// The stages of a sequence: each one of a kind of process, with a form of its own.

import { el } from "../core/dom.js";
import { freshId } from "./controls.js";
import { Fault } from "./fault.js";
import { Fields } from "./fields.js";
import { Scope } from "./scope.js";

/** Make the list of stages; `processes` are summaries by identifier. */
export function stagesControl(schema, processes) {
  const kinds = Object.entries(schema.items.properties)
    .filter(([kind]) => kind !== "repeat" && kind !== "stages")
    .map(([kind, each]) => [
      kind,
      (each.anyOf ?? [each]).find(({ properties }) => properties),
    ]);
  const list = el("ol", { class: "stages" });
  const stages = [];
  let scope = new Scope();
  const changed = () => list.dispatchEvent(new Event("input", { bubbles: true }));

  function add(kind, given = {}) {
    const stage = { kind, fields: new Fields(described(kind, kinds)) };
    const at = () => stages.indexOf(stage);
    const move = (by) => {
      const to = at() + by;
      if (to < 0 || to >= stages.length) return;
      stages.splice(to, 0, ...stages.splice(at(), 1));
      list.replaceChildren(...stages.map(({ element }) => element));
      renew(scope);
      changed();
    };
    const button = (title, text, onclick) =>
      el("button", { type: "button", title, "aria-label": title, onclick }, text);
    stage.element = el(
      "li",
      { class: "stage" },
      el(
        "div",
        { class: "head" },
        el("strong", {}, processes[kind]?.title ?? kind),
        button("Move up", "↑", () => move(-1)),
        button("Move down", "↓", () => move(1)),
        button("Remove this stage", "✕", () => {
          stages.splice(at(), 1);
          stage.element.remove();
          renew(scope);
          changed();
        }),
      ),
      stage.fields.element,
    );
    stages.push(stage);
    list.append(stage.element);
    stage.fields.write(given);
    renew(scope);
    return stage;
  }

  const kind = el(
    "select",
    { id: freshId("kind"), "aria-label": "Kind of the next stage" },
    kinds.map(([each]) => el("option", { value: each }, processes[each]?.title ?? each)),
  );
  const more = el(
    "button",
    {
      type: "button",
      onclick: () => {
        add(kind.value).element.querySelector("input, select, textarea")?.focus();
        changed();
      },
    },
    "Add a stage",
  );

  /** Let each stage know what those before it make. */
  function renew(now) {
    scope = now;
    const made = [];
    for (const stage of stages) {
      stage.fields.renew(new Scope({ dataset: scope.dataset, program: stage.program, made: [...made] }));
      made.push(...resultsOf(stage));
    }
    scope.made = made;
  }

  return {
    element: el("div", {}, list, el("div", { class: "actions" }, kind, more)),
    stages,
    read() {
      if (stages.length === 0) return undefined;
      const parts = stages.map(({ kind: one, fields }) => ({ [one]: fields.read() }));
      const values = parts.map((part) => {
        const [[one, { inputs }]] = Object.entries(part);
        return { [one]: inputs };
      });
      for (const stage of stages) stage.fields.clear();
      const wrong = parts.flatMap((part, number) =>
        Object.values(part)[0].faults.map((each) => ({ ...each, number })),
      );
      if (wrong.length === 0) return values;
      for (const { field, fault } of wrong) if (!fault.isMissing) field.say(fault.message);
      const { number, fault } = wrong[0];
      const told = new Fault(`Stage ${number + 1}: ${fault.message}`, fault);
      told.part = values;
      throw told;
    },
    write(values) {
      stages.splice(0);
      list.replaceChildren();
      for (const value of writtenOut(values ?? [])) {
        const [[one, inputs]] = Object.entries(value);
        add(one, inputs);
      }
    },
    renew,
  };
}

/** Write stages that are repeated as often as they are run; the form has none that repeat others. */
function writtenOut(stages) {
  return stages.flatMap((stage) =>
    "repeat" in stage ? Array(stage.repeat).fill(writtenOut(stage.stages)).flat() : [stage],
  );
}

/** Describe a kind of stage as a process is described. */
function described(kind, kinds) {
  const { properties, required = [] } = kinds.find(([each]) => each === kind)[1];
  const inputs = Object.entries(properties).map(([name, schema]) => [
    name,
    {
      title: schema.title ?? name,
      description: schema.description ?? "",
      minOccurs: required.includes(name) ? 1 : 0,
      schema: withoutNull(schema),
    },
  ]);
  return { id: kind, inputs: Object.fromEntries(inputs) };
}

/** Leave out the null of what may be left out. */
function withoutNull(schema) {
  const { anyOf, ...rest } = schema;
  if (!anyOf) return schema;
  const kinds = anyOf.filter(({ type }) => type !== "null");
  return kinds.length === 1 ? { ...rest, ...kinds[0] } : { ...rest, anyOf: kinds };
}

/** Give the names of the variables that a stage makes, as far as the form knows. */
function resultsOf({ kind, program, fields }) {
  if (kind === "stencil") {
    const named = fields.value("fields") ?? {};
    return (program?.fields ?? [])
      .filter(({ written }) => written)
      .map(({ name }) => named[name] ?? name);
  }
  return [fields.value("name") ?? DEFAULTS[kind]].filter(Boolean);
}

const DEFAULTS = {
  column: "result",
  gather: "gathered",
  scatter: "scattered",
  tridiagonal: "solution",
  pentadiagonal: "solution",
  tree: "solution",
  solve: "solution",
};
