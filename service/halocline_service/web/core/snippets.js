// A request as text to copy: Python for the client, a command for curl, and the request itself.

import { key, root } from "./api.js";

/** Write a value of JSON as Python writes it. */
export function python(value, indent = "") {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return text(value);
  if (typeof value === "number") return String(value);
  if (Array.isArray(value)) return `[${value.map((each) => python(each, indent)).join(", ")}]`;
  const pairs = Object.entries(value).map(
    ([name, each]) => `${text(name)}: ${python(each, indent)}`,
  );
  return `{${pairs.join(", ")}}`;
}

function text(value) {
  if (
    value.includes("\n") &&
    !value.includes('"""') &&
    !value.includes("\\") &&
    !value.endsWith('"')
  )
    return `"""\\\n${value}"""`;
  return JSON.stringify(value); // its escapes are Python's as well
}

/** Write what submits a job by the Python client and opens its result. */
export function asPython(process, inputs, job = {}) {
  const address = root.href.replace(/\/$/, "");
  const lines = Object.entries(inputs).map(
    ([name, value]) => `    ${text(name)}: ${python(value)},`,
  );
  return [
    "import halocline",
    "",
    "inputs = {",
    ...lines,
    "}",
    `with halocline.Client(${text(address)}) as client:`,
    `    job = client.submit(${[text(process), "inputs", ...ofJob(job)].join(", ")})`,
    "    result = job.result()",
    "    print(result)",
    "",
  ].join("\n");
}

const ofJob = (job) => Object.entries(job).map(([name, value]) => `${name}=${python(value)}`);

/** Write what submits a job by curl; a key is named, and not shown. */
export function asCurl(process, inputs, job = {}) {
  const address = new URL(`processes/${process}/execution`, root).href;
  const body = JSON.stringify({ inputs, ...job }).replaceAll("'", "'\\''");
  const header = key.get() ? ' \\\n     -H "Authorization: Bearer $HALOCLINE_KEY"' : "";
  return `curl -s '${address}' -H 'Content-Type: application/json'${header} \\\n     -d '${body}'\n`;
}

/** Write the request as a file, which `curl -d @job.json` sends. */
export function asFile(_process, inputs, job = {}) {
  return `${JSON.stringify({ inputs, ...job }, null, 2)}\n`;
}
