// Which field of the form a problem of the service belongs to.

/** Words of a problem by the input that they speak of, the most special ones first. */
const SPEAKING = [
  ["until", /\buntil\b/i],
  ["diagnostics", /\bdiagnostics?\b/i],
  ["feedback", /\bfeedback\b|\bfed back\b/i],
  ["boundary", /\bboundar(y|ies)\b|\bperiodic\b/i],
  ["axes", /\bax[ie]s\b/i],
  ["scalars", /\bscalars?\b/i],
  ["chunks", /\bchunks?\b|\bblocks? of\b/i],
  ["snapshot_every", /\bsnapshot_every\b|\bevery\b/i],
  ["steps", /\bsteps?\b/i],
  ["fields", /\bfields?\b|\bvariables?\b/i],
  ["dataset", /\bdatasets?\b|\bupload\b/i],
];

/** Give the name of the input that a problem belongs to; null where none is named. */
export function placeOf({ detail = "", errors = [] }, names) {
  const has = (name) => names.includes(name);
  const located = errors[0]?.location?.[0];
  if (located && has(located)) return located;
  const quoted = [...detail.matchAll(/[Ii]nput '(\w+)'|'(\w+)='/g)];
  const named = quoted.map((match) => match[1] ?? match[2]).find(has);
  if (named) return named;
  return SPEAKING.find(([name, words]) => has(name) && words.test(detail))?.[0] ?? null;
}
