// Zstandard in plain JavaScript: WebAssembly would need 'wasm-unsafe-eval' in the page's policy.
import { decompress } from "fzstd";

export default class Zstd {
  static fromConfig() {
    return new Zstd();
  }
  decode(bytes) {
    return decompress(bytes);
  }
  encode() {
    throw new Error("The page writes no chunks.");
  }
}
