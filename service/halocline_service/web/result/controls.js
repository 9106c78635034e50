// What a reader chooses of a result: variable, dimensions, indices, colours, and which part.

import { el } from "../core/dom.js";
import { SCALES } from "./colours.js";

/** Make a list to choose from; `options` are `[value, title]`. */
export function choice(title, options, chosen, onchange) {
  const items = options.map(([value, words]) =>
    el("option", { value, selected: String(value) === String(chosen) }, words),
  );
  return labelled(
    title,
    el("select", { onchange: (event) => onchange(event.target.value) }, items),
  );
}

/** Make a slider over the indices of a dimension, with the coordinate beside it. */
export function slider(name, length, index, write, onchange) {
  const text = el("output", {}, write(index));
  const input = el("input", {
    type: "range",
    min: 0,
    max: length - 1,
    value: index,
    "aria-label": name,
    oninput: (event) => {
      text.textContent = write(Number(event.target.value));
      onchange(Number(event.target.value));
    },
  });
  return el("label", { class: "slider" }, el("span", {}, name), input, text);
}

/** Make the fields for the colours: scale, lowest and highest value, and back to all of them. */
export function colours({ scale, low, high }, onchange) {
  const number = (title, value, name) =>
    labelled(
      title,
      el("input", {
        type: "number",
        step: "any",
        value: Number.isFinite(value) ? Number(value.toPrecision(6)) : "",
        onchange: (event) =>
          onchange({ [name]: event.target.value === "" ? null : +event.target.value }),
      }),
    );
  return [
    choice("Colours", Object.entries(SCALES), scale, (value) => onchange({ scale: value })),
    number("From", low, "low"),
    number("To", high, "high"),
    el("button", { type: "button", onclick: () => onchange({ low: null, high: null }) }, "Fit"),
  ];
}

/** Make buttons that show less or more; `onZoom(factor)` is told 0 for all. */
export function zoomButtons(onZoom) {
  const ways = [
    ["+", "Look closer", 0.5],
    ["−", "Look from farther away", 2],
    ["All", "Show all", 0],
  ];
  return ways.map(([text, title, factor]) =>
    el(
      "button",
      { type: "button", "aria-label": title, title, onclick: () => onZoom(factor) },
      text,
    ),
  );
}

function labelled(title, input) {
  return el("label", {}, el("span", {}, title), input);
}
