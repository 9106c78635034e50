// The form for a new job: it is checked while one types, and submitted.

import { json, post, Problem, root, told } from "./core/api.js";
import { inputsOf } from "./core/asked.js";
import { copyButtons } from "./core/copying.js";
import { announce, el } from "./core/dom.js";
import { ready } from "./core/page.js";
import { Editor } from "./form/editor.js";
import { factsView, placesOf, problemView } from "./form/findings.js";
import { readInputs, writeInputs } from "./form/inputs.js";
import { planButton } from "./form/plan.js";

const PAUSE = 350;
const PROCESS = "stencil";

const main = await ready();
const form = main.querySelector("#new");
const checked = main.querySelector("#checked");
const wrong = main.querySelector("#wrong");
const editor = new Editor(main.querySelector("#program"), main.querySelector("#marks"), later);
const goTo = (place) => editor.goTo(place);

let waiting = 0;
let checking = null;
let isTouched = false; // before that, what is left out is no fault yet

function later() {
  isTouched = true;
  clearTimeout(waiting);
  waiting = setTimeout(check, PAUSE);
}

/** Check what the form has now; an answer to what it had before is not shown. */
async function check() {
  checking?.abort();
  const { signal } = (checking = new AbortController());
  wrong.replaceChildren();
  try {
    const found = await post(`processes/${PROCESS}/check`, { inputs: readInputs() }, { signal });
    const { problem, program } = found;
    editor.mark((program?.warnings ?? []).map((each) => ({ ...each, kind: "warning" })));
    checked.replaceChildren(...(program ? [factsView(program, goTo)] : []));
    if (problem) tell(problem);
  } catch (error) {
    if (!signal.aborted) refuse(error);
  }
}

/** Show a problem: at its place in the program, or beside the other inputs. */
function tell(problem) {
  if (problem.line) {
    editor.mark(placesOf(problem));
    checked.replaceChildren(problemView(problem, goTo));
  } else if (isTouched) {
    const words = [problem.detail, problem.hint].filter(Boolean).join(" ");
    wrong.replaceChildren(el("p", { class: "problem" }, words));
  }
}

function refuse(error) {
  if (error instanceof Problem && error.body.line) tell(error.body);
  else wrong.replaceChildren(el("p", { class: "problem" }, told(error)));
}

async function submit() {
  // A check that was still to come would take away what is said about the submission.
  clearTimeout(waiting);
  checking?.abort();
  try {
    const inputs = readInputs();
    if (!inputs.dataset) throw new Error("Name a dataset first.");
    const headers = { "Idempotency-Key": again(inputs) };
    const job = await post(`processes/${PROCESS}/execution`, { inputs }, { headers });
    location.assign(new URL(`ui/jobs/${job.id}`, root));
  } catch (error) {
    refuse(error);
    if (!error.body?.line) main.querySelector("#dataset").focus();
  }
}

/** Give the key under which the same inputs are sent again, where the answer was lost. */
let sent = null;
function again(inputs) {
  const text = JSON.stringify(inputs);
  if (sent?.text !== text)
    sent = { text, key: [...crypto.getRandomValues(new Uint32Array(4))].join("-") };
  return sent.key;
}

/** Begin with the inputs of another job, or with a dataset, if the address names one. */
async function begin() {
  const asked = new URL(location.href).searchParams;
  if (asked.get("dataset")) main.querySelector("#dataset").value = asked.get("dataset");
  if (asked.get("from")) {
    const inputs = await inputsOf(await json(`jobs/${encodeURIComponent(asked.get("from"))}`));
    const left = inputs ? writeInputs(inputs) : ["everything"];
    if (left.length > 0) announce(`Not taken over: ${left.join(", ")}.`);
  }
  await check();
}

form.addEventListener("input", later);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  submit();
});
main.querySelector("#copies").append(
  ...copyButtons(() => {
    try {
      return [PROCESS, readInputs()];
    } catch (error) {
      announce(told(error));
      return null;
    }
  }),
);
planButton(PROCESS, readInputs)
  .then((found) => {
    if (!found) return;
    main.querySelector("#copies").before(found.button);
    form.append(found.place);
  })
  .catch((error) => announce(told(error)));
begin().catch((error) => announce(told(error)));
