"""Analytic columns in time, to their end, and boundary values that vary over the horizontal.

Where a target takes too long in the suite, `tests/benchmarks/columns_in_full.py` went to the end
and wrote what came out. Here a short run of the same code must lead to the states that it wrote.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from column_cases import Loader, norm, run_column, stretched
from column_runs import CASES, Case, heat, run_case

from halocline_engine.ir.columns.table import At

PI = math.pi
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
#: What was run to the end, with the name of the target.
WRITTEN = {
    record["target"]: record
    for path in sorted(RESULTS.glob("*-column-cases.json"))
    for record in (json.loads(path.read_text()),)
}
#: Steps to the states that were written beside the figures.
EARLY = 40
#: Cases that are run to their end here.
WHOLE = {
    "cpu": [name for name in CASES if name != "rest"],
    "reference": ["heat", "wave"],
}


def judged(case: Case, target: str | Loader) -> dict[str, float]:
    """Run a case to its end; return its figures."""
    return case.judge(dict(run_case(case, target)))


def check(case: Case, figures: dict[str, float]) -> None:
    for name, bound in case.bounds.items():
        assert abs(figures[name]) < bound, name
    for name, (expected, share) in case.near.items():
        assert figures[name] == pytest.approx(expected, rel=share), name


def check_orders(errors: list[float]) -> None:
    assert len(errors) == 3
    for coarse, fine in pairwise(errors):
        assert 1.4 < math.log2(coarse / fine) < 2.6


@pytest.mark.parametrize(
    ("target", "name"),
    [(target, name) for target in WHOLE for name in WHOLE[target] if "carried" not in name],
)
def test_columns_to_their_end(target: str, name: str) -> None:
    case = CASES[name]()
    check(case, judged(case, target))


def test_transport_and_diffusion_together_converge() -> None:
    cases = [make() for name, make in CASES.items() if "carried" in name]
    check_orders([judged(case, "cpu")["error"] for case in cases])


def test_heat_converges_in_space() -> None:
    coarse, fine = (judged(heat(n, 0.005, 0.2), "cpu")["error"] for n in (10, 20))
    assert coarse / fine == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize("target", tuple(WRITTEN))
def test_what_was_written_is_within_its_bounds(target: str) -> None:
    cases = WRITTEN[target]["cases"]
    assert tuple(cases) == tuple(CASES)
    for name, make in CASES.items():
        case, found = make(), cases[name]
        check(case, found["figures"])
        assert (found["steps"], found["step"]) == (case.steps, case.step)
        # What the last state alone says is no worse than what all states say.
        start, last = case.start, {n: np.array(v) for n, v in found["last"].items()}
        ended = case.judge({0.0: start, case.steps * case.step: last})
        assert all(abs(ended[n]) <= abs(v) * (1 + 1e-12) for n, v in found["figures"].items())
    check_orders([found["figures"]["error"] for n, found in cases.items() if "carried" in n])


@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in ("carried_32", "carried_128")]
)
@pytest.mark.parametrize("target", ["reference", "cpu", "cuda-emulated"])
def test_a_short_run_leads_to_the_states_that_were_written(
    target: str, name: str, request: pytest.FixtureRequest
) -> None:
    case = CASES[name]()
    on = request.getfixturevalue("emulated_columns") if target == "cuda-emulated" else target
    states = dict(run_case(case, on, steps=EARLY, every=EARLY))
    assert WRITTEN
    for record in WRITTEN.values():
        for variable, values in record["cases"][name]["early"].items():
            got = states[EARLY * case.step][variable]
            # Speeds of air at rest are sums of rounding errors, beside a sound of 300 m/s.
            room = 1e-9 if variable == "w" else 1e-14
            np.testing.assert_allclose(got, values, rtol=1e-12, atol=room)


VARYING = """g = GradientC2F(bottom=SetGradient(s), top=SetValue(e))(x)
d = DivergenceF2C(bottom=SetValue(b), top=SetDivergence(t))(f)
i = InterpolateC2F(bottom=SetGradient(s), top=SetValue(e))(x)"""


def test_boundary_values_may_vary_from_column_to_column() -> None:
    phase = np.linspace(0.0, 2.0, 7)[:, None]
    errors: dict[str, list[float]] = {"g": [], "d": [], "i": []}
    for levels in (32, 64, 128):
        column = stretched(levels, 0.0, PI, 2.0)
        fields = {
            "x": np.sin(column.centres + phase),
            "f": np.sin(column.faces + phase),
            "s": np.cos(phase),
            "e": np.sin(PI + phase),
            "b": np.sin(phase),
            "t": np.cos(column.centres[-1] + phase),
        }
        found = run_column(VARYING, column, fields)
        for name, values in found.items():
            at, z = (At.CENTRE, column.centres) if name == "d" else (At.FACE, column.faces)
            exact = np.sin(z + phase) if name == "i" else np.cos(z + phase)
            error = np.sqrt(((values - exact) ** 2).mean(0))
            errors[name].append(norm(error, column, at))
    # A gradient beside a given value is of first order on that face, and of 1.5th in the mean.
    for name, least in (("g", 1.45), ("d", 1.85), ("i", 1.85)):
        for coarse, fine in pairwise(errors[name]):
            assert least < math.log2(coarse / fine) < 2.1, name
