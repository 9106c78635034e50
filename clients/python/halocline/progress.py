"""A job's progress on the screen, made of its events."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from halocline.events import Event

__all__ = ["Bar", "NotebookBar", "Shows", "View", "advance", "bar"]


@dataclass(frozen=True)
class View:
    """State of a running job: the share done, and words for the rest."""

    share: float = 0.0
    target: str = ""
    mode: str = ""
    passes: int = 1
    pass_index: int = 0
    blocks: str = ""
    steps: int = 0
    steps_done: int = 0
    steps_per_pass: int = 0
    message: str = "waiting"

    @property
    def text(self) -> str:
        """One line for a person.

        >>> View(target="cpu", passes=9, pass_index=2, blocks="1/4", steps=40, steps_done=10).text
        'cpu · pass 3/9 · block 1/4 · step 10/40'
        """
        if not self.target:
            return self.message
        parts = [self.target]
        if self.passes > 1:
            parts.append(f"pass {min(self.pass_index + 1, self.passes)}/{self.passes}")
        if self.blocks:
            parts.append(f"block {self.blocks}")
        if self.steps > 1:
            parts.append(f"step {self.steps_done}/{self.steps}")
        return " · ".join(parts)


def advance(view: View, event: Event) -> View:
    """Return the view after one more event; events of unknown kinds only move the share."""
    share = view.share if event.progress is None else max(view.share, min(event.progress, 1.0))
    view = replace(view, share=share)
    data = event.data
    match event.kind:
        case "planned":
            names = ("target", "mode", "passes", "steps", "steps_per_pass")
            # Blocks that stay in memory all make the same steps: there is no first and last one.
            blocks = "" if data.get("mode") == "resident" else f"0/{data.get('blocks', 1)}"
            return replace(view, **_members(data, names), blocks=blocks)
        case "resumed" | "steps-finished" | "checkpointed" | "snapshot-written" | "measured":
            return replace(view, **_members(data, ("steps_done",)))
        case "block-finished":
            blocks = f"{data.get('done')}/{data.get('total')}"
            return replace(view, **_members(data, ("passes", "pass_index")), blocks=blocks)
        case "pass-finished":
            return replace(view, **_members(data, ("passes", "pass_index", "steps_done")))
        case "finished":
            # Of blocks that finish within a moment only some are told.
            total = view.blocks.rpartition("/")[2]
            blocks = total and f"{total}/{total}"
            ended = {"steps_done": view.steps, "pass_index": view.passes, "blocks": blocks}
            return replace(view, share=1.0, **ended)
        case _:
            message = data.get("message") or data.get("status")
            return replace(view, message=str(message)) if message else view


def _members(data: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: data[name] for name in names if name in data}


class Shows(Protocol):
    """Shows a job's progress while it is used in a `with` block."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(self, *_: object) -> None:
        """Leave the last state."""
        ...

    def show(self, event: Event) -> None:
        """Show the state after one more event."""
        ...


def bar(title: str) -> Shows:
    """Return what shows progress here: in a notebook its own HTML, and otherwise the terminal."""
    display = _notebook()
    return Bar(title) if display is None else NotebookBar(title, display)


def _notebook() -> Callable[[str], Any] | None:
    """Return what shows HTML and gives a handle to update it; None where no notebook runs."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if ipython is None or not hasattr(shell, "kernel"):
        return None
    shown: Any = ipython.display

    def display(text: str) -> Any:
        handle = shown.display(shown.HTML(text), display_id=True)

        def update(text: str) -> None:
            handle.update(shown.HTML(text))

        return update

    return display


class NotebookBar:
    """A bar of plain HTML, which is replaced while the job runs; it needs no widgets."""

    def __init__(
        self,
        title: str,
        display: Callable[[str], Any],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._display = display
        self._update: Callable[[str], None] | None = None
        self._now = now
        self._began = now()
        self._view = View()

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()

    def show(self, event: Event) -> None:
        """Draw the state after one more event."""
        self._view = advance(self._view, event)
        self._draw()

    def _draw(self) -> None:
        minutes, seconds = divmod(int(self._now() - self._began), 60)
        text = (
            f'<div class="halocline-progress"><code>{html.escape(self._title)}</code> '
            f'<progress max="1" value="{self._view.share:.4f}"></progress> '
            f"{100 * self._view.share:.0f} % · {minutes}:{seconds:02} · "
            f"{html.escape(self._view.text)}</div>"
        )
        if self._update is None:
            self._update = self._display(text)
        else:
            self._update(text)


class Bar:
    """A bar in a terminal; where output is no terminal, its last state only."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        self._view = View()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            Elapsed(),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(title, total=1.0, text=self._view.text)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, event: Event) -> None:
        """Draw the state after one more event."""
        self._view = advance(self._view, event)
        self._progress.update(self._task, completed=self._view.share, text=self._view.text)
