"""What is known while a program is drawn: what may be read, and where the next statement stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

__all__ = ["OUTPUTS", "PLANES", "READ_ONLY", "Scope"]

READ_ONLY = ("a", "b", "c")
OUTPUTS = ("x", "y", "z")
#: Temporaries over I and J, which keep their values along K.
PLANES = {"p": "np.float64", "deep": "np.int64"}


@dataclass
class Scope:
    """What may be read: temporaries with the block of their first assignment, fields assigned."""

    random: Random
    order: str = "PARALLEL"
    interval: str = "..."
    block: int = 0
    first: dict[str, int] = field(default_factory=dict[str, int])
    here: set[str] = field(default_factory=set[str])
    written: set[str] = field(default_factory=set[str])
    declared: set[str] = field(default_factory=set[str])
    target: str = ""
    general: bool = False
    whole: bool = False
    peer: bool = False
    slots: tuple[int, int] = (0, 0)
    loops: int = 0
    looping: bool = False
    in_region: bool = False

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    @property
    def has_tables(self) -> bool:
        """Whether neighbours are named by tables with `slots` columns, and nothing is beside."""
        return self.slots[0] > 0

    def beside(self, most: int) -> int:
        """Return an offset along I or J."""
        return 0 if self.has_tables else self.number(-most, most)

    @property
    def is_narrow(self) -> bool:
        """Whether statements here read no temporaries beside the point."""
        return self.looping or self.in_region or self.has_tables

    @property
    def has_levels(self) -> bool:
        """Whether `at` is drawn here: GT4Py fails on it in regions."""
        return not (self.peer and self.in_region)

    def assigned(self, name: str) -> None:
        """Note that a temporary was assigned."""
        self.first.setdefault(name, self.block)
        self.here.add(name)
