// The cluster, as it is now: the service writes the tables.

import { told } from "./core/api.js";
import { announce } from "./core/dom.js";
import { fetchMain, ready } from "./core/page.js";

const EVERY = 3000;

const main = await ready();
setInterval(async () => {
  if (document.hidden) return;
  try {
    const found = await fetchMain();
    main.querySelector("#live").replaceWith(found.querySelector("#live"));
  } catch (error) {
    announce(told(error));
  }
}, EVERY);
