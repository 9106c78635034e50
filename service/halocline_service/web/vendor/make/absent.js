// Codecs that are WebAssembly: Halocline writes no result with them.
export default class Absent {
  static fromConfig() {
    throw new Error("This chunk is compressed by a codec that the page has not: open it in Python.");
  }
}
