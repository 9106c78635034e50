// Sends a NetCDF file, or a Zarr store, which is a folder of files: each is one object of the store.

import { call, json, Problem, told } from "../core/api.js";
import { el } from "../core/dom.js";
import { size } from "../core/words.js";

const AT_ONCE = 4;
const TRIES = 4;
const ROOTS = ["zarr.json", ".zgroup", ".zmetadata"];

/** Make the form; `onSent()` is called when a dataset has arrived. */
export function sendForm(onSent) {
  const file = el("input", { type: "file", id: "file", accept: ".nc,.nc4,.cdf,.h5,.hdf5" });
  const folder = el("input", { type: "file", id: "folder", webkitdirectory: true, multiple: true });
  const bar = el("progress", { max: 1, value: 0, hidden: true, "aria-label": "Sent" });
  const text = el("p", { role: "status" });
  const stop = el("button", { type: "button", hidden: true }, "Stop");
  const button = el("button", { class: "primary" }, "Upload");
  file.addEventListener("change", () => (folder.value = ""));
  folder.addEventListener("change", () => (file.value = ""));
  const form = el(
    "form",
    { class: "card" },
    el("h2", {}, "Upload a dataset"),
    el(
      "div",
      { class: "two-ways" },
      el("div", {}, el("label", { for: "file" }, "NetCDF file"), file),
      el("div", {}, el("label", { for: "folder" }, "or the folder of a Zarr store"), folder),
    ),
    el("div", { class: "actions" }, button, stop),
    bar,
    text,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const aborted = new AbortController();
    stop.onclick = () => aborted.abort();
    [button.disabled, stop.hidden, bar.hidden] = [true, false, false];
    try {
      const objects = objectsOf([...file.files], [...folder.files]);
      await send(objects, aborted.signal, (done, all) => {
        bar.value = all ? done / all : 1;
        text.textContent = `${size(done)} of ${size(all)} sent`;
      });
      text.textContent = "The dataset is there.";
      form.reset();
      await onSent();
    } catch (error) {
      text.textContent = aborted.signal.aborted ? "Stopped; nothing was kept." : told(error);
    } finally {
      [button.disabled, stop.hidden, bar.hidden] = [false, true, true];
    }
  });
  return form;
}

/** Give what is sent as `[path below the upload, file]`; what is no dataset is refused. */
export function objectsOf(files, folder) {
  if (files.length > 0) return [[".nc", files[0]]];
  if (folder.length === 0)
    throw new Error("Choose a NetCDF file, or the folder of a Zarr store, first.");
  const named = folder.map((file) => [file.webkitRelativePath.split("/").slice(1).join("/"), file]);
  if (!named.some(([name]) => ROOTS.includes(name)))
    throw new Error("This folder is no Zarr store: it has neither 'zarr.json' nor '.zgroup'.");
  return named.map(([name, file]) => [
    `.zarr/${name.split("/").map(encodeURIComponent).join("/")}`,
    file,
  ]);
}

async function send(objects, signal, onProgress) {
  const all = objects.reduce((sum, [, file]) => sum + file.size, 0);
  const headers = { "Content-Type": "application/json" };
  const upload = await json("uploads", { method: "POST", headers, body: "{}", signal });
  let done = 0;
  const rest = [...objects];
  const run = async () => {
    while (rest.length > 0) {
      const [name, file] = rest.pop();
      await put(`uploads/${upload.id}${name}`, file, signal);
      onProgress((done += file.size), all);
    }
  };
  try {
    onProgress(0, all);
    await Promise.all(Array.from({ length: AT_ONCE }, run));
    await call(`uploads/${upload.id}/complete`, { method: "POST", signal });
  } catch (error) {
    await call(`uploads/${upload.id}`, { method: "DELETE" }).catch(() => null);
    throw error;
  }
}

/** Send one object; where the connection is lost, again. */
async function put(path, file, signal) {
  for (let tries = 1; ; tries += 1) {
    try {
      await call(path, { method: "PUT", body: file, signal });
      return;
    } catch (error) {
      const isFinal = error instanceof Problem && error.status < 500 && error.status !== 429;
      if (isFinal || signal.aborted || tries === TRIES) throw error;
      await new Promise((wake) => setTimeout(wake, 500 * 2 ** tries));
    }
  }
}
