"""Programs drawn at random whose temporaries have a definition for each of several intervals."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["interval_program"]

_CUTS = (
    ("0", "None"),
    ("0", "1", "None"),
    ("0", "-1", "None"),
    ("0", "1", "-1", "None"),
    ("0", "2", "-2", "None"),
    ("0", "1", "2", "-1", "None"),
)
_FIELDS = ("a", "b")
_OUTPUTS = ("x", "y")


def interval_program(seed: int) -> str:
    """Return the text of a program of fields a, b (read), x and y (written)."""
    draw = random.Random(seed)
    lines: list[str] = []
    known: list[str] = []
    for name in (*"stu"[: draw.randint(1, 3)], *_OUTPUTS):
        order = draw.choice(("PARALLEL", "PARALLEL", "PARALLEL", "FORWARD", "BACKWARD"))
        order = order if name in _OUTPUTS else "PARALLEL"
        cuts = draw.choice(_CUTS)
        blocks = [list(_Block(draw, ends, tuple(known)).lines(name)) for ends in pairwise(cuts)]
        lines.append(f"    with computation({order}):")
        for block in blocks[::-1] if order == "BACKWARD" else blocks:
            lines += block
        known += [] if name in _OUTPUTS else [name]
    fields = ", ".join(f"{name}: Field[np.float64]" for name in (*_FIELDS, *_OUTPUTS))
    return "\n".join((f"def drawn({fields}):", *lines, ""))


@dataclass(frozen=True)
class _Block:
    """One interval of a computation, and the temporaries that it may read."""

    draw: random.Random
    ends: tuple[str, str]
    known: tuple[str, ...]

    def lines(self, target: str) -> Iterator[str]:
        yield f"        with interval({', '.join(self.ends)}):"
        value = f"{self._read()} {self.draw.choice('+-*')} {self._read()} * 0.5"
        match self.draw.randrange(5):
            case 0:
                yield f"            if {self._read()} > 0.0:"
                yield f"                {target} = {value}"
                yield "            else:"
                yield f"                {target} = {self._read()}"
            case 1:
                test = f"{self._read()} > 0.0"
                yield f"            {target} = ({value}) if {test} else {self._read()}"
            case _:
                yield f"            {target} = {value}"

    def _read(self) -> str:
        """Return a read at a level nearby; temporaries have none outside the domain."""
        name = self.draw.choice((*_FIELDS, *self.known, *self.known))
        k = self.draw.choice((-1, 0, 0, 1))
        beyond = (k < 0 and self.ends[0] == "0") or (k > 0 and self.ends[1] == "None")
        return name if k == 0 or (beyond and name in self.known) else f"{name}[0, 0, {k}]"
