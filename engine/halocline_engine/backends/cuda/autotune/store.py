"""Tunings on disk: one JSON file for each subject, in a folder that processes share.

A file appears in one step, so a reader sees all of it or nothing. One that does not hold a tuning
of its subject is passed over, with a line in the log, and replaced by the next measurement.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from halocline_engine.backends.cuda.autotune.choice import choice_from
from halocline_engine.cache import key_of, publish
from halocline_engine.schedule.tune import Subject, Tuning, tuning_from, tuning_text

__all__ = ["Tunings"]

_LOG = logging.getLogger(__name__)
#: A file of this size or more was not made here.
_LARGE = 2**20


@dataclass(frozen=True, slots=True)
class Tunings:
    """Tunings in a folder, which is made when the first one is stored."""

    root: Path

    def load(self, subject: Subject) -> Tuning | None:
        """Return what was measured for a subject, or None."""
        path = self._path(subject)
        try:
            with path.open("rb") as file:
                data = file.read(_LARGE)
        except OSError:
            return None
        try:
            tuning = tuning_from(data.decode())
            choice_from(tuning.options)
        except (ValueError, RecursionError) as error:
            _LOG.warning("The tuning in %s is passed over: %s.", path, error)
            return None
        if tuning.subject != subject:
            _LOG.warning("The tuning in %s is passed over: it is that of another subject.", path)
            return None
        return tuning

    def store(self, tuning: Tuning) -> None:
        """Publish a tuning; where the folder cannot be written, leave it out."""
        with suppress(OSError):
            publish(self._path(tuning.subject), tuning_text(tuning).encode())

    def _path(self, subject: Subject) -> Path:
        return self.root / f"{key_of(*astuple(subject))}.json"
