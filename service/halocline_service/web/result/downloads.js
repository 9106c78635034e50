// Ways to take a result away: as a file, as a table, as a picture.

import { call, key, root, told } from "../core/api.js";
import { announce, colour, el } from "../core/dom.js";

/** Save rows as a file of values between commas. */
export function saveTable(name, rows) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const text = `${rows.map((row) => row.map(String).map(quoted).join(",")).join("\n")}\n`;
  saveBlob(name, new Blob([text], { type: "text/csv" }));
}

function saveBlob(name, blob) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** Make the links and buttons; `picture()` gives `{name, title, canvases, rows}` of what is drawn. */
export function downloadBar(job, { isSeries, picture }) {
  const path = `jobs/${job}/results`;
  const files = [["NetCDF", `${path}?f=netcdf`, `${job.slice(-8)}.nc`]];
  if (isSeries) files.push(["CSV", `${path}?f=csv`, `${job.slice(-8)}.csv`]);
  return el(
    "div",
    { class: "downloads" },
    el("span", { class: "note" }, "Download:"),
    ...files.map(([title, address, name]) => link(title, address, name)),
    el("button", { type: "button", onclick: () => savePicture(picture()) }, "PNG of the picture"),
    el("button", { type: "button", onclick: () => saveValues(picture()) }, "CSV of the picture"),
  );
}

/** Make a link to a file; where a key is needed, which no link sends, it is fetched first. */
function link(title, address, name) {
  const made = el("a", { class: "button", href: new URL(address, root).href, download: name }, title);
  made.addEventListener("click", async (event) => {
    if (!key.get()) return;
    event.preventDefault();
    announce(`${title} is being prepared.`);
    try {
      saveBlob(name, await (await call(address)).blob());
      announce("");
    } catch (error) {
      announce(told(error));
    }
  });
  return made;
}

const saveValues = ({ name, rows }) => saveTable(`${name}.csv`, rows);

/** Save what is drawn, with its title, on the colour of the page. */
async function savePicture({ name, title, canvases }) {
  const ratio = window.devicePixelRatio || 1;
  const head = 30 * ratio;
  const gap = 16 * ratio;
  const width = canvases.reduce((sum, { width: wide }) => sum + wide + gap, gap);
  const height = Math.max(...canvases.map(({ height: high }) => high)) + head + gap;
  const whole = new OffscreenCanvas(width, height);
  const context = whole.getContext("2d");
  context.fillStyle = colour("card");
  context.fillRect(0, 0, width, height);
  context.fillStyle = colour("ink");
  context.font = `600 ${14 * ratio}px system-ui, sans-serif`;
  context.fillText(title, gap, 21 * ratio);
  let left = gap;
  for (const canvas of canvases) {
    context.drawImage(canvas, left, head);
    left += canvas.width + gap;
  }
  saveBlob(`${name}.png`, await whole.convertToBlob({ type: "image/png" }));
}
