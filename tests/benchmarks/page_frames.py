"""Main-thread time of the frames of the web page while a job of 4,096 blocks runs.

    PYTHONPATH=$PWD/engine:$PWD/service:$PWD/clients/python:tests/support \
        python tests/benchmarks/page_frames.py

Headless Chromium shows the job's page and traces itself. A frame is the task that has an animation
frame: its script, style, layout and paint. Its processor time is told, which other programs on the
machine do not lengthen. 16 ms is what a screen of 60 Hz has for a frame.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from playwright.sync_api import Page, sync_playwright
from served import serving, settings_for

from halocline import Client

_SIDE, _BLOCK = 64, 2
_CATEGORIES = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
_PROGRAM = """
def smooth(t: Field[np.float64], smoothed: Field[np.float64], strength: float):
    with computation(PARALLEL), interval(...):
        smoothed = t + strength * (t[-1, 0, 0] + t[1, 0, 0] - 2.0 * t)
"""


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        settings = settings_for(Path(folder), "none")
        settings.data_roots[0].mkdir()
        url = f"http://127.0.0.1:{settings.port}"
        with serving(settings), Client(url) as client:
            program = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            events = _traced(page, url, client)
            browser.close()
    _tell("frames", _frames(events))


def _traced(page: Page, url: str, client: Client) -> list[dict[str, Any]]:
    """Return the trace of a job's page from its beginning to its end."""
    events: list[dict[str, Any]] = []
    ended: list[object] = []
    session: Any = page.context.new_cdp_session(page)

    def take(told: Any) -> None:
        events.extend(told["value"])

    def end(told: object) -> None:
        ended.append(told)

    session.on("Tracing.dataCollected", take)
    session.on("Tracing.tracingComplete", end)
    config = {"includedCategories": _CATEGORIES}
    session.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": config})
    values = np.random.default_rng(0).normal(size=(_SIDE * _BLOCK, _SIDE * _BLOCK))
    job = client.stencil(
        _PROGRAM,
        xr.Dataset({"t": (("y", "x"), values)}),
        scalars={"strength": 0.1},
        boundary={"x": "periodic", "y": "edge"},
        chunks={"x": _BLOCK, "y": _BLOCK},
        target="reference",
    )
    page.goto(f"{url}/ui/jobs/{job.id}")
    done = f"{_SIDE**2} of {_SIDE**2} blocks finished"
    page.wait_for_selector(f"canvas.blocks[aria-label='{done}']", timeout=300_000)
    page.wait_for_selector("canvas.result[data-ready]")
    session.send("Tracing.end")
    while not ended:
        page.wait_for_timeout(100)
    return events


def _frames(events: list[dict[str, Any]]) -> list[float]:
    """Return the milliseconds of the tasks with an animation frame, of the page's main thread."""
    whole = [event for event in events if event.get("ph") == "X"]
    begun = [event for event in whole if event["name"] == "FireAnimationFrame"]
    thread = Counter((event["pid"], event["tid"]) for event in begun).most_common(1)[0][0]
    own = [event for event in whole if (event["pid"], event["tid"]) == thread]
    starts = [event["ts"] for event in own if event["name"] == "FireAnimationFrame"]
    return [
        event["tdur"] / 1e3
        for event in own
        if event["name"] == "ThreadControllerImpl::RunTask"
        and any(event["ts"] <= start <= event["ts"] + event["dur"] for start in starts)
    ]


def _tell(title: str, times: list[float]) -> None:
    half, most = np.percentile(times, [50, 99])
    print(
        f"{title}: {len(times)} of a map of {_SIDE**2} blocks; processor time: median "
        f"{half:.1f} ms, 99 % below {most:.1f} ms, worst {max(times):.1f} ms"
    )


if __name__ == "__main__":
    main()
