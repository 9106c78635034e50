// Datasets: what is in each, uploads that can be removed, and files that can be sent.

import { call, told } from "./core/api.js";
import { announce, el } from "./core/dom.js";
import { fetchMain, ready } from "./core/page.js";
import { contentsView, descriptionOf } from "./form/dataset.js";
import { sendForm } from "./form/send.js";

const MOST = 24; // datasets that are described without being asked for

const main = await ready();

function offer() {
  for (const row of main.querySelectorAll("tr[data-upload]")) {
    const remove = el("button", { type: "button", class: "danger" }, "Remove");
    remove.setAttribute("aria-label", `Remove upload:${row.dataset.upload}`);
    remove.addEventListener("click", () => drop(row.dataset.upload));
    row.lastElementChild.append(" ", remove);
  }
}

/** Show what is in each dataset, one after the other. */
async function describe() {
  const places = [...main.querySelectorAll("[data-dataset]:empty")];
  for (const place of places.slice(0, MOST)) await describeOne(place);
  for (const place of places.slice(MOST)) {
    const ask = () => describeOne(place);
    place.replaceChildren(el("button", { type: "button", class: "chip", onclick: ask }, "Look inside"));
  }
}

async function describeOne(place) {
  try {
    place.replaceChildren(contentsView(await descriptionOf(place.dataset.dataset)));
  } catch (error) {
    place.replaceChildren(el("span", { class: "note" }, told(error)));
  }
}

async function drop(upload) {
  if (!confirm(`Remove upload:${upload}?`)) return;
  try {
    await call(`uploads/${upload}`, { method: "DELETE" });
    await renew();
  } catch (error) {
    announce(told(error));
  }
}

async function renew() {
  const found = await fetchMain();
  main.querySelector("#uploads").replaceWith(found.querySelector("#uploads"));
  offer();
  await describe();
}

offer();
main.querySelector("#send").append(sendForm(renew));
describe();
