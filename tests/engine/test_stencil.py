"""`he.stencil` on arrays, on every target."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import halocline_engine as he
from halocline_engine.backends.cuda.build import CudaArtifact

CROSS = """
def cross(a: Field[float64], b: Field[float64], c: float):
    with computation(PARALLEL), interval(...):
        t = a[1, 0, 0] - a[-1, 0, 0]
        b = (t[0, 1, 0] - t[0, -1, 0]) * c
"""
SHAPE = (9, 8, 5)


def crossed(a: Any, c: float) -> Any:
    t = a[2:] - a[:-2]
    return (t[:, 2:] - t[:, :-2]) * c


def rough(shape: tuple[int, ...] = SHAPE) -> Any:
    return np.random.default_rng(7).normal(0.0, 100.0, shape)


def strided(array: Any, how: str) -> Any:
    """Return an array of the same values with other strides."""
    if how == "fortran":
        return np.asfortranarray(array)
    if how == "transposed":
        return np.ascontiguousarray(array.transpose(1, 2, 0)).transpose(2, 0, 1)
    if how == "reversed":
        return np.ascontiguousarray(array[::-1, :, ::-1])[::-1, :, ::-1]
    if how == "every second":
        wide = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
        wide[::2, ::2, ::2] = array
        return wide[::2, ::2, ::2]
    return array.copy()


@pytest.mark.parametrize("how", ["c", "fortran", "transposed", "reversed", "every second"])
def test_any_strides(run_stencil: Any, how: str) -> None:
    a = strided(rough(), how)
    b = strided(np.full(SHAPE, np.nan), how)
    run_stencil(CROSS, a, b, 2.5, origin=(1, 1, 0))
    assert np.array_equal(b[1:-1, 1:-1], crossed(a, 2.5))
    assert np.isnan(b).sum() == b.size - 7 * 6 * 5


def test_each_field_has_its_own_origin(run_stencil: Any) -> None:
    a, b = rough(), np.full((4, 6, 9), np.nan)
    run_stencil(CROSS, a, b, c=1.0, origin={"a": (2, 1, 1), "b": (0, 3, 5)}, domain=(4, 3, 4))
    assert np.array_equal(b[:, 3:, 5:], crossed(a, 1.0)[1:5, :3, 1:])
    assert np.isnan(b[:, :3]).all()
    assert np.isnan(b[:, :, :5]).all()


def test_origin_from_the_array(run_stencil: Any) -> None:
    class Halo(np.ndarray):
        __gt_origin__ = (1, 1, 0)

    a = rough()
    b = np.full(SHAPE, np.nan).view(Halo)
    run_stencil(CROSS, a.view(Halo), b, 1.0)
    assert np.array_equal(np.asarray(b)[1:-1, 1:-1], crossed(a, 1.0))


def test_dimensions_named_by_the_array(run_stencil: Any) -> None:
    class Levels(np.ndarray):
        __gt_dims__ = ("K", "J", "I")
        __gt_origin__ = (0, 1, 1)

    a, b = rough(), np.full(SHAPE, np.nan)
    b = np.ascontiguousarray(b.T).view(Levels)
    run_stencil(CROSS, np.ascontiguousarray(a.T).view(Levels), b, 1.0)
    assert np.array_equal(np.asarray(b).T[1:-1, 1:-1], crossed(a, 1.0))


def test_lower_dimensional_fields(run_stencil: Any) -> None:
    text = """
def lower(q: Field[float64], s: Field[IJ, float64], w: Field[K, float64], u: Field[I, float64],
          v: Field[J, float64], z: Field[IK, float64], out: Field[float64]):
    with computation(PARALLEL), interval(...):
        out = q * s[1, 0] + w + u[1] * v[-1] + z
"""
    generator = np.random.default_rng(3)
    ni, nj, nk = 5, 4, 6
    q, out = generator.normal(size=(ni, nj, nk)), np.full((ni, nj, nk), np.nan)
    s, w = generator.normal(size=(ni, nj)), generator.normal(size=nk)
    u, v, z = (generator.normal(size=n) for n in (ni, nj, (ni, nk)))
    run_stencil(text, q, s, w, u, v, z, out, origin=(0, 1, 0), domain=(ni - 1, nj - 1, nk))
    expected = (
        q[:-1, 1:] * s[1:, 1:, None]
        + w
        + (u[1:, None] * v[None, :-1])[:, :, None]
        + z[:-1, None, :]
    )
    assert np.array_equal(out[:-1, 1:], expected)
    assert np.isnan(out[-1]).all()
    assert np.isnan(out[:, 0]).all()


def test_written_plane_keeps_its_value_from_level_to_level(run_stencil: Any) -> None:
    text = """
def column_sum(q: Field[float64], s: Field[IJ, float64]):
    with computation(FORWARD):
        with interval(0, 1):
            s = q
        with interval(1, None):
            s += q
"""
    q, s = rough(), np.full(SHAPE[:2], np.nan)
    run_stencil(text, q, s)
    expected = q[:, :, 0].copy()
    for level in range(1, SHAPE[2]):
        expected += q[:, :, level]
    assert np.array_equal(s, expected)


def test_extents_are_signed() -> None:
    text = """
def shifted(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(1, None):
        t = a[-2, 0, -1]
        b = t[0, 1, 0]
"""
    stencil = he.stencil(text, target="reference")
    assert stencil.extents == {
        "a": ((-2, 0), (0, 1), (0, -1)),
        "b": ((0, 0), (0, 0), (1, 0)),
    }


def test_empty_domain_changes_nothing(run_stencil: Any) -> None:
    a, b = rough(), np.full(SHAPE, np.nan)
    run_stencil(CROSS, a, b, 1.0, origin=(1, 1, 0), domain=(0, 6, 5))
    assert np.isnan(b).all()


def test_one_array_for_two_fields_at_the_centre(run_stencil: Any) -> None:
    text = """
def double(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = 2.0 * a
"""
    a = rough()
    expected = 2.0 * a
    run_stencil(text, a, a)
    assert np.array_equal(a, expected)


def test_a_stencil_travels(target: str) -> None:
    stencil = he.stencil(CROSS, target=target)
    a, b = rough(), np.full(SHAPE, np.nan)
    stencil(a, b, 1.0, origin=(1, 1, 0))
    other = pickle.loads(pickle.dumps(stencil))
    c = np.full(SHAPE, np.nan)
    other(a, c, 1.0, origin=(1, 1, 0))
    assert np.array_equal(b, c, equal_nan=True)
    assert other.compiled == stencil.compiled
    assert other.target == target


def test_show() -> None:
    stencil = he.stencil(CROSS, target="reference")
    assert stencil.name == "cross"
    assert repr(stencil) == "<halocline stencil cross(a, b, c) on reference>"
    assert stencil.show("ir") == stencil.source
    assert "temporary t: float64" in stencil.show("ir")
    assert stencil.show("schedule").startswith("schedule cross\n")
    assert stencil.show("kernel") == stencil.source
    with pytest.raises(he.ArgumentError) as caught:
        stencil.show("assembly")  # pyright: ignore[reportArgumentType]
    assert str(caught.value) == "Stage 'assembly' is unknown. Use 'ir', 'schedule' or 'kernel'."


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"tune": "always"},
            "Argument 'tune' is 'always', which is unknown. Use 'off', 'cached' or 'measure'.",
        ),
        (
            {"tune_seconds": 0.0},
            "The seconds for tuning must be above 0 and at most 3600, got 0.0.",
        ),
    ],
)
def test_tuning_takes_modes_and_seconds_that_make_sense(
    wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(he.ArgumentError) as caught:
        he.stencil(CROSS, target="reference", **wrong)
    assert str(caught.value) == message


def test_tuning_is_for_cuda() -> None:
    stencil = he.stencil(CROSS, target="reference", tune="measure")
    with pytest.raises(he.ArgumentError) as caught:
        stencil.tune(rough(), rough(), 1.0, origin=(1, 1, 0))
    assert str(caught.value) == (
        "The target 'reference' is not tuned. Only 'cuda' is; leave it out."
    )
    artifact = he.stencil(CROSS, target="cuda", tune="measure", tune_seconds=3.0).compiled.artifact
    assert isinstance(artifact, CudaArtifact)
    assert (artifact.tune, artifact.seconds) == ("measure", 3.0)
    cuda = he.stencil(CROSS, target="cuda", tune="off")
    assert cuda.show("schedule").startswith(
        stencil.show("schedule") + "tiles are chosen when it is called, by the cost model\n"
    )
    usual = he.stencil(CROSS, target="cuda").compiled.artifact
    assert isinstance(usual, CudaArtifact)
    assert usual.tune == "cached"


def test_program_errors_show_the_line() -> None:
    text = """
def wrong(a: Field[float64]):
    with computation(PARALLEL), interval(...):
        a = a[1, 0, 0]
"""
    with pytest.raises(he.DependenceError) as caught:
        he.stencil(text, target="reference")
    assert str(caught.value) == (
        "line 4, column 9: 'a' is assigned from its own neighbour at the offset (1, 0, 0).\n"
        "        a = a[1, 0, 0]\n"
        "        ^\n"
        "Assign to another name, so that every point reads old values."
    )


def test_the_public_names_are_sorted_and_exist() -> None:
    assert he.__all__ == sorted(he.__all__)
    assert all(hasattr(he, name) for name in he.__all__)
    assert {*he.__all__} <= {*dir(he)}
    with pytest.raises(
        AttributeError,
        match=r"^module 'halocline_engine' has no attribute 'runs'\. Did you mean 'run'\?$",
    ):
        getattr(he, "runs")  # noqa: B009 - what is tested


def test_functions_are_loaded_on_first_use() -> None:
    script = """
import sys
import halocline_engine as he
assert "run" in dir(he) and "tridiagonal" in dir(he)
assert not {"xarray", "numba", "dask", "cupy"} & set(sys.modules)
from halocline_engine import run
assert run is he.run and callable(run)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
