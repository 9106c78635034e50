// A form made from the description of a process: a field for each input, in groups.

import { el } from "../core/dom.js";
import { boundaryControl } from "./boundary.js";
import { choiceControl, freshId, numberControl, textControl, tickControl } from "./controls.js";
import { jsonControl, linesControl, severalControl, sizesControl } from "./compound.js";
import { datasetControl } from "./dataset.js";
import { Fault, missing } from "./fault.js";
import {
  axesControl,
  feedbackControl,
  fieldsControl,
  namedValues,
  namedVariables,
  scalarsControl,
} from "./parameters.js";
import { programControl } from "./program.js";
import { stagesControl } from "./stages.js";

const GROUPS = [
  { title: "Data", names: [] },
  { title: "What is computed", names: [] },
  { title: "Grid", names: ["boundary", "axes", "grid", "positions", "axis", "heights", "dims", "target_dims"] },
  { title: "Steps", names: ["steps", "feedback", "snapshot_every", "time", "until", "diagnostics", "results"] },
  {
    title: "More about the program",
    names: ["stencil_name", "externals", "dtypes", "literal_precision", "arithmetic"],
    isFolded: true,
  },
  { title: "Execution", names: ["target", "mode", "chunks", "order"], isFolded: true },
];
const [DATA, OWN] = GROUPS;

/** A form for the inputs of one process, or of a stage of a sequence. */
export class Fields {
  constructor(description, processes = {}) {
    this.id = description.id;
    this.processes = processes;
    this.fields = new Map();
    for (const [name, input] of Object.entries(description.inputs))
      this.fields.set(name, this.#field(name, input));
    this.element = el("div", { class: "groups" }, this.#groups(description));
  }

  #field(name, { title, description, minOccurs, schema }) {
    const control = controlOf(name, schema, this);
    return new Field(name, { title, help: description, isNeeded: minOccurs > 0, control });
  }

  #groups({ inputs }) {
    const groupOf = (name) => {
      if (inputs[name].schema["x-names"] === "dataset") return DATA;
      return GROUPS.find(({ names }) => names.includes(name)) ?? OWN;
    };
    const all = [...this.fields.keys()];
    return GROUPS.map((group) => {
      const own = all.filter((name) => groupOf(name) === group);
      own.sort((one, other) => group.names.indexOf(one) - group.names.indexOf(other));
      const parts = own.map((name) => this.fields.get(name).element);
      if (parts.length === 0) return null;
      return group.isFolded
        ? el("details", { class: "card group" }, el("summary", {}, group.title), parts)
        : el("section", { class: "card group" }, el("h2", {}, group.title), parts);
    });
  }

  /** The control of an input, if the process has it. */
  control(name) {
    return this.fields.get(name)?.control;
  }

  /** Give what an input has now; undefined where it has nothing, or a fault. */
  value(name) {
    try {
      return this.control(name)?.read();
    } catch {
      return undefined;
    }
  }

  /** Read all inputs: `{inputs, faults}`; what is wrong is left out of `inputs`. */
  read() {
    const [inputs, faults] = [{}, []];
    for (const [name, field] of this.fields) {
      try {
        const value = field.read();
        if (value !== undefined) inputs[name] = value;
      } catch (fault) {
        if (!(fault instanceof Fault)) throw fault;
        faults.push({ field, fault });
        if (fault.part !== undefined) inputs[name] = fault.part;
      }
    }
    return { inputs, faults };
  }

  /** Write inputs; gives the names of those that the process does not have. */
  write(inputs) {
    for (const [name, field] of this.fields) field.write(inputs[name]);
    return Object.keys(inputs).filter((name) => !this.fields.has(name));
  }

  /** Take what is known of the dataset and the program. */
  renew(scope) {
    this.scope = scope;
    for (const { control } of this.fields.values()) control.renew(scope);
  }

  /** Say nothing of what is wrong. */
  clear() {
    for (const field of this.fields.values()) field.say("");
  }
}

/** One input: its title, control, help, and the place of what is wrong with it. */
class Field {
  constructor(name, { title, help, isNeeded, control }) {
    Object.assign(this, { name, title, isNeeded, control });
    this.wrong = el("p", { class: "wrong", id: freshId("wrong"), hidden: true });
    const note = help ? el("p", { class: "help" }, help) : null;
    const needed = isNeeded ? el("span", { class: "needed", title: "must be there" }, "needed") : null;
    const parts = [control.element, note, this.wrong];
    if (control.input) {
      const label = el("label", { for: control.input.id }, title);
      const head = control.isInline
        ? el("div", { class: "tick" }, control.element, label)
        : el("div", { class: "head" }, label, needed);
      control.input.setAttribute("aria-describedby", this.wrong.id);
      this.element = el("div", { class: "field" }, head, control.isInline ? parts.slice(1) : parts);
    } else {
      this.element = el("fieldset", { class: "field" }, el("legend", {}, title), parts);
    }
    this.element.dataset.name = name;
  }

  read() {
    const value = this.control.read();
    if (value === undefined && this.isNeeded)
      throw missing(this.control.lack ?? `${this.title} must be there.`);
    return value;
  }

  write(value) {
    this.control.write(value);
    const fold = this.element.closest("details");
    if (fold && value !== undefined) fold.open = true;
  }

  /** Say what is wrong beside the control; nothing where the text is empty. */
  say(text) {
    this.wrong.textContent = text;
    this.wrong.hidden = text === "";
    this.control.input?.setAttribute("aria-invalid", String(text !== ""));
    const fold = this.element.closest("details");
    if (fold && text) fold.open = true;
  }

  focus() {
    (this.control.input ?? this.element.querySelector("input, select, textarea"))?.focus();
  }
}

/** Make the control that fits an input: by its name for those of programs, else by its schema. */
function controlOf(name, schema, form) {
  const isProgram = form.id === "stencil";
  switch (name) {
    case "fields":
      return isProgram ? fieldsControl() : namedVariables(name);
    case "scalars":
      return isProgram ? scalarsControl() : namedValues(name);
    case "feedback":
      return feedbackControl();
    case "axes":
      return axesControl();
    case "boundary":
      return boundaryControl(schema, () => form.value("axes"));
    case "chunks":
      return sizesControl(name, schema.additionalProperties);
    case "stages":
      return stagesControl(schema, form.processes);
    case "externals":
    case "dtypes":
      return namedValues(name);
    default:
      return bySchema(name, schema);
  }
}

/** Make the control that fits a schema. */
export function bySchema(name, schema) {
  const kind = schema["x-names"];
  if (kind === "dataset") return datasetControl(name);
  if (kind) return choiceControl(name, (scope) => scope?.named(kind) ?? [], { empty: "choose" });
  if (schema.contentMediaType === "text/x-python") return programControl(name);
  if (schema.enum) return ofWords(name, schema);
  if (schema.anyOf) return ofKinds(name, schema);
  switch (schema.type) {
    case "string":
      return textControl(name, { placeholder: schema.default ?? "" });
    case "integer":
    case "number":
      return numberControl(name, schema);
    case "boolean":
      return tickControl(name, { isOn: schema.default === true });
    case "array":
      return ofItems(name, schema);
    default:
      return schema.properties ? membersControl(name, schema) : jsonControl(name, schema);
  }
}

function ofWords(name, schema) {
  const words = schema.enum.map((word) => [word, String(word)]);
  const standard = schema.default;
  if (standard === undefined) return choiceControl(name, () => words, { empty: "choose" });
  const others = words.filter(([word]) => word !== standard);
  return choiceControl(name, () => others, { empty: String(standard) });
}

/** Make a control for one of several kinds: the first that has a control of its own. */
function ofKinds(name, schema) {
  const list = schema.anyOf.find(({ type }) => type === "array");
  if (list?.items?.["x-names"])
    return severalControl(name, list.items["x-names"], { isSingle: true });
  const simple = schema.anyOf.find((each) => each["x-names"] || each.enum);
  if (!simple) return jsonControl(name, schema);
  return bySchema(name, { ...simple, ...("default" in schema ? { default: schema.default } : {}) });
}

function ofItems(name, schema) {
  const kind = schema.items?.["x-names"];
  if (kind) return severalControl(name, kind);
  return schema.items?.type === "string" ? linesControl(name) : jsonControl(name, schema);
}

/** Make controls for the members of an object; it is there once its first member is. */
function membersControl(name, schema) {
  const members = Object.entries(schema.properties).map(([member, each]) => {
    const control = bySchema(`${name}-${member}`, each);
    const help = each.description ? el("p", { class: "help" }, each.description) : null;
    const label = el("label", { for: control.input?.id }, each.title ?? member);
    const needed = (schema.required ?? []).includes(member);
    return { member, control, needed, element: el("div", {}, label, control.element, help) };
  });
  return {
    element: el(
      "div",
      { class: "members" },
      members.map(({ element }) => element),
    ),
    read() {
      const read = members
        .map(({ member, control }) => [member, control.read()])
        .filter(([, value]) => value !== undefined);
      if (read.length === 0) return undefined;
      const value = Object.fromEntries(read);
      const left = members.find(({ member, needed }) => needed && !(member in value));
      if (left) throw missing(`Choose or type '${left.member}' as well.`);
      return value;
    },
    write(value) {
      for (const { member, control } of members) control.write(value?.[member]);
    },
    renew(scope) {
      for (const { control } of members) control.renew(scope);
    },
  };
}
