// The list of jobs: filters as one types, and stays up to date. The service writes the table.

import { announce } from "./core/dom.js";
import { fetchMain, ready } from "./core/page.js";
import { told } from "./core/api.js";

const EVERY = 3000;
const PAUSE = 250;

let main = await ready();
let asked = 0;

function address() {
  const form = main.querySelector("#filters");
  const url = new URL(location.href);
  url.search = "";
  for (const [name, value] of new FormData(form)) if (value) url.searchParams.set(name, value);
  return url;
}

/** Put the list of an address into the page; the form, in which somebody may type, stays. */
async function show(url) {
  const mine = ++asked;
  try {
    const found = await fetchMain(url);
    if (mine !== asked) return;
    const list = main.querySelector("#list");
    const focused = list.contains(document.activeElement) && document.activeElement.href;
    list.replaceWith(found.querySelector("#list"));
    const counts = main.querySelector("#counts");
    if (!counts.contains(document.activeElement)) counts.replaceWith(found.querySelector("#counts"));
    for (const link of main.querySelectorAll("#list a"))
      if (link.href === focused) link.focus({ preventScroll: true });
  } catch (error) {
    announce(told(error));
  }
}

function filter() {
  const url = address();
  history.replaceState(null, "", url);
  show(url);
}

let typing = 0;
main.querySelector("#filters").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(filter, event.target.name === "q" ? PAUSE : 0);
});
main.querySelector("#filters").addEventListener("submit", (event) => {
  event.preventDefault();
  filter();
});
setInterval(() => {
  if (!document.hidden) show(new URL(location.href));
}, EVERY);
