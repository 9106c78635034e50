"""Errors of one text, collected so that all of them are told at once."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from halocline_engine.errors import LimitError, NameRuleError, ProgramError

__all__ = ["Faults"]

#: Who has more errors than this reads those first.
_MOST = 10


@dataclass(slots=True)
class Faults:
    """The errors that were found so far."""

    found: list[ProgramError] = field(default_factory=list[ProgramError])
    is_full: bool = False

    @contextmanager
    def collecting(self) -> Generator[None]:
        """Keep an error of one statement, and go on behind it; limits end it all."""
        try:
            yield
        except LimitError:
            raise
        except ProgramError as error:
            self.add(error)

    def add(self, error: ProgramError) -> None:
        """Keep an error, and those that were found with it; enough of them end it all."""
        if self.is_full:
            raise error
        told = {_told(one) for one in self.found}
        self.found += [one for one in (error, *error.others) if _told(one) not in told]
        error.others = ()
        if len(self.found) >= _MOST:
            self.is_full = True
            self.raise_found()

    def raise_found(self) -> None:
        """Raise the first error in the order of the text, if there is one, with the others."""
        if self.found:
            first, *others = sorted(self.found, key=lambda error: (error.line, error.column))
            first.others = tuple(others[: _MOST - 1])
            raise first


def _told(error: ProgramError) -> tuple[object, ...]:
    """Return what tells an error from others.

    A name that nothing defines is one error wherever it stands, and what is wrong in a function is
    one error at all its calls.
    """
    if isinstance(error, NameRuleError):
        return (error.message,)
    return error.line, error.column
