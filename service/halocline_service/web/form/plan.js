// The plan of a job before it is submitted, where the service has a process that makes it.

import { call, json, post, told } from "../core/api.js";
import { el } from "../core/dom.js";
import { follow } from "../core/events.js";
import { term } from "../core/terms.js";
import { numbers } from "../job/plan.js";

const PLAN = "plan";
const FINAL = ["successful", "failed", "dismissed"];

/** Make the button and the place of its answer; null where no process plans. */
export async function planButton(request) {
  const { processes } = await json("processes?limit=100");
  if (!processes.some(({ id }) => id === PLAN)) return null;
  const place = el("div", { "aria-live": "polite" });
  const button = el("button", { type: "button" }, "Plan");
  button.addEventListener("click", async () => {
    button.disabled = true;
    place.replaceChildren(el("p", { class: "note" }, "The job is being planned."));
    try {
      place.replaceChildren(shown(await planned(...request())));
    } catch (error) {
      place.replaceChildren(el("p", { class: "problem" }, told(error)));
    } finally {
      button.disabled = false;
    }
  });
  return { button, place };
}

/** Have a job planned: that is a job itself, which is removed once its answer is there. */
async function planned(process, inputs) {
  const { id } = await post(`processes/${PLAN}/execution`, { inputs: { process, inputs } });
  try {
    let info = null;
    const isOver = async () => {
      info = await json(`jobs/${id}`);
      return FINAL.includes(info.status);
    };
    await follow(`jobs/${id}/events`, { onEvent: () => {}, onState: () => {}, isOver });
    if (info.status !== "successful") throw new Error(failure(info));
    return (await json(`jobs/${id}/results`)).plan;
  } finally {
    await call(`jobs/${id}`, { method: "DELETE" }).catch(() => null);
  }
}

const failure = ({ message, exception }) =>
  [exception?.detail ?? message, exception?.hint].filter(Boolean).join(" ");

function shown(plan) {
  const facts = numbers(plan).flatMap(([name, value]) => [el("dt", {}, term(name)), el("dd", {}, value)]);
  return el("dl", { class: "facts" }, facts);
}
