// What every page does first: the theme's switch, the key where one is needed, local times.

import { call, key } from "./api.js";
import { announce, el } from "./dom.js";
import { localTimes } from "./words.js";

const THEMES = { "": "system", dark: "dark", light: "light" };

/** Get the page ready; gives its `main`, once it may be seen. */
export async function ready() {
  themes();
  let main = document.getElementById("main");
  if (main.hasAttribute("data-locked")) main = await unlocked(main);
  if (key.get()) signOut();
  localTimes(main);
  return main;
}

/** Ask for this page, or another query of it, again; gives its `main`, which is not shown yet. */
export async function fetchMain(address = location.href) {
  const text = await (await call(address, { headers: { Accept: "text/html" } })).text();
  const main = new DOMParser().parseFromString(text, "text/html").getElementById("main");
  localTimes(main);
  return document.adoptNode(main);
}

function themes() {
  const button = document.getElementById("theme");
  const names = Object.keys(THEMES);
  const show = () => {
    const now = THEMES[document.documentElement.dataset.theme || ""];
    button.textContent = `Theme: ${now}`;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    const now = names.indexOf(document.documentElement.dataset.theme || "");
    const next = names[(now + 1) % names.length];
    if (next) document.documentElement.dataset.theme = next;
    else delete document.documentElement.dataset.theme;
    try {
      localStorage.setItem("halocline-theme", next);
    } catch {
      // It holds for this page, then.
    }
    show();
    document.dispatchEvent(new Event("themechange"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new Event("themechange")),
  );
  show();
}

function signOut() {
  const forget = () => {
    key.forget();
    location.reload();
  };
  const button = el("button", { type: "button", onclick: forget }, "Forget key");
  document.getElementById("theme").before(button);
}

async function unlocked(main) {
  if (key.get()) {
    const found = await fetchMain();
    main.replaceWith(found);
    main = found;
    if (!main.hasAttribute("data-locked")) return main;
    key.forget();
  }
  return new Promise((resolve) => askForKey(main, resolve));
}

function askForKey(main, resolve) {
  const form = main.querySelector("#key-form");
  const input = form.querySelector("input");
  form.hidden = false;
  input.focus();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!input.value.trim()) return;
    key.set(input.value.trim());
    try {
      const found = await fetchMain();
      main.replaceWith(found);
      if (!found.hasAttribute("data-locked")) {
        resolve(found);
        found.focus();
        return;
      }
      key.forget();
      askForKey(found, resolve);
    } catch (error) {
      key.forget();
      announce(error.message);
    }
  });
}
