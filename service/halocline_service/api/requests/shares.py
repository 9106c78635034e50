"""Limits of long-lived requests of one owner in an API process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from halocline_service.api.problems import ProblemError

__all__ = ["one_of"]


@contextmanager
def one_of(held: Counter[str], owner: str, most: int, *, what: str, hint: str) -> Generator[None]:
    """Count a request of an owner while the context lasts. Raises a problem beyond `most`."""
    if held[owner] >= most:
        raise ProblemError(
            "queue-full",
            f"You have {most} {what}, and no more are allowed.",
            hint=hint,
            headers={"Retry-After": "5"},
        )
    held[owner] += 1
    try:
        yield
    finally:
        held[owner] -= 1
        if not held[owner]:
            del held[owner]
