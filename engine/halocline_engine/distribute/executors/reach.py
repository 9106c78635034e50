"""Whether workers reach the memory of this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from halocline_engine.far_memory import has_at, let_descendants_in, place_of

__all__ = ["Reach"]

_SECRET = 32  # bytes


@dataclass(slots=True)
class Reach:
    """Asks workers with `each`, and asks the same ones once."""

    each: Callable[..., Mapping[str, Any]]
    _known: dict[frozenset[str], bool] = field(default_factory=dict[frozenset[str], bool])

    def by(self, workers: Iterable[str]) -> bool:
        """Whether all of some workers read a secret where this process has it."""
        asked = frozenset(workers)
        if asked not in self._known:
            let_descendants_in()
            secret = np.frombuffer(os.urandom(_SECRET), np.uint8)
            answers = self.each(has_at, place_of(secret), secret.tobytes())
            self._known = {asked: all(answers.get(worker) is True for worker in asked)}
        return self._known[asked]
