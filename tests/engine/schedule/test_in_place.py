"""Fields that functions change in narrow regions alone are changed where they lie."""

from __future__ import annotations

import pytest
from differential import front

from halocline_engine.ir.nodes import Program
from halocline_engine.schedule.passes.in_place import in_place
from halocline_engine.schedule.stages import draft

TEXT = """
def corner(q, source):
    with horizontal(region[I[0], J[0]]):
        q = source[1, 0, 0]
    with horizontal(region[I[-1], J[0]]):
        q = 0.5 * (q + source[-1, 0, 0])
    return q


def corners(q: Field[float], source: Field[float], x: Field[float]):
    with computation({order}), interval(...):
        q = corner(q, source)
        {after}
"""
READ_BETWEEN = """t = q
        with horizontal(region[I[0], :]):
            t = source
        x = q + 1.0
        q = t"""


def _targets(text: str) -> list[str]:
    found = in_place(draft(*front(text)))
    return [name for part in found.parts for stage in part.stages for name in stage.targets]


@pytest.mark.parametrize("order", ["PARALLEL", "FORWARD", "BACKWARD"])
@pytest.mark.parametrize("after", ["x = q", "x = source"])
def test_a_field_that_a_function_gets_and_returns(order: str, after: str) -> None:
    assert _targets(TEXT.format(order=order, after=after)) == ["q", "q", "x"]


def test_a_field_that_nothing_changes() -> None:
    text = TEXT.format(order="PARALLEL", after="t = x\n        x = t")
    assert _targets(text) == ["q", "q"]


def test_the_program_still_reads_the_field() -> None:
    found = in_place(draft(*front(TEXT.format(order="PARALLEL", after="x = q"))))
    program: Program = found.program
    assert next(field for field in program.fields if field.name == "q").read


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The field is read while the temporary holds another value.
        ("q = corner(q, source)", READ_BETWEEN),
        # Another field gets the result.
        ("q = corner(q, source)", "x = corner(q, source)"),
        # All points change.
        ("    return q", "    q = 2.0 * q\n    return q"),
        # Most points change.
        ("region[I[-1], J[0]]", "region[I[0]:I[-1], :]"),
        # A value decides.
        ("    with horizontal(region[I[-1], J[0]]):", "    if source > 0.0:"),
    ],
)
def test_other_ways_keep_the_temporary(old: str, new: str) -> None:
    text = TEXT.format(order="PARALLEL", after="x = source")
    assert old in text
    assert any(name not in ("q", "x") for name in _targets(text.replace(old, new)))
