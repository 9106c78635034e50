// Buttons that copy a request as text.

import { announce, el } from "./dom.js";
import { asCurl, asFile, asPython } from "./snippets.js";

const FORMS = { "Copy as Python": asPython, "Copy as curl": asCurl, "Copy as JSON": asFile };

/** Make the buttons; `request()` gives `[process, inputs, job]`, or null where there is none. */
export function copyButtons(request) {
  const copies = Object.entries(FORMS).map(([title, write]) =>
    el("button", { type: "button", onclick: () => copy(write, request()) }, title),
  );
  const file = el("button", { type: "button", onclick: () => save(request()) }, "Save as job file");
  return [...copies, file];
}

/** Save a request as the file that `halocline run` takes. */
function save(request) {
  if (!request) return;
  const [process, inputs, job = {}] = request;
  const text = `${JSON.stringify({ process, ...job, inputs }, null, 2)}\n`;
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href: address, download: `${process}.json` }).click();
  URL.revokeObjectURL(address);
}

async function copy(write, request) {
  if (!request) return;
  const text = write(...request);
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied.");
  } catch {
    shown(text); // pages without encryption may not write to the clipboard
  }
}

function shown(text) {
  const area = el("textarea", { rows: 14, readonly: true, "aria-label": "Text to copy" });
  area.value = text;
  const dialog = el(
    "dialog",
    {},
    area,
    el("form", { method: "dialog" }, el("button", {}, "Close")),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  area.select();
}
