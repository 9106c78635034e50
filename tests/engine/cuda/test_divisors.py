"""A value that points divide by several times, or that is the same for all, has its reciprocal."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from differential import assert_same, copied, front, inputs, judged, run

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

THREE = "x = a / d\n        y = (b + 1.0) / d\n        z = a * b / d"


def source(body: str, order: str = "PARALLEL", dtype: str = "float64") -> str:
    fields = ", ".join(f"{name}: Field[np.{dtype}]" for name in "abdxyz")
    return f"""
def program({fields}, dx: np.{dtype}):
    with computation({order}), interval(...):
        {body}
"""


def text(program: str) -> str:
    schedule = plan(*front(program))
    variant = usual_variant(schedule)
    return emit(schedule, variant, tiles_of(schedule, variant, (64, 64, 8)))


@pytest.mark.parametrize(
    ("body", "order", "pays"),
    [
        (THREE, "PARALLEL", True),
        ("x = a / d\n        y = b / d", "PARALLEL", False),
        (THREE.replace("(b + 1.0) / d", "(b / d if a > 0.0 else b)"), "PARALLEL", False),
        (THREE.replace("z =", "d = 2.0 * a\n        z ="), "PARALLEL", False),
        ("if a > 0.0:\n            " + THREE.replace("\n", "\n    "), "PARALLEL", True),
        (THREE + "\n        d = d[0, 0, -1]", "FORWARD", False),
        ("x = a / (2.0 * dx)\n        y = b / (2.0 * dx)", "PARALLEL", True),
        ("x = a / (2.0 * dx)", "PARALLEL", True),
        ("x = a / (2.0 * d)", "PARALLEL", False),
    ],
    ids=["three", "two", "chosen", "changed", "branch", "column", "scalars", "scalar", "field"],
)
def test_divisions_become_products_where_that_pays(body: str, order: str, *, pays: bool) -> None:
    kernel = text(source(body, order)).partition('extern "C"')[2]
    assert bool(re.search(r"\bquotient\(", kernel)) == pays


def test_divisions_in_float32_stay() -> None:
    assert "quotient(" not in text(source(THREE.replace("1.0", "a"), dtype="float32"))


@pytest.mark.parametrize("body", [THREE, "x = a / (2.0 * dx)\n        y = b / (2.0 * dx)"])
def test_bits_are_those_of_divisions(load: Callable[[Schedule], CudaExecutable], body: str) -> None:
    program, facts = front(source(body))
    domain, scalars = (33, 7, 5), {"dx": 0.7}
    given = inputs(program, facts, domain)
    special = [0.0, -0.0, np.inf, np.nan, 5e-324, 1e300, -1e-300, 2.0**60, 3.0]
    given.arrays["d"][: len(special), 1, 1] = special
    expected = judged(program, facts, given, domain, scalars)
    assert_same(run(load(plan(program, facts)), copied(given), domain, scalars), expected)
