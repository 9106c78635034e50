"""Where progress is displayed, when, and what a terminal and a notebook show."""

from __future__ import annotations

import io
import multiprocessing
import os
import pty
import re
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from halocline_engine.progress.display import (
    Display,
    NotebookScreen,
    TerminalScreen,
    displayed,
    is_watched,
)

PLANNED = {"progress": 0.0, "target": "<cpu>", "blocks": 2, "passes": 1}
SCRIPT = """
import time
import halocline_engine as he
import xarray as xr

text = '''
def add(t: Field[float]):
    with computation(PARALLEL), interval(...):
        t = t + 1.0
'''
dataset = xr.Dataset({"t": (("y", "x"), [[1.0, 2.0]])})


def slowly(event):
    time.sleep(0.4 * (event.kind in ("planned", "pass-finished")))


he.run(text, dataset, target="reference", on_event=slowly, {more})
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Notebook:
    """What a notebook would show, in the order of its updates."""

    def __init__(self, **shell: Any) -> None:
        self.shown: list[str] = []
        self.plain: list[str] = []
        display = SimpleNamespace(display=self._display)
        self.get_ipython = lambda: SimpleNamespace(**shell)
        self.display = display

    def _display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert display_id
        self._update(data, raw=raw)
        return SimpleNamespace(update=self._update)

    def _update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(data["text/html"])
        self.plain.append(data["text/plain"])


class Line:
    """A screen that keeps what is drawn."""

    def __init__(self) -> None:
        self.drawn: list[str] = []
        self.closed = False

    def draw(self, share: float, seconds: float, text: str) -> None:
        self.drawn.append(f"{share} {text}")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", None)


@pytest.mark.usefixtures("elsewhere")
def test_a_person_looks_at_a_terminal_and_at_no_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, watched in ((Terminal(), True), (io.StringIO(), False), (None, False)):
        monkeypatch.setattr(sys, "stderr", stream)
        assert is_watched() is watched


@pytest.mark.usefixtures("elsewhere")
def test_nobody_looks_at_a_closed_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    assert not is_watched()


def test_nobody_looks_at_other_threads_and_at_processes_of_a_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(is_watched()))
    thread.start()
    thread.join()
    monkeypatch.setattr(multiprocessing, "parent_process", object)
    assert [*seen, is_watched()] == [False, False]


@pytest.mark.parametrize(("shell", "watched"), [({"kernel": 1}, True), ({"other": 1}, False)])
def test_a_person_looks_at_a_notebook(
    monkeypatch: pytest.MonkeyPatch, shell: dict[str, Any], watched: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setitem(sys.modules, "IPython", Notebook(**shell))
    assert is_watched() is watched


def test_a_bar_of_a_notebook_is_one_output_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    with displayed("<job>", delay=60.0) as display:
        assert not notebook.shown
        display.draw()
        display.show("planned", PLANNED)
        display.show("block-finished", {"progress": 0.5, "done": 1, "total": 2})
        display.draw()
        display.show("finished", {"progress": 1.0})
        display.close()
    assert [text.count('<progress max="1"') for text in notebook.shown] == [1] * 3
    assert "<code>&lt;job&gt;</code>" in notebook.shown[0]
    assert "waiting" in notebook.shown[0]
    assert '<progress max="1" value="0.5000"></progress> 50 %' in notebook.shown[1]
    assert "&lt;cpu&gt; · block 1/2" in notebook.shown[1]
    assert "100 % · 0:00 · &lt;cpu&gt; · block 2/2" in notebook.shown[2]
    assert notebook.plain[1] == "<job> 50 % · 0:00 · <cpu> · block 1/2"


def test_a_job_that_ends_soon_shows_nothing() -> None:
    line = Line()
    with displayed("job", delay=60.0, screen=line) as display:
        display.show("planned", PLANNED)
    assert not line.drawn


def test_a_bar_is_drawn_meanwhile_and_left_after_an_error() -> None:
    line = Line()

    def fail() -> None:
        with displayed("job", screen=line) as display:
            display.wait_for("starting 2 worker processes")
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fail()
    assert line.closed
    assert line.drawn[-1] == "0.0 starting 2 worker processes"


def test_the_time_of_an_event_counts_and_not_that_of_its_arrival() -> None:
    line = Line()
    display = Display(line, now=lambda: 5.0)
    display.show("planned", {**PLANNED, "steps": 8, "at": "2026-11-29T10:00:00.000Z"})
    for second, share in ((1, 0.25), (3, 0.5)):
        display.show("pass-finished", {"progress": share, "at": f"2026-11-29T10:00:0{second}.000Z"})
    display.draw()
    assert line.drawn[-1].endswith("1 steps/s · 4 s left")


def test_minutes_and_hours_have_two_digits() -> None:
    shown: list[str] = []
    NotebookScreen("job", lambda markup, _: shown.append(markup)).draw(0.0, 125.0, "")
    assert "· 2:05 ·" in shown[0]


def test_a_terminal_that_is_none_gets_the_last_state(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    screen = TerminalScreen("[job]")
    screen.draw(0.5, 3700.0, "[half]")
    screen.draw(1.0, 7325.0, "[all]")
    screen.close()
    shown = capsys.readouterr().err
    assert shown.split() == ["[job]", "━" * 30, "100%", "2:02:05", "[all]"]


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ("", "halocline .*100% 0:00:0.*reference · block 1/1"),
        ("progress=False", "^$"),
    ],
)
def test_the_library_shows_a_bar_in_a_terminal(more: str, shown: str) -> None:
    assert re.search(shown, terminal(SCRIPT.replace("{more}", more)), re.DOTALL)


def test_the_library_shows_nothing_in_a_pipe_unless_it_is_asked_to() -> None:
    for more, shown in (("", ""), ("progress=True", "halocline")):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.replace("{more}", more)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr[:9] == shown
        assert not done.stdout


def terminal(script: str) -> str:
    """Run a script with a terminal as its three streams; return what it shows, without colours."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # it has ended
                break
            shown += part
        assert process.wait() == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
