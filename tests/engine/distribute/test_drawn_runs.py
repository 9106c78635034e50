"""Drawn ways to run many steps have one digest; `tests/benchmarks/drawn_runs.py` draws more."""

from __future__ import annotations

from random import Random

import pytest
from drawn_runs import PROGRAMS, digest, drawn_way, expected


@pytest.mark.parametrize(
    ("name", "target", "ways"),
    [
        *((name, "reference", 2) for name in PROGRAMS),
        *((name, "cpu", 3) for name in ("wave", "heat", "place")),
    ],
)
def test_every_way_makes_the_same_bits(name: str, target: str, ways: int) -> None:
    random = Random(f"{name} {target}")
    for _ in range(ways):
        way = drawn_way(random, PROGRAMS[name], processes=0, kills=False)
        assert digest(PROGRAMS[name], way, target) == expected(name, target), str(way)
