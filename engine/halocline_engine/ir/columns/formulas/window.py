"""Window of a formula: an operator at one point, with its arguments nearby.

Points are counted in half levels from the bottom: the face below centre `c` is `2 c`, the centre
itself `2 c + 1`; a column of `n` centres has the points 0 to `2 n`. At the top everything is
mirrored, so that a formula for one end serves both: `inward(m, 1)` is half a level away from the
end, and `sign` is the direction of height.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from halocline_engine.errors import TypeRuleError
from halocline_engine.ir.columns.formulas.algebra import Real
from halocline_engine.ir.columns.nodes import End, Stencil
from halocline_engine.language.source import fault

__all__ = ["Window"]


@dataclass(frozen=True, slots=True)
class Window:
    """An operator at the point `h`.

    `argument(m, h)` gives an argument at a point, `metric(h)` the width there and `level(i)` the
    value of an item without a level; they raise where there is none. `copied` says that an
    end takes its value from here. `size` is the number of points before the last face, 2 n, and
    `periodic` says that point `size` is point 0.
    """

    stencil: Stencil
    h: int
    size: int
    periodic: bool
    argument: Callable[[int, int], Real]
    metric: Callable[[int], Real]
    level: Callable[[int], Real]
    copied: bool = False

    def inner(self) -> Window:
        """Return the same operator at the next point from the nearer end, which is copied there.

        Raises `TypeRuleError` where that point is copied as well.
        """
        if self.copied:
            kind, levels = self.kind, self.size // 2
            message = f"'{self.stencil.operator}' copies the value of the next level at each end"
            message = f"{message} with '{kind}', so it needs more levels than {levels}."
            hint = "Use more levels, or another boundary condition at one end."
            raise fault(TypeRuleError, self.stencil.place, "boundary", message, hint)
        return replace(self, h=self.h + 2 * self.sign, copied=True)

    @property
    def low(self) -> int:
        """Number of half levels below; many in a periodic column."""
        return self.size if self.periodic else self.h

    @property
    def high(self) -> int:
        """Number of half levels above."""
        return self.size if self.periodic else self.size - self.h

    @property
    def near(self) -> int:
        """Distance to the nearer end, in half levels."""
        return min(self.low, self.high)

    @property
    def sign(self) -> int:
        """1 where the bottom is nearer, -1 where the top is; the only cell has two ends."""
        if self.low == self.high and self.stencil.bottom is None and self.stencil.top is not None:
            return -1
        return 1 if self.low <= self.high else -1

    @property
    def end(self) -> End | None:
        """The condition at the nearer end."""
        return self.stencil.bottom if self.sign == 1 else self.stencil.top

    @property
    def kind(self) -> str:
        """The name of the condition at the nearer end, or nothing."""
        return self.end.kind if self.end is not None else ""

    @property
    def value(self) -> Real:
        """The value of the condition at the nearer end."""
        assert self.end is not None
        return self.level(self.end.value)

    def x(self, m: int, steps: int) -> Real:
        """Return an argument some half levels above (or below) this point."""
        return self.argument(m, self.h + steps)

    def inward(self, m: int, steps: int) -> Real:
        """Return an argument some half levels away from the nearer end."""
        return self.argument(m, self.h + self.sign * steps)

    def width(self, steps: int = 0) -> Real:
        """Return the width at a point some half levels above."""
        return self.metric(self.h + steps)
