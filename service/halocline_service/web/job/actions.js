// What can be done with a job: stop it, remove it, copy it, begin another one like it.

import { call, json, root, told } from "../core/api.js";
import { copyButtons } from "../core/copying.js";
import { announce, el } from "../core/dom.js";

export class Actions {
  constructor(place, job) {
    this.place = place;
    this.job = job;
  }

  /** Offer what fits the state of the job, and copies if its inputs are known. */
  update(info, inputs) {
    if (this.shown === info.status) return;
    this.shown = info.status;
    const isOver = ["successful", "failed", "dismissed"].includes(info.status);
    const buttons = isOver
      ? [button("Remove", () => this.#remove(), "danger")]
      : [button("Cancel", () => this.#cancel(), "danger")];
    if (info.status === "successful") {
      const open = new URL(`jobs/${this.job}/results/result.zarr`, root).href;
      buttons.push(button("Copy address of the result", () => copyText(open)));
    }
    if (inputs) {
      buttons.push(...copyButtons(() => [info.processID, inputs]));
      if (info.processID === "stencil")
        buttons.push(
          el("a", { class: "button", href: `../new?from=${this.job}` }, "New job like this"),
        );
    }
    this.place.replaceChildren(...buttons);
  }

  async #cancel() {
    try {
      await json(`jobs/${this.job}?ended=keep`, { method: "DELETE" });
      announce("The job was told to stop.");
    } catch (error) {
      announce(told(error));
    }
  }

  async #remove() {
    if (!confirm("Remove this job and its result?")) return;
    try {
      await call(`jobs/${this.job}`, { method: "DELETE" });
      location.assign("../");
    } catch (error) {
      announce(told(error));
    }
  }
}

function button(title, onclick, kind = null) {
  return el("button", { type: "button", onclick, class: kind }, title);
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied.");
  } catch {
    announce(text);
  }
}
