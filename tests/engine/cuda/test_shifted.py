"""Rows that begin behind a multiple of 16 bytes, alike in all arrays, move 16 bytes at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from differential import assert_same, front, inputs, judged, run
from emulation.machine import ABSENT, EmulatedArtifact, compiler
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from halocline_engine.backends.cuda.model.views import View, variant_of, view_of
from halocline_engine.schedule.plan import plan

STAR = """
def star(a: Field[np.{0}], b: Field[np.{0}], out: Field[np.{0}]):
    with computation(PARALLEL), interval(...):
        out = a[-1, 0, 0] + a[1, 0, 0] - a[0, 1, 0] * b + a[0, 0, 0]
"""
MIXED = """
def mixed(a: Field[np.float32], b: Field[np.float64], m: Field[bool], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = b[1, 0, 0] - b[-2, 0, 0] + (a if m else b)
"""
WIDER = """
def wider(a: Field[np.float32], out: Field[np.float32], other: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        twice = a[-1, 0, 0] + a[1, 0, 0]
        out = twice[-1, 0, 0] + twice[2, 0, 0]
        other = twice
"""
ROWS = """
def rows(a: Field[np.float32], out: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        out = a[0, -1, 0] + a[0, 1, 0] + a[0, 2, 0] + a[1, 0, 0] + a[0, 0, 0]
"""
NINE = [f"f{n}" for n in range(9)]
MANY = f"""
def many({", ".join(f"{name}: Field[np.float32]" for name in NINE)}, out: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        out = {" + ".join(NINE)}
"""
PROGRAMS = (MANY, STAR.format("float32"), STAR.format("float64"), MIXED, WIDER, ROWS)


@pytest.mark.skipif(compiler() is None, reason=ABSENT)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(PROGRAMS),
    st.tuples(st.integers(1, 21), st.integers(1, 9), st.integers(1, 3)),
    st.integers(0, 9),
    st.booleans(),
)
def test_tiles_of_shifted_rows_compute_what_the_reference_does(
    emulation_folder: Path, text: str, domain: tuple[int, int, int], seed: int, large: bool
) -> None:
    program, facts = front(text)
    own = inputs(program, facts, domain, layout="shifted", seed=seed)
    expected = judged(program, facts, own, domain, {})
    usual = (509, 487, domain[2]) if large else None
    artifact = EmulatedArtifact(plan(program, facts), emulation_folder, usual=usual)
    assert_same(run(artifact.load(), own, domain, {}), expected)


def test_warps_of_many_arrays_begin_at_lines_of_memory(emulation_folder: Path) -> None:
    program, facts = front(MANY)
    domain = (21, 9, 3)
    own = inputs(program, facts, domain, layout="shifted")
    executable = EmulatedArtifact(
        plan(program, facts), emulation_folder, usual=(509, 487, 3)
    ).load()
    executable(own.arrays, {}, own.origins, domain)
    assert any("line 32" in line for line in executable.tilings())


def test_the_tile_says_how_far_rows_are_shifted(emulation_folder: Path) -> None:
    program, facts = front(STAR.format("float32"))
    domain = (21, 9, 3)
    own = inputs(program, facts, domain, layout="shifted")
    executable = EmulatedArtifact(
        plan(program, facts), emulation_folder, usual=(509, 487, 3)
    ).load()
    executable(own.arrays, {}, own.origins, domain)
    (line,) = (line for line in executable.tilings() if "width 4" in line)
    assert "shift 3" in line


def _view(itemsize: int, behind: int, pitch: int = 64) -> View:
    """Return how a call uses an array whose rows are so many elements apart."""
    strides = (itemsize, pitch * itemsize, 9 * pitch * itemsize)
    return view_of("f", 4096, itemsize, (40, 9, 3), strides, (behind, 0, 0))


@pytest.mark.parametrize(
    ("views", "shift", "aligned"),
    [
        ([_view(4, 0), _view(4, 4)], 0, [True, True]),
        ([_view(4, 5), _view(4, 1)], 1, [True, True]),
        ([_view(4, 3), _view(8, 1)], 3, [True, True]),
        ([_view(4, 2), _view(8, 0), _view(1, 7)], 2, [True, True, False]),
        ([_view(8, 3), _view(8, 1)], 1, [True, True]),
        ([_view(4, 1), _view(4, 0)], 0, [False, True]),
        ([_view(4, 1), _view(4, 1, pitch=63)], 0, [False, False]),
    ],
)
def test_rows_are_shifted_where_all_are_alike(
    views: list[View], shift: int, aligned: list[bool]
) -> None:
    found = variant_of(views, [False] * len(views))
    assert (found.shift, list(found.aligned)) == (shift, aligned)
