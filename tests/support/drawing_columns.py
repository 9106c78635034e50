"""Column programs that are drawn by number: fields changed in place in branches of branches.

Programs of `drawing` have more of the language, and fewer such branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

__all__ = ["column_program"]

_FIELDS = ("a", "b", "c", "d", "x", "y", "z")
_FORWARD = (("0, 1", "1, None"), ("0, 1", "1, 3", "3, None"))


def column_program(number: int) -> str:
    """Return the text of a program; the same number gives the same one."""
    random = Random(number)
    dtype = random.choice(("float64", "float64", "float32"))
    temporaries = random.choice(((), ("u", "v"), ("u", "v")))
    lines = [
        "def drawn(",
        f"    {', '.join(f'{name}: Field[{dtype}]' for name in _FIELDS)},",
        f"    p: Field[IJ, {dtype}],",
        "):",
    ]
    for _ in range(random.randint(1, 3)):
        order = random.choice(("FORWARD", "BACKWARD", "FORWARD", "BACKWARD", "PARALLEL"))
        targets = (*random.sample(_FIELDS, random.randint(2, 4)), *temporaries)
        column = _Column(random, 1 if order == "BACKWARD" else -1, temporaries)
        lines.append(f"    with computation({order}):")
        lines += column.intervals(order, targets)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Column:
    """Draws the levels of a computation, which may read the level `before` each."""

    random: Random
    before: int
    temporaries: Sequence[str]

    def intervals(self, order: str, targets: Sequence[str]) -> Iterator[str]:
        """Yield the intervals of a computation; the first level reads no other one."""
        kinds = {"BACKWARD": ("-1, None", "0, -1"), "PARALLEL": ("1, -1",)}
        found = kinds.get(order) or self.random.choice(_FORWARD)
        for number, interval in enumerate(found):
            lonely = number == 0 and order != "PARALLEL"
            yield f"        with interval({interval}):"
            for name in self.temporaries:
                yield f"            {name} = {self.random.choice('abcd')}"
            yield from self.body(12, 2, targets, lonely=lonely)

    def body(
        self, indent: int, depth: int, targets: Sequence[str], *, lonely: bool
    ) -> Iterator[str]:
        """Yield statements; those of a branch often assign what those of the other one do."""
        space, random = " " * indent, self.random
        for _ in range(random.randint(1, 3)):
            if depth and random.random() < 0.45:
                one = random.choice(([random.choice(targets)], targets))
                yield f"{space}if {self.condition(lonely=lonely)}:"
                yield from self.body(indent + 4, depth - 1, one, lonely=lonely)
                if random.random() < 0.2:
                    yield f"{space}elif {self.condition(lonely=lonely)}:"
                    yield from self.body(indent + 4, depth - 1, one, lonely=lonely)
                if random.random() < 0.65:
                    yield f"{space}else:"
                    yield from self.body(indent + 4, depth - 1, one, lonely=lonely)
            else:
                target, value = random.choice(targets), self.value(2, lonely=lonely)
                kept = f"0.5 * {target} + 0.25 * ({value})"
                yield f"{space}{target} = {random.choice((kept, f'0.5 * ({value})'))}"

    def condition(self, *, lonely: bool) -> str:
        """Return a condition of a point."""
        random = self.random
        first, second = (self.value(depth, lonely=lonely) for depth in (1, 0))
        found = f"{first} {random.choice('<>')} {second}"
        also = f" {random.choice(('and', 'or'))} {random.choice('abcd')} > 0.2"
        return found + random.choice(("", "", "", also))

    def value(self, depth: int, *, lonely: bool) -> str:
        """Return an expression of so many operations inside each other."""
        random, kind = self.random, self.random.random()
        if not depth or kind < 0.35:
            name = random.choice((*_FIELDS, *self.temporaries))
            there = name if lonely else f"{name}[0, 0, {self.before}]"
            return random.choice((there, there, name, name, name, "p", "0.5"))
        one, two = (self.value(depth - 1, lonely=lonely) for _ in range(2))
        if kind < 0.8:
            return f"({one} {random.choice('+-*')} {two})"
        if kind < 0.9:
            return f"min({one}, abs({two}))"
        return f"({one} if {random.choice('abcd')} > 0.1 else {two})"
