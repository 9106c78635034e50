// A Zarr store over HTTP: its metadata from one document, its arrays when they are needed.

import { call, json } from "../core/api.js";
import { open, root } from "../vendor/zarrita.js";

/** Open a consolidated store: `{attributes, variables}`, each of which opens its array. */
export async function openStore(path) {
  const document = await json(`${path}/zarr.json`);
  const members = document.consolidated_metadata?.metadata ?? {};
  const encoder = new TextEncoder();
  const store = {
    path,
    async get(key, { signal } = {}) {
      const name = key.replace(/^\//, "");
      if (name === "zarr.json") return encoder.encode(JSON.stringify(document));
      const member = name.endsWith("/zarr.json") ? members[name.slice(0, -10)] : null;
      if (member) return encoder.encode(JSON.stringify(member));
      return chunk(`${path}/${name}`, { signal });
    },
    /** Give a part of an object, which arrays with shards are read by. */
    getRange(key, { offset, length, suffixLength }, { signal } = {}) {
      const range =
        suffixLength === undefined ? `${offset}-${offset + length - 1}` : `-${suffixLength}`;
      return chunk(path + key, { signal, headers: { Range: `bytes=${range}` } });
    },
  };
  const top = root(store);
  const variables = Object.entries(members)
    .filter(([, member]) => member.node_type === "array")
    .map(([name, member]) => variable(name, member, top));
  return { attributes: document.attributes ?? {}, variables };
}

async function chunk(path, { headers, ...options }) {
  const asked = { ...headers, Prefer: "absent=empty" }; // a browser tells of each 404
  const answer = await call(path, { ...options, headers: asked });
  return answer.status === 204 ? undefined : new Uint8Array(await answer.arrayBuffer());
}

function variable(name, member, top) {
  let opened = null;
  return {
    name,
    dims: member.dimension_names ?? member.shape.map((_, place) => `dim_${place}`),
    shape: member.shape,
    dtype: typeof member.data_type === "string" ? member.data_type : member.data_type.name,
    attributes: member.attributes ?? {},
    /** Give the array, whose metadata is there already. */
    array: () => (opened ??= open.v3(top.resolve(name), { kind: "array" })),
  };
}
