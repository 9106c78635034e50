"""How long a frame of the web page's map of 4,096 blocks takes, in headless Chromium.

    python tests/benchmarks/page_frames.py

Every frame is drawn and read back, so that its pixels are there when its time is taken. The worst
frame counts, and 16 ms is what a screen of 60 Hz has for one.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from statistics import median

from page_scripts import in_module
from playwright.sync_api import sync_playwright
from served import serving, settings_for

_SIDE = 64
_FRAMES = 300
_MEASURE = """
const canvas = document.createElement("canvas");
document.body.append(canvas);
canvas.width = canvas.height = given.side * 13;
const context = canvas.getContext("2d");
const order = Array.from({ length: given.side ** 2 }, (_, place) => place);
const paint = (block) => (block ? "#2f8f6b" : "#e2e6ea");
const made = () => new module.BlockMap(context, {
  rows: given.side, length: given.side, order, total: order.length, width: 900, paint,
});
const timed = (map) => {
  const start = performance.now();
  const drawn = map.draw();
  context.getImageData(0, 0, 1, 1);
  return [performance.now() - start, drawn];
};
const whole = made();
const all = [], few = [];
for (let frame = 0; frame < given.frames; frame += 1) {
  whole.repaint();
  all.push(timed(whole));
  await new Promise(requestAnimationFrame);
}
const map = made();
map.draw();
const step = Math.floor(order.length / given.frames);
for (let frame = 1; frame <= given.frames; frame += 1) {
  map.finish(frame * step);
  few.push(timed(map));
  await new Promise(requestAnimationFrame);
}
return [all, few];
"""


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        settings = settings_for(Path(folder), "none")
        settings.data_roots[0].mkdir()
        with serving(settings):
            program = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{settings.port}/ui/cluster")
            given = {"side": _SIDE, "frames": _FRAMES}
            whole, few = in_module(page, "job/blocks.js", _MEASURE, given)
            browser.close()
    for title, frames in (("all blocks", whole), ("those that finished", few)):
        times = [time for time, _ in frames]
        drawn = max(count for _, count in frames)
        print(
            f"{title}: {drawn} of {_SIDE**2} blocks a frame, {len(times)} frames: "
            f"median {median(times):.2f} ms, worst {max(times):.2f} ms"
        )


if __name__ == "__main__":
    main()
