// What is wrong with a field of the form, in the page's words.

/** A complaint about one input; `isMissing` tells what was left out from what is wrong. */
export class Fault extends Error {
  constructor(message, { isMissing = false } = {}) {
    super(message);
    this.isMissing = isMissing;
  }
}

/** Make a complaint about an input that was left out. */
export const missing = (message) => new Fault(message, { isMissing: true });
