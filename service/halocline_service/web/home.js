// Pages without anything that moves: the theme's switch, and the part that an address names.

import { ready } from "./core/page.js";

await ready();

/** Open what the address names, and show it. */
function reveal() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  named?.scrollIntoView();
}

addEventListener("hashchange", reveal);
if (location.hash) reveal();
