"""Regions, tables, components and levels of the run: any blocks on any ranks give the same bits.

A program is a drawn choice of statements that use them. What it gives in one block is compared
with what it gives cut otherwise, streamed or kept in memory, for one step or several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import ProgramError
from halocline_engine.functions.run import run
from halocline_engine.program import compile_program

#: Statements of PARALLEL computations, which read `a` or `t` and assign `t` or `b`.
POINTS = (
    "t = a[-1, 0, 0] + 0.5 * a[0, 1, 0]",
    "u = t[1, 0, 0] - 0.25 * a\nb = b + u",
    "t = t + w[0, -1]",
    "b = t + 0.125 * K",
    "b = b + a.at(K=n)",
    "b = 0.5 * b + a[0, 1, n % 3 - 1]",
    "b = b - v[0, 0, 0][n % 3]",
    "b = b + v[1, 0, 0][2] * g.A[n % 5]",
    "b = b + g.A[K]",
    "with horizontal(region[I[0] : I[0] + 2, :]):\n    b = 2.0 * a",
    "with horizontal(region[I[-1], :], region[:, J[0]]):\n    b = b - a[0, 1, 0]",
    "with horizontal(region[2 : I[-1] - 1, J[-1] - 1 : J[-1] + 1]):\n    t = 3.0 * a",
    "m = 0\nwhile m < n and b < 4.0:\n    b = b + a.at(K=m)\n    m = m + 1",
    "if a > w:\n    b = t\nelse:\n    b = b + a[0, -2, 0]",
)
#: Those of FORWARD and BACKWARD computations.
COLUMNS = (
    "p = 0.5 * p + a",
    "b = b + p",
    "b[0, 0, 1] = 0.25 * a + p",
    "b[0, 0, n % 3 - 1] = b + a[1, 0, 0]",
    "e[0, 0, 0][n % 2] = p - a\nb = b + e[0, 0, 0][1]",
    "s = s + 0.125 * b",
    "b = b + s * g.A[2]",
    "with horizontal(region[I[0], :]):\n    p = -a",
)
HEAD = """
def drawn(
    a: Field[float], n: Field[int], w: Field[IJ, float], v: Field[(float, (3,))],
    g: GlobalTable[(float, (5,))], b: Field[float], s: Field[IJ, float],
    e: Field[(float, (2,))],
):
    with computation(PARALLEL), interval(...):
        t = 0.5 * a
        b = 0.25 * a
    with computation(FORWARD), interval(0, 1):
        p: Field[IJ, np.float64] = 0.0
        s = 0.0
    with computation(FORWARD), interval(...):
        e[0, 0, 0][0] = 0.5
        e[0, 0, 0][1] = 0.25
"""
SIDES = st.sampled_from(["periodic", "edge", "reflect"])


@dataclass(frozen=True)
class Case:
    """A program and the ways that it is run in."""

    parts: tuple[tuple[str, tuple[str, ...]], ...]
    sides: tuple[str, str]
    chunks: dict[str, int]
    steps: int
    per_pass: int
    seed: int

    @property
    def text(self) -> str:
        lines = [HEAD]
        for order, statements in self.parts:
            lines.append(f"    with computation({order}), interval(...):\n")
            for statement in statements:
                lines += [f"        {line}\n" for line in statement.splitlines()]
        return "".join(lines)


def part(order: str, statements: tuple[str, ...]) -> st.SearchStrategy[Any]:
    some = st.lists(st.sampled_from(statements), min_size=1, max_size=4)
    return st.tuples(st.just(order), some.map(tuple))


CASES = st.builds(
    Case,
    parts=st.lists(
        st.one_of(part("PARALLEL", POINTS), part("FORWARD", COLUMNS), part("BACKWARD", COLUMNS)),
        min_size=1,
        max_size=4,
    ).map(tuple),
    sides=st.tuples(SIDES, SIDES),
    chunks=st.fixed_dictionaries({"x": st.integers(1, 12), "y": st.integers(1, 9)}),
    steps=st.integers(1, 3),
    per_pass=st.integers(1, 3),
    seed=st.integers(0, 99),
)


def dataset(seed: int) -> xr.Dataset:
    """Return inputs; the first level of a column may be any of its indices."""
    random = np.random.default_rng(seed)
    shape = (5, 9, 12)
    return xr.Dataset(
        {
            "a": (("z", "y", "x"), random.normal(size=shape).round(3)),
            "n": (("z", "y", "x"), random.integers(0, 6, shape)),
            "w": (("y", "x"), random.normal(size=shape[1:])),
            "v": (("z", "y", "x", "part"), random.normal(size=(*shape, 3))),
            "g": (("entry",), random.normal(size=5)),
        }
    )


def arrays(case: Case, target: str, **how: Any) -> dict[str, Any]:
    result = run(
        case.text,
        dataset(case.seed),
        axes={"I": "x", "J": "y", "K": "z"},
        boundary=dict(zip(("x", "y"), case.sides, strict=True)),
        steps=case.steps,
        feedback={"b": "a"},
        target=target,
        **how,
    )
    return {str(name): result[name].values for name in result.data_vars}


def compare(case: Case, target: str, ranks: int) -> None:
    whole = arrays(case, target)
    options = Options(steps_per_pass=case.per_pass)
    cut = arrays(case, target, chunks=case.chunks, options=options, mode="streamed")
    pool = LocalPool(workers=ranks)
    with patch("halocline_engine.distribute.executors.select.local_pool", return_value=pool):
        kept = arrays(case, target, chunks=case.chunks, options=options, mode="resident")
    for found in (cut, kept):
        assert found.keys() == whole.keys()
        for name, values in whole.items():
            np.testing.assert_array_equal(found[name], values, err_msg=f"{name}\n{case.text}")


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(CASES, st.integers(1, 4))
def test_blocks_and_ranks_change_no_bit(case: Case, ranks: int) -> None:
    try:
        compile_program(case.text, target="reference")
    except ProgramError:
        assume(False)
    compare(case, "reference", ranks)


@pytest.mark.parametrize("ranks", [1, 3])
def test_compiled_loops_give_the_bits_of_one_block(ranks: int) -> None:
    case = Case(
        parts=(
            ("PARALLEL", (POINTS[0], POINTS[4], POINTS[7], POINTS[9], POINTS[10])),
            ("FORWARD", (COLUMNS[0], COLUMNS[3], COLUMNS[4], COLUMNS[5])),
            ("PARALLEL", (POINTS[12], POINTS[6], POINTS[8])),
        ),
        sides=("periodic", "edge"),
        chunks={"x": 5, "y": 4},
        steps=3,
        per_pass=2,
        seed=1,
    )
    compare(case, "cpu", ranks)
