// What the page uses of zarrita, and nothing else, so that the bundle stays small.
export { open, root } from "zarrita";
