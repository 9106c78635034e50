"""Progress display: a bar in a terminal, or HTML that is updated in a notebook.

A thread draws a few times a second: the time advances between events, and drawing does not delay
the job.
"""

from __future__ import annotations

import html
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from halocline_engine.progress.view import View, advance

__all__ = ["Display", "NotebookScreen", "Screen", "TerminalScreen", "displayed", "is_watched"]

_DRAWN_SECONDS = 0.2


class Screen(Protocol):
    """Output device of one progress bar."""

    def draw(self, share: float, seconds: float, text: str) -> None:
        """Draw the share done, the seconds since the start, and a line of text."""
        ...

    def close(self) -> None:
        """Keep the last drawing on the screen."""
        ...


def is_watched() -> bool:
    """Return whether the main thread runs in a terminal or a notebook.

    Child processes of `multiprocessing`, such as the workers of Dask, share the terminal of their
    parent and display nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    if multiprocessing.parent_process() is not None:
        return False
    with suppress(AttributeError, ValueError):  # no stream, or a closed one
        return _notebook() is not None or sys.stderr.isatty()
    return False


class Display:
    """Progress of one job, updated by events and drawn on a screen."""

    def __init__(self, screen: Screen, now: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._now = now
        self._began = now()
        self._ahead = 0.0  # offset of the clock of events
        self._view = View()

    def show(self, kind: str, data: Mapping[str, Any]) -> None:
        """Update the progress with an event; its member 'at', if any, is the time."""
        if isinstance(at := data.get("at"), str):
            with suppress(ValueError):
                self._ahead = datetime.fromisoformat(at).timestamp() - self._now()
        self._view = advance(self._view, kind, data, self._now() + self._ahead)

    def wait_for(self, what: str) -> None:
        """Set the text about the awaited event, shown until there is progress."""
        self._view = replace(self._view, awaited=what)

    def draw(self) -> None:
        """Draw the current state."""
        now, view = self._now(), self._view
        self._screen.draw(view.share, now - self._began, view.text(now + self._ahead))

    def close(self) -> None:
        """Draw the last state, and keep it on the screen."""
        self.draw()
        self._screen.close()


@contextmanager
def displayed(
    title: str, *, delay: float = 0.0, screen: Screen | None = None
) -> Generator[Display]:
    """Draw the progress of a job while the context lasts, unless it ends within `delay` seconds."""
    display = Display(screen or _screen(title))
    ended = threading.Event()
    has_drawn = delay == 0.0

    def keep_drawing() -> None:
        nonlocal has_drawn
        wait = delay
        with suppress(OSError, ValueError):  # the terminal is closed
            while not ended.wait(wait):
                has_drawn, wait = True, _DRAWN_SECONDS
                display.draw()

    drawing = threading.Thread(target=keep_drawing, name="halocline-progress", daemon=True)
    drawing.start()
    try:
        yield display
    finally:
        ended.set()
        drawing.join()
        if has_drawn:
            with suppress(OSError, ValueError):
                display.close()


def _screen(title: str) -> Screen:
    """Return the screen of this process: a cell of a notebook, or the terminal."""
    display = _notebook()
    return TerminalScreen(title) if display is None else NotebookScreen(title, display)


def _notebook() -> Callable[[str, str], Any] | None:
    """Return a function that displays HTML, or text, and returns an updater of both.

    None outside of notebooks.
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if ipython is None or not hasattr(shell, "kernel"):
        return None
    shown: Any = ipython.display

    def display(markup: str, text: str) -> Any:
        both = {"text/html": markup, "text/plain": text}
        handle = shown.display(both, raw=True, display_id=True)

        def update(markup: str, text: str) -> None:
            handle.update({"text/html": markup, "text/plain": text}, raw=True)

        return update

    return display


class NotebookScreen:
    """A bar of plain HTML, updated while the job runs, without widgets."""

    def __init__(self, title: str, display: Callable[[str, str], Any]) -> None:
        self._title = title
        self._display = display
        self._update: Callable[[str, str], None] | None = None

    def draw(self, share: float, seconds: float, text: str) -> None:
        """Display or update the bar."""
        minutes, rest = divmod(int(seconds), 60)
        told = f"{100 * share:.0f} % · {minutes}:{rest:02} · {text}"
        drawn = (
            f'<div class="halocline-progress"><code>{html.escape(self._title)}</code> '
            f'<progress max="1" value="{share:.4f}"></progress> {html.escape(told)}</div>'
        )
        plain = f"{self._title} {told}"
        if self._update is None:
            self._update = self._display(drawn, plain)
        else:
            self._update(drawn, plain)

    def close(self) -> None:
        """Keep the bar."""


class TerminalScreen:
    """A line of the terminal, or only the last state if standard error is redirected."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._progress: Any = None

    def draw(self, share: float, seconds: float, text: str) -> None:
        """Redraw the line."""
        if self._progress is None:
            self._progress = self._start()
        elapsed = f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
        (task,) = self._progress.task_ids
        self._progress.update(task, completed=share, elapsed=elapsed, text=text)
        self._progress.refresh()

    def close(self) -> None:
        """End the line."""
        if self._progress is not None:
            self._progress.stop()

    def _start(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TextColumn("{task.fields[elapsed]}", style="progress.elapsed"),
            TextColumn("{task.fields[text]}", markup=False),
            console=Console(stderr=True),
            auto_refresh=False,
        )
        progress.add_task(self._title, total=1.0, text="", elapsed="")
        progress.start()
        return progress
