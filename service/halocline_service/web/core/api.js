// Requests to the API beside which this page lies, with the key where there is one.

/** The address of the API: this file is `<root>/ui/assets/<version>/core/api.js`. */
export const root = new URL("../../../../", import.meta.url);

const STORED = "halocline-key";

let ofWorker = null;
const isWorker = typeof sessionStorage === "undefined";

/** The API key of this tab; it is forgotten when the tab is closed. A worker is given it. */
export const key = {
  get: () => (isWorker ? ofWorker : sessionStorage.getItem(STORED)),
  give: (value) => (ofWorker = value),
  set: (value) => sessionStorage.setItem(STORED, value),
  forget: () => sessionStorage.removeItem(STORED),
};

/** An error of the API, with the members of its problem document. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The service answered ${status}.`);
    this.status = status;
    this.body = body;
    this.hint = body.hint || "";
  }
}

/** Send a request; gives the response, or throws a `Problem` or what `fetch` throws. */
export async function call(path, { headers = {}, ...options } = {}) {
  const sent = { "Halocline-Interface": "page", ...headers };
  if (key.get()) sent.Authorization = `Bearer ${key.get()}`;
  const answer = await fetch(new URL(path, root), { ...options, headers: sent });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Problem(answer.status, body);
}

/** Ask for a JSON document. */
export async function json(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  return (await call(path, { ...options, headers })).json();
}

/** Send a JSON document, and give the JSON document that is answered. */
export function post(path, body, options = {}) {
  const headers = { "Content-Type": "application/json", ...options.headers };
  return json(path, { method: "POST", ...options, headers, body: JSON.stringify(body) });
}

/** Say what went wrong, for people. */
export function told(error) {
  if (error instanceof Problem) return [error.message, error.hint].filter(Boolean).join(" ");
  if (error instanceof TypeError) return "The service does not answer.";
  return error.message || String(error);
}
