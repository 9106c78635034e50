"""What a program means, statement by statement, on the reference target.

Expected values come from loops over points in plain Python, written as the language's rules read.
"""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from lowered import lower

import halocline_engine as he
from halocline_engine.backends.reference.build import ReferenceArtifact
from halocline_engine.language.gtscript import parse

SHAPE = (4, 3, 6)


def rough(seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=SHAPE)


def run(body: str, **fields: Any) -> dict[str, Any]:
    """Run a body on float64 fields and return them; those not given are NaN."""
    names = "abc"
    header = f"def program({', '.join(f'{n}: Field[float64]' for n in names)}):\n"
    indented = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    arrays = {name: fields.get(name, np.full(SHAPE, np.nan)).copy() for name in names}
    stencil = he.stencil(header + indented, target="reference")
    used = {f.name for f in stencil.compiled.program.fields if f.read or f.written}
    stencil(**{name: array if name in used else None for name, array in arrays.items()})
    return arrays


def test_parallel_stores_when_the_value_is_complete() -> None:
    a = rough()
    got = run("with computation(PARALLEL), interval(1, 2):\n    a = a[0, 0, -1] + a", a=a)["a"]
    expected = a.copy()
    expected[:, :, 1] += a[:, :, 0]
    assert np.array_equal(got, expected)


def test_parallel_blocks_see_what_earlier_blocks_wrote() -> None:
    body = """
with computation(PARALLEL):
    with interval(0, 1):
        a = 5.0
    with interval(1, None):
        b = a[0, 0, -1]
"""
    a = rough()
    got = run(body, a=a)["b"]
    assert (got[:, :, 1] == 5.0).all()
    assert np.array_equal(got[:, :, 2:], a[:, :, 1:-1])


@pytest.mark.parametrize("order", ["FORWARD", "BACKWARD"])
def test_levels_see_what_visited_levels_hold(order: str) -> None:
    body = f"""
with computation({order}), interval(1, -1):
    a = a + 0.5 * a[0, 0, -1] - 0.25 * a[0, 0, 1]
    b = a
"""
    expected = rough()
    levels = range(1, SHAPE[2] - 1)
    for k in levels if order == "FORWARD" else reversed(levels):
        expected[:, :, k] = (
            expected[:, :, k] + 0.5 * expected[:, :, k - 1] - 0.25 * expected[:, :, k + 1]
        )
    got = run(body, a=rough())
    assert np.array_equal(got["a"], expected)
    assert np.array_equal(got["b"][:, :, 1:-1], expected[:, :, 1:-1])


def test_a_plane_is_complete_before_the_next_statement() -> None:
    """In a loop over levels each statement covers the plane, so neighbours are up to date."""
    body = """
with computation(FORWARD), interval(1, None):
    t = a[0, 0, -1] + a
    b = t[1, 0, 0] - t[-1, 0, 0]
"""
    a = rough()
    text = f"def p(a: Field[float64], b: Field[float64]):\n{_indent(body)}"
    b = np.full(SHAPE, np.nan)
    he.stencil(text, target="reference")(a, b, origin=(1, 0, 0))
    t = a[:, :, :-1] + a[:, :, 1:]
    assert np.array_equal(b[1:-1, :, 1:], t[2:] - t[:-2])
    assert np.isnan(b[:, :, 0]).all()


def _indent(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))


def test_the_condition_is_evaluated_once() -> None:
    body = """
with computation(PARALLEL), interval(...):
    if a > 0.0:
        a = -1.0
        b = 1.0
    else:
        a = 1.0
        b = 2.0
"""
    a = rough()
    got = run(body, a=a)
    assert np.array_equal(got["a"], np.where(a > 0.0, -1.0, 1.0))
    assert np.array_equal(got["b"], np.where(a > 0.0, 1.0, 2.0))


def test_masked_points_keep_their_values_and_do_not_trap() -> None:
    body = """
with computation(PARALLEL), interval(...):
    if a > 0.0:
        if a < 0.5:
            b = log(a) / c
"""
    a, b = rough(), rough(1)
    got = run(body, a=a, b=b, c=np.zeros(SHAPE))["b"]
    inside = (a > 0.0) & (a < 0.5)
    assert np.array_equal(got[~inside], b[~inside])
    assert np.isinf(got[inside]).all()
    assert inside.any()


def test_a_temporary_holds_zero_before_it_is_assigned() -> None:
    body = """
with computation(PARALLEL), interval(...):
    if a > 0.0:
        t = a
    b = t
"""
    a = rough()
    assert np.array_equal(run(body, a=a)["b"], np.maximum(a, 0.0))


def test_fields_in_a_wide_if_are_written_on_the_domain_only() -> None:
    text = """
def wide(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a
        if a > 0.0:
            t = 2.0 * a
            b = 1.0
        c = t[1, 0, 0] + t[0, -1, 0]
"""
    generator = np.random.default_rng(3)
    a = generator.normal(size=(7, 6, 2))
    b, c = np.full_like(a, np.nan), np.full_like(a, np.nan)
    he.stencil(text, target="reference")(a, b, c, origin=(2, 2, 0), domain=(3, 3, 2))
    inner = (slice(2, 5), slice(2, 5))
    assert np.array_equal(b[inner] == 1.0, a[inner] > 0.0)
    t = np.where(a > 0.0, 2.0 * a, a)
    assert np.array_equal(c[inner], t[3:6, 2:5] + t[2:5, 1:4])
    assert np.isnan(c).sum() == c.size - 18
    b[inner] = np.nan
    assert np.isnan(b).all()


def test_dependences_over_levels_and_neighbours() -> None:
    """Here one pass over the statements, as GT4Py makes it, gives a wrong halo."""
    text = """
def carried(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(PARALLEL), interval(...):
        u = a
    with computation(FORWARD), interval(1, None):
        t = u[0, 0, -1]
        b = t[1, 0, 0]
        u = c
"""
    a, c = rough(), rough(1)
    b = np.full(SHAPE, np.nan)
    he.stencil(text, target="reference")(a, b, c, domain=(3, 3, 6))
    u = a.copy()
    for k in range(1, SHAPE[2]):
        t = u[:, :, k - 1].copy()
        assert np.array_equal(b[:-1, :, k], t[1:])
        u[:, :, k] = c[:, :, k]


def test_the_artifact_travels() -> None:
    program = lower(
        parse(
            "def p(a: Field[float64]):\n    with computation(PARALLEL),"
            " interval(...):\n        a = 1.0\n"
        )
    )
    artifact = ReferenceArtifact(program)
    assert pickle.loads(pickle.dumps(artifact)) == artifact
    assert artifact.source.startswith("program p(a)\n")


@pytest.mark.parametrize("parts", [1, 2, 5, 13])
def test_the_same_bits_for_any_partition(parts: int) -> None:
    text = """
def mixed(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = exp(a[1, 0, 0]) * sin(40.0 * a) + a ** 1.7
        u = t[0, 1, 0] / (0.1 + tanh(t[-1, -1, 0]))
    with computation(FORWARD):
        with interval(0, 1):
            b = u
        with interval(1, None):
            b = 0.9 * b[0, 0, -1] + cos(u[0, 0, -1])
"""
    stencil = he.stencil(text, target="reference")
    a = np.random.default_rng(8).uniform(0.1, 3.0, (29, 14, 4))
    (i_low, i_high), (j_low, j_high), _ = stencil.extents["a"]
    origin = (-i_low, -j_low, 0)
    ni, nj = 29 + i_low - i_high, 14 + j_low - j_high
    whole = np.full_like(a, np.nan)
    stencil(a, whole, origin=origin, domain=(ni, nj, 4))
    pieces = np.full_like(a, np.nan)
    edges = np.linspace(0, ni, parts + 1).astype(int)
    for low, high in pairwise(edges.tolist()):
        at = (origin[0] + low, origin[1], 0)
        stencil(a, pieces, origin=at, domain=(high - low, nj, 4))
    assert whole.tobytes() == pieces.tobytes()
    assert np.isfinite(whole).sum() == ni * nj * 4


def test_a_conditional_writes_all_its_temporaries_as_far_as_the_widest_is_read() -> None:
    """One `If` has one extent, although `near` is read at the point itself only."""
    text = """
def branches(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        if a > 0.0:
            wide = a
        else:
            near = 2.0 * a
    with computation(PARALLEL), interval(...):
        b = wide[-1, 0, 0] + wide[1, 1, 0] + near
"""
    a = np.random.default_rng(3).normal(size=(7, 6, 2))
    b = np.full_like(a, np.nan)
    he.stencil(text, target="reference")(a, b, origin=(1, 0, 0), domain=(5, 5, 2))
    wide, near = np.maximum(a, 0.0), np.minimum(2.0 * a, 0.0)
    expected = wide[:-2, :-1] + wide[2:, 1:] + near[1:-1, :-1]
    np.testing.assert_array_equal(b[1:-1, :-1], expected)
