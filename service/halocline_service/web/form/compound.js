// Controls for objects and lists: one for each dimension, pairs of names and values, several names,
// and members of an object. `read()` gives undefined where nothing is chosen.

import { el } from "../core/dom.js";
import { choiceControl, freshId, numberControl, textControl } from "./controls.js";
import { Fault, missing } from "./fault.js";

const named = (control, title) => {
  control.input.setAttribute("aria-label", title);
  return control;
};

/**
 * Make rows that follow the names which `names(scope)` gives; what was written stays by name, and
 * with `keepsWritten` is shown even where no name asks for it.
 */
export function rowsControl(names, make, { none, keepsWritten = false }) {
  const element = el("div", { class: "rows" });
  const rows = new Map();
  let scope = null;
  const renew = (now) => {
    scope = now;
    const wanted = names(scope);
    const isKept = (name) => rows.get(name).isWritten && !wanted.some((each) => each.name === name);
    if (keepsWritten)
      wanted.push(...[...rows.keys()].filter(isKept).map((name) => ({ name, note: "" })));
    for (const { name } of wanted) if (!rows.has(name)) rows.set(name, make(name));
    for (const [name, row] of rows) row.isShown = wanted.some((each) => each.name === name);
    for (const each of wanted) rows.get(each.name).renew(scope, each);
    const shown = wanted.map(({ name }) => rows.get(name).element);
    const isSame = shown.length === element.children.length;
    if (!isSame || shown.length === 0 || shown.some((row, at) => element.children[at] !== row))
      element.replaceChildren(...(shown.length > 0 ? shown : [el("p", { class: "note" }, none)]));
  };
  return {
    element,
    rows,
    read() {
      const read = [...rows]
        .filter(([, row]) => row.isShown)
        .map(([name, row]) => [name, row.read()])
        .filter(([, value]) => value !== undefined);
      return read.length > 0 ? Object.fromEntries(read) : undefined;
    },
    write(values) {
      for (const name of Object.keys(values ?? {}))
        if (!rows.has(name)) rows.set(name, make(name));
      for (const [name, row] of rows) {
        row.isWritten = values?.[name] !== undefined;
        row.write(values?.[name]);
      }
      if (scope) renew(scope);
    },
    renew,
  };
}

/** Make one row of a control with its name before it. */
export function row(name, control, { title = name } = {}) {
  const label = el("label", { for: control.input.id }, title);
  const note = el("span", { class: "note" });
  return {
    element: el("div", { class: "row" }, label, control.element, note),
    note,
    label,
    read: () => control.read(),
    write: (value) => control.write(value),
    renew: (scope) => control.renew(scope),
  };
}

/** Make a control with a number for each dimension of the dataset. */
export function sizesControl(name, schema) {
  return rowsControl(
    (scope) => scope.dimensions.map(([dim, length]) => ({ name: dim, length })),
    (dim) => {
      const control = numberControl(`${name}-${dim}`, schema, { placeholder: "automatic" });
      const made = row(dim, control);
      return {
        ...made,
        renew: (_scope, { length }) => (made.note.textContent = `of ${length}`),
      };
    },
    { none: "Choose a dataset first." },
  );
}

/** Make pairs that can be added and removed; values are JSON where they can be read so. */
export function pairsControl(name, { values = "text", key = null } = {}) {
  const list = el("div", { class: "rows" });
  const pairs = new Set();
  let scope = null;
  const add = (from = "", to = "") => {
    const first = named(textControl(name, { placeholder: "name", list: null }), "Name");
    const second =
      values === "variable"
        ? named(choiceControl(name, (now) => now?.variables ?? [], { empty: "choose" }), "Variable")
        : named(textControl(name, { placeholder: "value" }), "Value");
    first.write(from);
    second.renew(scope);
    second.write(typeof to === "string" ? to : JSON.stringify(to));
    const remove = el("button", { type: "button", "aria-label": "Remove this pair" }, "✕");
    const element = el("div", { class: "pair" }, first.element, second.element, remove);
    const pair = { first, second, element };
    remove.addEventListener("click", () => {
      pairs.delete(pair);
      element.remove();
      list.dispatchEvent(new Event("input", { bubbles: true }));
    });
    pairs.add(pair);
    list.append(element);
    return first.input;
  };
  const more = el("button", { type: "button", onclick: () => add().focus() }, `Add ${key ?? "one"}`);
  const value = (text) => {
    if (values !== "json") return text;
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  };
  return {
    element: el("div", {}, list, more),
    read() {
      const read = {};
      for (const { first, second } of pairs) {
        const [from, to] = [first.read(), second.read()];
        if (from === undefined && to === undefined) continue;
        if (to === undefined && values === "variable")
          throw missing(`Choose the variable that '${from}' is.`);
        if (from === undefined || to === undefined)
          throw missing("Type both a name and a value, or remove the pair.");
        if (from in read) throw new Fault(`'${from}' stands there twice. Keep one.`);
        read[from] = value(to);
      }
      return Object.keys(read).length > 0 ? read : undefined;
    },
    write(given) {
      list.replaceChildren();
      pairs.clear();
      for (const [from, to] of Object.entries(given ?? {})) add(from, to);
    },
    renew(now) {
      scope = now;
      for (const { second } of pairs) second.renew(now);
    },
  };
}

/** Make boxes to tick, one for each name of a kind; `isSingle` gives a text where one is ticked. */
export function severalControl(name, kind, { isSingle = false } = {}) {
  const element = el("div", { class: "ticks" });
  const ticked = new Set();
  const renew = (scope) => {
    const offered = scope.named(kind);
    const all = [...offered, ...[...ticked].filter(notIn(offered)).map((each) => [each, each])];
    if (all.length === 0) {
      element.replaceChildren(el("p", { class: "note" }, "Choose a dataset first."));
      return;
    }
    element.replaceChildren(
      ...all.map(([value, title]) => {
        const id = freshId(name);
        const box = el("input", { type: "checkbox", id });
        box.checked = ticked.has(value);
        box.addEventListener("change", () => {
          if (box.checked) ticked.add(value);
          else ticked.delete(value);
        });
        return el("label", { class: "tick", for: id }, box, title);
      }),
    );
  };
  let scope = null;
  return {
    element,
    read() {
      if (ticked.size === 0) return undefined;
      return isSingle && ticked.size === 1 ? [...ticked][0] : [...ticked];
    },
    write(values) {
      ticked.clear();
      for (const value of [values ?? []].flat()) ticked.add(value);
      if (scope) renew(scope);
    },
    renew(now) {
      const isOther = JSON.stringify(now.named(kind)) !== JSON.stringify(scope?.named(kind));
      scope = now;
      if (isOther || element.children.length === 0) renew(now);
    },
  };
}

const notIn = (offered) => (each) => !offered.some(([value]) => value === each);

/** Make a line for each of several new names. */
export function linesControl(name) {
  const input = el("textarea", { id: freshId(name), rows: 3, spellcheck: "false" });
  return {
    element: input,
    input,
    read() {
      const lines = input.value.split("\n").map((line) => line.trim());
      const kept = lines.filter(Boolean);
      return kept.length > 0 ? kept : undefined;
    },
    write: (values) => (input.value = (values ?? []).join("\n")),
    renew: () => {},
  };
}

/** Make a field for JSON, for what has no control of its own. */
export function jsonControl(name, schema) {
  const input = el("textarea", { id: freshId(name), rows: 3, spellcheck: "false" });
  input.placeholder = schema.type === "array" ? "[1, 2]" : '{"name": 1}';
  return {
    element: input,
    input,
    read() {
      if (!input.value.trim()) return undefined;
      try {
        return JSON.parse(input.value);
      } catch {
        throw new Fault(`Type JSON, such as ${input.placeholder}.`);
      }
    },
    write: (value) => (input.value = value === undefined ? "" : JSON.stringify(value, null, 2)),
    renew: () => {},
  };
}
