"""The programs of the corpus: one file each, whose first lines say what it is.

The first comment says what the program stands for. `# domain:` gives its size along I, J and K,
`# inputs:` the ranges that fields are drawn from, 0.5 to 1.5 where none is named, and `# scalars:`
the values of scalar arguments. `real` stands for the type of all fields and scalars.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

__all__ = ["CorpusCase", "Size", "corpus", "read_case"]

Size: TypeAlias = tuple[int, int, int]
_PROGRAMS = Path(__file__).with_name("programs")
_HEADER = re.compile(r"# (domain|inputs|scalars): (.*)")
_LITERAL = re.compile(r"(?<![\w.])(\d+\.\d+(?:e-?\d+)?)")


@dataclass(frozen=True)
class CorpusCase:
    """A program, the size that it is timed at, and what its arguments hold."""

    name: str
    summary: str
    domain: Size
    ranges: Mapping[str, tuple[float, float]]
    scalars: Mapping[str, float | int]
    source: str

    def text(self, dtype: str) -> str:
        """Return the program with literals of a type; annotations name it `real`.

        >>> case = CorpusCase("p", "", (1, 1, 1), {}, {}, "a = 0.5 * b[1, 0, 0]")
        >>> case.text("float32")
        'a = float32(0.5) * b[1, 0, 0]'
        """
        return _LITERAL.sub(rf"{dtype}(\1)", self.source)


def corpus() -> tuple[CorpusCase, ...]:
    """Return all programs, by name."""
    return tuple(read_case(path) for path in sorted(_PROGRAMS.glob("*.gt")))


def read_case(path: Path) -> CorpusCase:
    """Return the program of a file."""
    lines = path.read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    head = {str(found[1]): str(found[2]) for line in comments if (found := _HEADER.match(line))}
    i, j, k = (int(size) for size in head["domain"].split())
    words = (pair.split("=") for pair in head.get("scalars", "").split())
    return CorpusCase(
        name=path.stem,
        summary=comments[0].removeprefix("# "),
        domain=(i, j, k),
        ranges=dict(_range(pair) for pair in head.get("inputs", "").split()),
        scalars={name: _number(value) for name, value in words},
        source="\n".join(line for line in lines if line not in comments) + "\n",
    )


def _number(text: str) -> float | int:
    return float(text) if "." in text else int(text)


def _range(pair: str) -> tuple[str, tuple[float, float]]:
    name, bounds = pair.split("=")
    low, high = bounds.split(":")
    return name, (float(low), float(high))
