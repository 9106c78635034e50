"""A cache of plans that counts what it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import halocline_engine as he
from halocline_engine.kernels.indirect.plan import Kept

__all__ = ["CountingPlans"]

_Kept = TypeVar("_Kept", bound=Kept)


class CountingPlans(he.PlanCache):
    """As its base; `made` is how many things were not found."""

    made = 0

    def get(self, key: str, make: Callable[[], _Kept]) -> _Kept:
        """Return what has that name; it is made, and counted, where it is missing."""

        def counted() -> _Kept:
            self.made += 1
            return make()

        return super().get(key, counted)
