// The page of one job: its events are followed, and every part shows what it needs of them.

import { json, told } from "./core/api.js";
import { inputsOf } from "./core/asked.js";
import { announce, framed } from "./core/dom.js";
import { follow } from "./core/events.js";
import { fetchMain, ready } from "./core/page.js";
import { Actions } from "./job/actions.js";
import { BlocksView } from "./job/blocks_view.js";
import { CodeView } from "./job/code.js";
import { History } from "./job/history.js";
import { inputsView } from "./job/inputs.js";
import { LogView } from "./job/log.js";
import { PlanView } from "./job/plan.js";
import { ProgressView } from "./job/progress.js";
import { RooflineView } from "./job/roofline.js";
import { StatesView } from "./job/states.js";
import { UsageView } from "./job/usage.js";
import { WorkersView } from "./job/workers.js";
import { ResultView } from "./result/view.js";

const FINAL = ["successful", "failed", "dismissed"];
const TICK = 1000;

const main = await ready();
if (main.dataset.job) show(main.dataset.job);

async function show(job) {
  const history = new History();
  const progress = new ProgressView(history);
  const log = new LogView();
  const parts = [
    progress,
    new StatesView(history),
    new BlocksView(history),
    new UsageView(history),
    new WorkersView(history),
    new RooflineView(history),
    new PlanView(history, job),
    new CodeView(history),
    log,
  ];
  const actions = new Actions(main.querySelector("#actions"), job);
  const live = main.querySelector("#live");
  live.append(...parts.map((part) => part.element));
  const update = framed(() => parts.forEach((part) => part.update(Date.now() / 1000)));

  let info = await json(`jobs/${job}`);
  const inputs = await inputsOf(info);
  actions.update(info, inputs);
  if (inputs) live.append(inputsView(inputs));
  const result = new ResultView(job);
  live.before(result.element);
  const look = async () => {
    info = await json(`jobs/${job}`);
    actions.update(info, inputs);
    await facts();
    if (info.status === "successful") result.open();
    return FINAL.includes(info.status);
  };
  const soon = framed(() => look().catch((error) => announce(told(error))));
  main.classList.add("live"); // what the events tell need not stand there twice
  const ticking = setInterval(update, TICK);
  try {
    await follow(`jobs/${job}/events`, {
      onEvent: (event) => {
        history.add(event);
        log.add(event);
        update();
        if (event.event === "status") soon();
      },
      onState: (state) => progress.connection(state),
      isOver: look,
    });
  } catch (error) {
    announce(told(error));
  } finally {
    clearInterval(ticking);
    main.classList.remove("live");
    update();
  }
}

/** Take the table of the job from the service, which writes it. */
async function facts() {
  const found = await fetchMain();
  const fresh = found.querySelector("#facts");
  if (fresh) main.querySelector("#facts").replaceWith(fresh);
}
