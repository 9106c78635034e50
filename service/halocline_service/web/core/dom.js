// Elements made from values: text stays text, so what users name can never become markup.

/** Make an element; attributes that are null or false are left out, `on...` are listeners. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** Make an element of a drawing. */
export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** Say something to those who read and to those who listen. */
export function announce(text) {
  const place = document.getElementById("status");
  place.textContent = text;
  place.classList.toggle("shown", text !== "");
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => place.classList.remove("shown"), 6000);
}

const colours = new Map(); // asking the style of an element takes long
document.addEventListener("themechange", () => colours.clear());

/** Give a colour of the theme as a canvas takes it, which does not know `light-dark()`. */
export function colour(name) {
  if (!colours.has(name)) colours.set(name, computed(name));
  return colours.get(name);
}

function computed(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** Size a canvas for the screen's own pixels; gives its context, which draws in CSS pixels. */
export function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [width, height].map((side) => Math.max(1, Math.round(side * ratio)));
  const context = canvas.getContext("2d");
  if (canvas.width !== wide || canvas.height !== high) {
    [canvas.width, canvas.height] = [wide, high];
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Call `draw` in the next frame, once however often it was asked for. */
export function framed(draw) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };
}
