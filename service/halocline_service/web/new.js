// The form for a new job: made from the description of a process, checked while one types, and
// submitted.

import { json, post, Problem, root, told } from "./core/api.js";
import { inputsOf } from "./core/asked.js";
import { copyButtons } from "./core/copying.js";
import { announce, el } from "./core/dom.js";
import { ready } from "./core/page.js";
import { EXAMPLES, withType } from "./form/examples.js";
import { Fields } from "./form/fields.js";
import { jobFields } from "./form/job.js";
import { placeOf } from "./form/places.js";
import { planButton } from "./form/plan.js";
import { Scope } from "./form/scope.js";

const PAUSE = 350;
const STATES = {
  checking: "Checking…",
  valid: "Ready to submit.",
  incomplete: "Fill in what is marked.",
  wrong: "Something is wrong: see the marked fields.",
};

const main = await ready();
const form = main.querySelector("#new");
const chooser = main.querySelector("#process");
const place = main.querySelector("#fields");
const wrong = main.querySelector("#wrong");
const state = main.querySelector("#state");
const examples = main.querySelector("#examples");
const job = jobFields(main.querySelector("#job"));

const processes = Object.fromEntries(
  (await json("processes?limit=100")).processes.map((each) => [each.id, each]),
);

let fields = null;
let program = null; // facts of a valid program
let example = null; // that was started from
let shown = null; // the same, with the type of the data
let waiting = 0;
let checking = null;
let isTried = false; // before somebody tries to submit, what is left out is no fault

/** Make the form of a process. */
async function open(process) {
  const description = await json(`processes/${process}`);
  fields = new Fields(description, processes);
  program = null;
  isTried = false;
  [example, shown] = [null, null];
  chooser.value = process;
  main.querySelector("#about").textContent = description.description;
  main.querySelector("#reference").href = new URL(`docs#process-${process}`, root);
  place.replaceChildren(fields.element);
  offerExamples(process);
  const dataset = fields.control("dataset");
  if (dataset)
    dataset.onDescribed = (described) => {
      // An example that nobody has changed takes the type of the data.
      if (example?.program && fields.value("program") === shown?.program)
        fields.control("program").write((shown = withType(example, described)).program);
      renew();
      later();
    };
  renew();
}

function offerExamples(process) {
  const known = EXAMPLES[process] ?? [];
  examples.hidden = known.length === 0;
  examples.replaceChildren(
    el("span", { class: "note" }, "Start from an example:"),
    ...known.map(({ title, inputs }) =>
      el("button", { type: "button", class: "chip", onclick: () => start(inputs) }, title),
    ),
  );
}

/** Write an example; the dataset that was chosen stays. */
function start(inputs) {
  const dataset = fields.value("dataset");
  example = inputs;
  shown = withType(example, fields.control("dataset")?.description);
  fields.write({ ...shown, ...(dataset ? { dataset } : {}) });
  program = null;
  renew();
  check();
}

const scope = () => new Scope({ dataset: fields.control("dataset")?.description, program });
const renew = () => fields.renew(scope());

function later() {
  clearTimeout(waiting);
  waiting = setTimeout(check, PAUSE);
}

/** Check what the form has now; an answer to what it had before is not shown. */
async function check() {
  clearTimeout(waiting);
  checking?.abort();
  const { signal } = (checking = new AbortController());
  say("checking");
  try {
    await checkStages(signal);
    const { inputs, faults } = fields.read();
    const answer = await post(`processes/${fields.id}/check`, { inputs }, { signal });
    if (answer.program) {
      const isOther = JSON.stringify(answer.program) !== JSON.stringify(program);
      program = answer.program;
      fields.control("program").showFacts(program);
      if (isOther) {
        renew();
        return check(); // its parameters are known now
      }
    }
    show(faults, answer.problem, [...answer.missing]);
  } catch (error) {
    if (!signal.aborted) refuse(error);
  }
  return undefined;
}

/** Learn what the programs of stages take. */
async function checkStages(signal) {
  const stages = fields.control("stages")?.stages ?? [];
  let isOther = false;
  for (const stage of stages.filter(({ kind }) => kind === "stencil")) {
    const text = stage.fields.value("program");
    if (!text || text === stage.text) continue;
    const inputs = { program: text };
    const answer = await post("processes/stencil/check", { inputs }, { signal });
    stage.text = text;
    if (answer.program) {
      stage.program = answer.program;
      stage.fields.control("program").showFacts(answer.program);
      isOther = true;
    } else if (answer.problem?.line) stage.fields.control("program").showProblem(answer.problem);
  }
  if (isOther) renew();
}

/** Say what is wrong: of each field beside it, what is left out only once somebody has tried. */
function show(faults, problem) {
  fields.clear();
  wrong.replaceChildren();
  const dataset = fields.control("dataset");
  if (dataset?.problem) fields.fields.get("dataset").say(dataset.problem);
  for (const { field, fault } of faults)
    if (isTried || !fault.isMissing) field.say(fault.message);
  const isLacking = faults.some(({ fault }) => fault.isMissing);
  const isWrong = faults.some(({ fault }) => !fault.isMissing) || Boolean(dataset?.problem);
  if (problem && !isExpected(problem, faults)) return tell(problem);
  say(isWrong ? "wrong" : isLacking ? "incomplete" : "valid");
  return undefined;
}

/** Whether a problem says no more than a field that is still empty, or wrong, does already. */
function isExpected(problem, faults) {
  if (problem.line || faults.length === 0) return false;
  const name = placeOf(problem, [...fields.fields.keys()]);
  return name === null || faults.some(({ field }) => field.name === name);
}

/** Show a problem: at its place in the program, beside the field that it speaks of, or below. */
function tell(problem) {
  say("wrong");
  const program = fields.control("program") ?? fields.control("expression");
  if (problem.line && program) return program.showProblem(problem);
  const words = [problem.detail, problem.hint].filter(Boolean).join(" ");
  const name = placeOf(problem, [...fields.fields.keys()]);
  if (name) fields.fields.get(name).say(words);
  else wrong.replaceChildren(el("p", { class: "problem" }, words));
  return undefined;
}

function refuse(error) {
  if (error instanceof Problem) tell({ detail: error.message, ...error.body });
  else {
    say("wrong");
    wrong.replaceChildren(el("p", { class: "problem" }, told(error)));
  }
}

function say(now) {
  state.textContent = STATES[now];
  state.dataset.state = now;
}

async function submit() {
  // A check that was still to come would take away what is said about the submission.
  clearTimeout(waiting);
  checking?.abort();
  isTried = true;
  const { inputs, faults } = fields.read();
  if (faults.length > 0) {
    show(faults, null);
    faults[0].field.focus();
    return;
  }
  try {
    const body = { inputs, ...job.read() };
    const headers = { "Idempotency-Key": again(body), Prefer: "respond-async" };
    const made = await post(`processes/${fields.id}/execution`, body, { headers });
    location.assign(new URL(`ui/jobs/${made.id}`, root));
  } catch (error) {
    fields.clear();
    refuse(error);
    main.querySelector('.wrong:not([hidden])')?.parentElement.querySelector("input, select")?.focus();
  }
}

/** Give the key under which the same inputs are sent again, where the answer was lost. */
let sent = null;
function again(body) {
  const text = JSON.stringify([fields.id, body]);
  if (sent?.text !== text)
    sent = { text, key: [...crypto.getRandomValues(new Uint32Array(4))].join("-") };
  return sent.key;
}

/** Begin with the inputs of another job, or a process and a dataset, if the address names them. */
async function begin() {
  const asked = new URL(location.href).searchParams;
  const from = asked.get("from");
  const other = from ? await json(`jobs/${encodeURIComponent(from)}`) : null;
  const named = other?.processID ?? asked.get("process");
  await open(named in processes ? named : "stencil");
  if (other) {
    const inputs = await inputsOf(other);
    const left = inputs ? fields.write(inputs) : ["everything"];
    job.write(other);
    if (left.length > 0) announce(`Not taken over: ${left.join(", ")}.`);
  } else if (fields.id === "stencil") {
    start(EXAMPLES.stencil[0].inputs);
  }
  if (asked.get("dataset")) fields.control("dataset")?.write(asked.get("dataset"));
  renew();
  await check();
}

form.addEventListener("input", later);
chooser.addEventListener("change", async () => {
  const dataset = fields?.value("dataset");
  history.replaceState(null, "", `?process=${chooser.value}`);
  await open(chooser.value).catch((error) => announce(told(error)));
  if (dataset) fields.control("dataset")?.write(dataset);
  check();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  submit();
});
const request = () => {
  const { inputs } = fields.read();
  return [fields.id, inputs, job.read()];
};
main.querySelector("#copies").append(...copyButtons(request));
planButton(() => [fields.id, fields.read().inputs])
  .then((plan) => {
    if (!plan) return;
    main.querySelector("#submit").after(plan.button);
    main.querySelector("#planned").append(plan.place);
  })
  .catch((error) => announce(told(error)));
begin().catch((error) => announce(told(error)));
