"""A headless browser in front of the real service."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog
import xarray as xr
from playwright.sync_api import Browser, Page, expect, sync_playwright
from served import serving, settings_for

from halocline import Client
from halocline_engine.distribute.tasks.events import BlockFinished
from halocline_engine.functions.run import run

CHROMIUM = shutil.which("chromium")
#: A name that runs a script wherever it is taken for markup.
HOSTILE = "<img src=x onerror=window.hit=1>"
PROGRAM = """
def smooth(t: Field[np.float64], smoothed: Field[np.float64], strength: float):
    with computation(PARALLEL), interval(...):
        around = t[-1, 0, 0] + t[1, 0, 0] + t[0, -1, 0] + t[0, 1, 0]
        smoothed = t + strength * (around - 4.0 * t)
"""
ROWS, COLUMNS, TIMES = 24, 36, 3
INPUTS: dict[str, Any] = {
    "scalars": {"strength": 0.2},
    "boundary": {"x": "periodic", "y": "edge"},
    "target": "reference",
}

_xr: Any = xr
expect.set_options(timeout=15_000)


class Gate:
    """Runs stencils; while it is shut, each block waits for a turn after it was told of."""

    def __init__(self) -> None:
        self.turns = threading.Semaphore(0)
        self.is_shut = False

    def __call__(self, program: str, dataset: str, **given: Any) -> object:
        tell = given.pop("on_event")

        def held(event: Any) -> None:
            tell(event)
            while isinstance(event, BlockFinished) and self.is_shut:
                if given["cancelled"]() or self.turns.acquire(timeout=0.05):
                    return

        return run(program, dataset, on_event=held, **given)

    def shut(self) -> None:
        self.turns = threading.Semaphore(0)
        self.is_shut = True

    def open(self) -> None:
        self.is_shut = False


@dataclass
class Site:
    """The service: its address, what it may read, and the gate that jobs pass."""

    url: str
    port: int
    roots: Path
    gate: Gate = field(default_factory=Gate)

    def submit(self, dataset: str = "sea.zarr", **inputs: Any) -> str:
        with Client(self.url) as client:
            sent = {"program": PROGRAM, "dataset": dataset, **INPUTS, **inputs}
            return client.submit("stencil", sent).id

    def finished(self, dataset: str = "sea.zarr", **inputs: Any) -> str:
        job = self.submit(dataset, **inputs)
        with Client(self.url) as client:
            assert client.job(job).wait(timeout=60) == "successful"
        return job


def sea() -> xr.Dataset:
    """Give a field with land (NaN) in its lower left corner."""
    values = np.random.default_rng(3).normal(15.0, 5.0, size=(TIMES, ROWS, COLUMNS))
    values[:, :8, :10] = np.nan
    time = {"units": "days since 2015-01-16", "calendar": "360_day"}
    return _xr.Dataset(
        {"t": (("time", "y", "x"), values, {"units": "degC", "long_name": HOSTILE})},
        coords={
            "time": ("time", [0, 30, 60], time),
            "y": ("y", np.linspace(-60.0, 55.0, ROWS), {"units": "degrees_north"}),
            "x": ("x", np.arange(COLUMNS) * 10.0, {"units": HOSTILE}),
        },
    )


def write(dataset: Any, path: Path, **chunks: int) -> None:
    dataset.chunk(chunks).to_zarr(path, zarr_format=3, consolidated=True)


@pytest.fixture(scope="module")
def quiet() -> Generator[None]:
    """Log nothing: rendering tracebacks for people takes seconds."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, quiet: None) -> Generator[Site]:
    """Start a service without keys."""
    settings = settings_for(tmp_path_factory.mktemp("site"), "none")
    roots = settings.data_roots[0]
    roots.mkdir()
    write(sea(), roots / "sea.zarr", time=1, y=12, x=12)
    shutil.copytree(roots / "sea.zarr", roots / f"{HOSTILE}.zarr")
    shutil.copytree(roots / "sea.zarr", roots / f"{'Ω' * 100}.zarr")
    gate = Gate()
    with serving(settings, runner=gate):
        yield Site(f"http://127.0.0.1:{settings.port}", settings.port, roots, gate)
        gate.open()


@pytest.fixture(scope="package")
def browser() -> Generator[Browser]:
    """Start the browser that Debian has."""
    if CHROMIUM is None:
        pytest.skip("no Chromium (Debian package 'chromium')")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(autouse=True)
def open_gate(site: Site) -> Generator[None]:
    """Let jobs of a test that failed end, so that those of the next ones can run."""
    yield
    site.gate.open()


@dataclass
class Watched:
    """A page, and whatever went wrong in it; `allowed` are parts of complaints that are meant."""

    page: Page
    complaints: list[str] = field(default_factory=list[str])
    allowed: list[str] = field(default_factory=list[str])

    def hear(self, complaint: str) -> None:
        if not any(part in complaint for part in self.allowed):
            self.complaints.append(complaint)


@pytest.fixture
def watched(browser: Browser) -> Generator[Watched]:
    """Open a page that must not complain, and must not ask any other host for anything."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(15_000)
    page = context.new_page()
    made = Watched(page)
    page.on("console", lambda said: made.hear(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: made.hear(f"error: {error}"))

    def look(url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "blob:http://127.0.0.1:")):
            made.hear(f"another host: {url}")

    page.on("request", lambda request: look(request.url))
    yield made
    hit = page.evaluate("window.hit")
    context.close()
    assert made.complaints == []
    assert hit is None, "A name was taken for markup."


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page
