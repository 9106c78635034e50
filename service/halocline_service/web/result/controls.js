// What a reader chooses of a result: variable, dimensions, indices, colours, and which part.

import { el } from "../core/dom.js";
import { SCALES } from "./colours.js";

const FRAME = 250; // milliseconds that a picture stays, at least, while it plays

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

/**
 * Make a slider over the indices of a dimension, with the coordinate beside it and a button that
 * plays it. `onchange(index)` may give a promise, which is waited for while it plays.
 */
export function slider(name, length, index, write, onchange) {
  const text = el("output", {}, write(index));
  const show = (now) => {
    input.value = now;
    text.textContent = write(now);
    return onchange(now);
  };
  const input = el("input", {
    type: "range",
    min: 0,
    max: length - 1,
    value: index,
    "aria-label": name,
    oninput: (event) => show(Number(event.target.value)),
  });
  let playing = null;
  const play = el("button", { type: "button", class: "play", "aria-label": `Play ${name}` }, "▶");
  play.addEventListener("click", () => {
    const isOn = !playing;
    playing = isOn ? {} : null;
    play.textContent = isOn ? "❚❚" : "▶";
    play.setAttribute("aria-label", `${isOn ? "Pause" : "Play"} ${name}`);
    if (isOn) run(playing);
  });
  async function run(mine) {
    while (playing === mine && play.isConnected) {
      const pause = new Promise((done) => setTimeout(done, FRAME));
      await show((Number(input.value) + 1) % length);
      await pause;
    }
  }
  return el(
    "div",
    { class: "slider" },
    el("span", {}, name),
    play,
    input,
    text,
  );
}

/** Fields for the colours: scale, lowest and highest value, and a fit to what is shown. */
export class ColourControls {
  constructor(onchange) {
    const number = (name) =>
      el("input", {
        type: "number",
        step: "any",
        onchange: (event) => {
          const typed = event.target.value;
          onchange({ [name]: typed === "" ? null : Number(typed) });
        },
      });
    [this.low, this.high] = [number("low"), number("high")];
    this.scale = el(
      "select",
      { onchange: (event) => onchange({ scale: event.target.value }) },
      Object.entries(SCALES).map(([value, title]) => el("option", { value }, title)),
    );
    this.elements = [
      labelled("Colours", this.scale),
      labelled("From", this.low),
      labelled("To", this.high),
      el(
        "button",
        {
          type: "button",
          title: "Set the limits to the lowest and highest value that are shown now",
          onclick: () => onchange({ low: null, high: null }),
        },
        "Fit",
      ),
    ];
  }

  /** Show what holds now; a field in which somebody types is left alone. */
  show({ scale, low, high }) {
    this.scale.value = scale;
    for (const [input, value] of [
      [this.low, low],
      [this.high, high],
    ])
      if (input !== document.activeElement)
        input.value = Number.isFinite(value) ? Number(value.toPrecision(6)) : "";
  }
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
