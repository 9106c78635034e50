// Server-sent events by `fetch`, since `EventSource` sends no key; goes on where it was cut off.

import { call, Problem } from "./api.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 8000;

/** Split a stream of text into events: `{id, event, data}`, where `data` was JSON. */
export function parser(onEvent) {
  let rest = "";
  return (text) => {
    const blocks = (rest + text).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = {};
      for (const line of block.split("\n")) {
        const colon = line.indexOf(":");
        if (colon <= 0) continue; // a comment, which keeps the connection open
        const name = line.slice(0, colon);
        const value = line.slice(colon + 1).replace(/^ /, "");
        event[name] = name in event ? `${event[name]}\n${value}` : value;
      }
      if (event.data !== undefined) onEvent({ ...event, data: JSON.parse(event.data) });
    }
  };
}

/**
 * Follow events until `isOver()` says that no more will come.
 *
 * `onState` is told "live", "lost" (it will be tried again) or "over".
 */
export async function follow(path, { onEvent, onState, isOver, signal }) {
  let last = null;
  let wait = FIRST_WAIT;
  while (!signal?.aborted) {
    try {
      const headers = { Accept: "text/event-stream" };
      if (last !== null) headers["Last-Event-ID"] = last;
      const answer = await call(path, { headers, signal, cache: "no-store" });
      onState("live");
      await read(answer.body, (event) => {
        last = event.id ?? last;
        wait = FIRST_WAIT;
        onEvent(event);
      });
      if (await isOver()) return onState("over");
    } catch (error) {
      if (signal?.aborted) return undefined;
      const isFinal = error instanceof Problem && error.status < 500 && error.status !== 429;
      if (isFinal) throw error;
    }
    onState("lost");
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(LONGEST_WAIT, wait * 2);
  }
  return undefined;
}

async function read(body, onEvent) {
  const take = parser(onEvent);
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    take(value);
  }
}
