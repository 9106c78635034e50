"""Progress display for jobs of a service."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from halocline.events import Event
from halocline.inputs.arguments import flag
from halocline_engine.progress.display import displayed, is_watched

__all__ = ["check_progress", "display_of"]


def check_progress(progress: object) -> None:
    """Raise ArgumentError unless it is True, False or None."""
    if progress is not None:
        flag("progress", progress)


@contextmanager
def display_of(job_id: str, progress: bool | None) -> Generator[Callable[[Event], None]]:
    """Yield a function that displays events, if `progress` is True or a person is watching."""
    check_progress(progress)
    if not (is_watched() if progress is None else progress):
        yield lambda _event: None
        return
    with displayed(f"job {job_id[-8:]}") as display:
        yield lambda event: display.show(event.kind, event.data)
