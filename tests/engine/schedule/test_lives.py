"""What a field holds until it is assigned anew: a temporary, where nobody could find it there."""

from __future__ import annotations

import pytest
from differential import assert_same, front, inputs, judged, run
from general_runs import agree
from interpreted import patch

from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.ir.walk import assignments
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.storage.temporaries import kernels_of

TEXT = """
def program(a: Field[float], b: Field[float], x: Field[float], y: Field[float]):
    with computation(PARALLEL), interval(...):
        x = a * 2.0
    with computation(FORWARD):
        with interval(0, 1):
            y = b
        with interval(1, None):
            y = y[0, 0, -1] * 0.5 + {read}
    with computation(PARALLEL), interval({levels}):
        {last}
"""


def text(read: str = "x[0, 0, -1]", levels: str = "...", last: str = "x = x + b") -> str:
    return TEXT.format(read=read, levels=levels, last=last)


def stores(source: str, options: Options | None = None) -> int:
    """Return how often the schedule of a program assigns the field x."""
    bodies = [s.body for k in kernels_of(plan(*front(source), options).steps) for s in k.sections]
    return sum(one.target == "x" for body in bodies for one in assignments(body))


@pytest.mark.parametrize("last", ["x = x + b", "x = b", "x = b if x > b else x"])
def test_a_value_that_is_assigned_anew_is_not_stored(last: str) -> None:
    assert stores(text(last=last)) == 1
    assert not plan(*front(text(last=last))).buffers


@pytest.mark.parametrize(
    "changed",
    [
        {"read": "x[0, 0, 1]"},
        {"levels": "1, None"},
        {"last": "if b > a:\n            x = b"},
        {"last": "y = x[0, 0, 0] + y"},
    ],
    ids=[
        "a level above the domain is read",
        "a level keeps it",
        "points keep it",
        "it is the last one",
    ],
)
def test_a_value_that_may_be_found_is_stored(changed: dict[str, str]) -> None:
    source = text(**changed)
    assert stores(source) == sum(line.strip().startswith("x =") for line in source.splitlines())


def test_what_comes_in_is_read_until_it_is_assigned() -> None:
    source = text().replace("x = a * 2.0", "a2 = x * 2.0").replace("+ x[0, 0, -1]", "+ x + a2")
    assert stores(source) == 1


@pytest.mark.parametrize("levels", ["...", "1, None"])
@pytest.mark.parametrize("read", ["x[0, 0, -1]", "x"])
def test_results_are_those_of_the_reference(
    monkeypatch: pytest.MonkeyPatch, levels: str, read: str
) -> None:
    patch(monkeypatch)
    program, facts = front(text(read, levels))
    domain = (5, 3, 6)
    given = inputs(program, facts, domain)
    expected = judged(program, facts, given, domain, {})
    made = CpuBackend().build(plan(program, facts)).load()
    assert_same(run(made, given, domain, {}), expected)


#: What the last level assigns lies above the domain.
BEYOND = """
def program(a: Field[float], b: Field[float], x: Field[float]):
    with computation(FORWARD), interval(...):
        x = a
        x[0, 0, 1] = a * 3.0
    with computation(PARALLEL), interval(...):
        x = b
"""


def test_a_value_that_is_assigned_beyond_the_last_level_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patch(monkeypatch)
    assert stores(BEYOND) == 3
    agree(*front(BEYOND), (5, 3, 6), "along I", 0, Options())
