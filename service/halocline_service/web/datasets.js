// Datasets: what is uploaded can be removed, and a folder with a Zarr store be sent.

import { call, told } from "./core/api.js";
import { announce, el } from "./core/dom.js";
import { fetchMain, ready } from "./core/page.js";
import { sendForm } from "./form/send.js";

const main = await ready();

function offer() {
  for (const row of main.querySelectorAll("tr[data-upload]")) {
    const remove = el("button", { type: "button", class: "danger" }, "Remove");
    remove.setAttribute("aria-label", `Remove upload:${row.dataset.upload}`);
    remove.addEventListener("click", () => drop(row.dataset.upload));
    row.lastElementChild.append(" ", remove);
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
}

offer();
main.querySelector("#send").append(sendForm(renew));
