// Inputs that are written as 'name=value, name=value', as the command takes them.

/** Read pairs; every name stands once. */
export function pairs(title, text) {
  const found = {};
  for (const part of text
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean)) {
    const at = part.indexOf("=");
    const [name, value] = [part.slice(0, at).trim(), part.slice(at + 1).trim()];
    if (at < 1 || !value)
      throw new Error(`${title} must be 'name=value, name=value', got '${part}'.`);
    if (name in found) throw new Error(`${title} has '${name}' twice, expected once.`);
    found[name] = value;
  }
  return found;
}

/** Read pairs of which the values are numbers, or true or false. */
export function numbers(title, text) {
  const read = (value) => {
    if (value === "true" || value === "false") return value === "true";
    if (!isNumber(value)) throw new Error(`${title} must be numbers, got '${value}'.`);
    return Number(value);
  };
  return mapped(pairs(title, text), read);
}

/** Read rules by dimension, or by its side: 'x=periodic, y.low=edge, y.high=0'. */
export function boundaries(title, text) {
  const found = {};
  for (const [name, value] of Object.entries(pairs(title, text))) {
    const rule = isNumber(value) ? { constant: Number(value) } : value;
    const side = /^(.+)\.(low|high)$/.exec(name);
    if (side) found[side[1]] = { ...found[side[1]], [side[2]]: rule };
    else found[name] = rule;
  }
  return found;
}

/** Write what was read, for a form. */
export function written(values) {
  const parts = Object.entries(values ?? {}).flatMap(([name, value]) => {
    if (typeof value !== "object") return [`${name}=${value}`];
    if ("constant" in value) return [`${name}=${value.constant}`];
    return Object.entries(value).map(([side, rule]) => `${name}.${side}=${rule.constant ?? rule}`);
  });
  return parts.join(", ");
}

const isNumber = (text) => text !== "" && Number.isFinite(Number(text));

function mapped(values, read) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, read(value)]));
}
