"""What is made at which position of the stream, and what is kept; which programs can do that."""

from __future__ import annotations

import pytest
from differential import front

from halocline_engine.ir.types import Axis
from halocline_engine.schedule.temporal.levels import Levels, levels_at_once
from halocline_engine.schedule.temporal.step import Refused, Step, step_of

HEAD = "def made(u: Field[float64], v: Field[float64], c: Field[float64], w: Field[float64]):\n"
BODY = "    with computation(PARALLEL), interval(...):\n"


def step(*lines: str, feedback: dict[str, str] | None = None) -> Step | Refused:
    text = HEAD + BODY + "".join(f"        {line}\n" for line in lines)
    return step_of(*front(text), feedback or {"v": "u"})


def levels(steps: int, *lines: str, feedback: dict[str, str] | None = None) -> Levels:
    found = step(*lines, feedback=feedback)
    assert not isinstance(found, Refused), found
    return levels_at_once(found, steps)


def test_each_step_lags_behind_the_one_before_it() -> None:
    made = levels(3, "v = u[0, -1, 0] + u[0, 1, 0] - u[1, 0, 0]")
    assert made.along is Axis.J
    assert [(node.level, node.lag, node.halo) for node in made.nodes] == [
        (0, 0, None),
        (0, 1, "u"),
        (1, 2, "u"),
        (2, 3, None),
    ]
    ages = [sorted({one.age for one in uses}) for uses in made.uses]
    assert ages == [[0, 1, 2], [0, 1, 2], [0, 1, 2], []]
    # One column is lost at the high end for each step, and a row at both ends.
    assert (made.low, made.high, made.start, made.lag) == ((0, 0), (3, 0), 3, 3)


def test_coefficients_are_loaded_when_they_are_needed() -> None:
    made = levels(2, "v = c[0, 1, 0] * u[0, -1, 0] + u[0, 2, 0] * c")
    assert [(node.name, node.level, node.lag) for node in made.nodes if node.value is None] == [
        ("c", 0, 1),
        ("u", 0, 0),
        ("c", 1, 3),
    ]


def test_a_value_that_is_handed_on_is_not_kept_twice() -> None:
    lines = "v = 2.0 * u - c + u[1, 0, 0]", "w = u"
    made = levels(3, *lines, feedback={"v": "u", "w": "c"})
    # The last input of the field that is handed on is the value of a step before.
    assert [node.outputs for node in made.nodes if node.outputs] == [("v",), ("w",)] or [
        node.outputs for node in made.nodes if node.outputs
    ] == [("w",), ("v",)]
    assert sum(node.value is None for node in made.nodes) == 2
    assert len(made.nodes) == 5


def test_neighbours_of_other_warps_are_a_position_late() -> None:
    made = levels(1, "v = u[0, 1, 1] + u[0, 0, 1]")
    assert made.along is Axis.K
    assert [node.lag for node in made.nodes] == [0, 2]
    assert {(one.j, one.age) for one in made.uses[0]} == {(1, 1), (0, 1)}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("w = u + v", "v = u"), "'v' is read before it is written, and so keeps older values"),
        (("if u > 0.0:\n            v = u",), "'v' is read before it is written, and so keeps older"
         " values"),
        (("c = u",), "'v' is not written"),
        (("v = u + c.at(K=1)",), "it reads indices, or has regions"),
        (("v = u", "u = 1.0"), "'u' is fed and also written"),
        (
            ("t = u", *["t = t * 0.5 + u"] * 100, "v = t"),
            "it has more than 100 statements",
        ),
    ],
)  # fmt: skip
def test_reasons_against_it(lines: tuple[str, ...], reason: str) -> None:
    assert step(*lines) == Refused(reason)


def test_conditions_are_values() -> None:
    found = step("if u > 0.0:\n            v = c\n        else:\n            v = u[1, 0, 0]")
    assert not isinstance(found, Refused)
    assert found.reach == ((0, 1), (0, 0), (0, 0))
    assert found.inputs == ("u", "c")
