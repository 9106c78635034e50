"""Loops, levels that only a run knows, data dimensions and tables: against plain NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.errors import FieldError, LimitError
from halocline_engine.language.limits import LIMITS

Array = NDArray[Any]
NI, NJ, NK = 5, 4, 6
TARGETS = ("reference", "cpu")
TEXT = """
from physics import unused
from halocline.gtscript import THIS_K

SHALLOW = 1
PLUMES = 3
Flags = Field[IJ, (np.int64, (PLUMES))]
Plumes = Field[IJK, (np.float64, (int(PLUMES)))]
Cube = GlobalTable[(np.float64, (3, 4, 5))]
Line = GlobalTable[(np.float64, (6))]


def highest(q: Field[np.float64], flag: Flags, most: Field[IJ, np.int64], level: Flags, plume: int):
    with computation(FORWARD), interval(0, 1):
        level[0, 0][plume] = 0
        if plume == SHALLOW:
            first: Field[IJ, np.int64] = 0
        else:
            first: Field[IJ, np.int64] = 1
        if flag[0, 0][plume] == 0:
            at = first
            while at <= most:
                if q.at(K=at) > q.at(K=max(first, level[0, 0][plume])):
                    level[0, 0][plume] = at
                at += 1


def tables(i: Field[np.int64], j: Field[np.int64], t: Cube, u: Line, out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = t.A[i, j, 2] * u.A[j] + t.A[1, j, i] + u.A[3]


@gtscript.function
def step(field, n):
    return field.at(K=n) - field.at(K=max(0, n - 1))


def levels(q: Plumes, p: Field[np.float64], n: Field[IJ, np.int64], out: Field[np.float64], k: int):
    with computation(PARALLEL), interval(...):
        out = step(p, n) + step(field=p, n=2) + q.at(K=n, ddim=[k]) - p[0, 0, n - THIS_K]


def interfaces(a: Field[np.float64], z: Field[np.float64], n: int):
    with computation(FORWARD), interval(...):
        z[0, 0, 1] = z + a
        if a > 0.5:
            z[0, 0, n] = -1.0


def summed(q: Field[np.float64], out: Field[np.float64]):
    with computation(FORWARD), interval(...):
        s = 0.0
        at = 0
        while at <= K:
            s += q.at(K=at)
            at += 1
        out = s


def endless(q: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        x = q
        while x < 1.0e30:
            x = x * 1.0
        out = x


def bounds(q: Field[np.float64], low: Field[IJ, np.int64], n: int):
    with computation(PARALLEL), interval(low, n):
        q = -1.0
    with computation(FORWARD), interval(0, low):
        q = 7.0


def named(q: Field[(np.float64, (3,))], r: Field[(np.float64, (3,))], n: int):
    with computation(PARALLEL), interval(...):
        q = 0.5 * q + q[0, 0, 0][2]
        r = r - q[0, 0, 0][n]


def matrices(
    m: Field[(np.float64, (2, 3))],
    v: Field[(np.float64, (3,))],
    o: Field[(np.float64, (2,))],
    r: Field[(np.float64, (3,))],
):
    t: Field[(np.float64, (2,))] = 1
    with computation(PARALLEL), interval(...):
        o = m @ v + t
        t[0, 0, 0][1] = 2.0
        r = m.T @ o * 2.0 + t.A[1]
"""


def random(*shape: int, below: int = 0, seed: int = 1) -> Array:
    generator = np.random.default_rng(seed)
    return generator.integers(0, below, shape) if below else generator.normal(size=shape)


def empty(*shape: int) -> Array:
    return np.full(shape, np.nan)


def at(q: Array, level: Array | int) -> Array:
    """Return the levels of columns, the last axis, that are nearest to those asked for."""
    index = np.clip(np.broadcast_to(level, q.shape), 0, q.shape[-1] - 1)
    return np.take_along_axis(q, index, -1)


def called(
    name: str, target: str, arguments: Mapping[str, Any], order: str = "F"
) -> dict[str, Any]:
    """Call a stencil on copies of arrays, and return those."""
    lay: Any = np.asfortranarray if order == "F" else np.ascontiguousarray
    own = {
        key: lay(value.copy()) if isinstance(value, np.ndarray) else value
        for key, value in arguments.items()
    }
    he.stencil(TEXT, stencil_name=name, target=target)(**own, domain=(NI, NJ, NK))
    return own


def expected_levels(q: Array, flag: Array, most: Array, first: int, plume: int) -> Array:
    found = np.zeros((NI, NJ), np.int64)
    for i, j in np.ndindex(NI, NJ):
        for k in range(first, most[i, j] + 1) if flag[i, j, plume] == 0 else ():
            if q[i, j, k] > q[i, j, max(first, found[i, j])]:
                found[i, j] = k
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("plume", [1, 2])
def test_a_loop_finds_the_level_of_a_maximum(target: str, plume: int) -> None:
    q, flag = random(NI, NJ, NK), np.zeros((NI, NJ, 3), np.int64)
    flag[0] = 1
    most, level = np.full((NI, NJ), 4), np.full((NI, NJ, 3), -5)
    own = called(
        "highest", target, {"q": q, "flag": flag, "most": most, "level": level, "plume": plume}
    )
    level[:, :, plume] = expected_levels(q, flag, most, 0 if plume == 1 else 1, plume)
    np.testing.assert_array_equal(own["level"], level)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("order", ["F", "C"])
def test_elements_of_tables_are_looked_up(target: str, order: str) -> None:
    i, j = random(NI, NJ, NK, below=3), random(NI, NJ, NK, below=4, seed=2)
    t, u = random(3, 4, 5), random(6, seed=3)
    given = {"i": i, "j": j, "t": t, "u": u, "out": empty(NI, NJ, NK)}
    own = called("tables", target, given, order)
    np.testing.assert_array_equal(own["out"], t[i, j, 2] * u[j] + t[1, j, i] + u[3])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("order", ["F", "C"])
def test_levels_are_looked_up_and_components_chosen(target: str, order: str) -> None:
    q, p, n = random(NI, NJ, NK, 3), random(NI, NJ, NK, seed=2), random(NI, NJ, below=9) - 1
    given = {"q": q, "p": p, "n": n, "out": empty(NI, NJ, NK), "k": 2}
    own = called("levels", target, given, order)
    column = n[:, :, None]
    steps = at(p, column) - at(p, np.maximum(0, column - 1)) + (at(p, 2) - at(p, 1))
    np.testing.assert_array_equal(own["out"], steps + at(q[..., 2], column) - at(p, column))


@pytest.mark.parametrize("target", TARGETS)
def test_levels_ahead_are_assigned_where_the_array_has_them(target: str) -> None:
    a, z = random(NI, NJ, NK), random(NI, NJ, NK + 1, seed=2)
    own = called("interfaces", target, {"a": a, "z": z, "n": 2})
    for k in range(NK):
        z[:, :, k + 1] = z[:, :, k] + a[:, :, k]
        if k + 2 <= NK:
            z[:, :, k + 2] = np.where(a[:, :, k] > 0.5, -1.0, z[:, :, k + 2])
    np.testing.assert_array_equal(own["z"], z)


@pytest.mark.parametrize("target", TARGETS)
def test_loops_of_other_lengths_on_each_level(target: str) -> None:
    q = random(NI, NJ, NK)
    own = called("summed", target, {"q": q, "out": empty(NI, NJ, NK)})
    np.testing.assert_allclose(own["out"], np.cumsum(q, 2), rtol=0, atol=1e-13)


@pytest.mark.parametrize("target", TARGETS)
def test_intervals_end_where_a_run_says(target: str) -> None:
    q, low, k = random(NI, NJ, NK), random(NI, NJ, below=NK), np.arange(NK)
    own = called("bounds", target, {"q": q, "low": low, "n": 4})
    expected = np.where(k < low[:, :, None], 7.0, np.where(k < 4, -1.0, q))
    np.testing.assert_array_equal(own["q"], expected)


@pytest.mark.parametrize("target", TARGETS)
def test_a_component_that_is_named_is_the_same_for_all(target: str) -> None:
    q, r = random(NI, NJ, NK, 3), random(NI, NJ, NK, 3, seed=2)
    own = called("named", target, {"q": q, "r": r, "n": 1})
    expected = 0.5 * q + q[..., 2:]
    np.testing.assert_array_equal(own["q"], expected)
    np.testing.assert_array_equal(own["r"], r - expected[..., 1:2])


@pytest.mark.parametrize("target", TARGETS)
def test_products_of_matrices(target: str) -> None:
    m, v = random(NI, NJ, NK, 2, 3), random(NI, NJ, NK, 3, seed=2)
    given = {"m": m, "v": v, "o": empty(NI, NJ, NK, 2), "r": empty(NI, NJ, NK, 3)}
    own = called("matrices", target, given)
    product = np.einsum("...ij,...j", m, v) + 1.0
    np.testing.assert_allclose(own["o"], product, rtol=0, atol=1e-13)
    transposed = np.einsum("...ij,...i", m, product) * 2.0 + 2.0
    np.testing.assert_allclose(own["r"], transposed, rtol=0, atol=1e-13)


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_that_does_not_end_is_an_error_with_its_place(target: str) -> None:
    with pytest.raises(LimitError) as caught:
        called("endless", target, {"q": np.zeros((NI, NJ, NK)), "out": empty(NI, NJ, NK)})
    assert caught.value.message == (
        f"A 'while' was not over after {LIMITS.turns} turns at a point."
    )
    line = next(n for n, text in enumerate(TEXT.split("\n"), 1) if "1.0e30" in text)
    assert (caught.value.line, caught.value.column) == (line, 9)


def test_wrong_shapes_are_refused() -> None:
    q, n = random(NI, NJ, NK, 4), random(NI, NJ, below=3)
    given: dict[str, Any] = {"p": random(NI, NJ, NK), "n": n, "out": empty(NI, NJ, NK), "k": 1}
    for wrong, got in (
        (q, "ndarray of the shape (5, 4, 6, 4)."),
        (q[..., 0], "ndarray of the shape (5, 4, 6)."),
        (None, "None."),
    ):
        with pytest.raises(FieldError) as caught:
            called("levels", "reference", {"q": wrong, **given})
        assert caught.value.message == (
            f"Field 'q' must be an array of the shape (I, J, K, 3), but got {got}"
        )
    i = random(NI, NJ, NK, below=3)
    out = empty(NI, NJ, NK)
    with pytest.raises(FieldError) as caught:
        called(
            "tables", "reference", {"i": i, "j": i, "t": random(3, 4), "u": random(6), "out": out}
        )
    assert caught.value.message == (
        "'t' must be an array of the shape (3, 4, 5), but got ndarray of the shape (3, 4)."
    )


def dataset() -> xr.Dataset:
    sizes = {"z": NK, "y": 7, "x": 9, "plume": 3, "a": 3, "b": 4, "c": 5, "d": 6}

    def variable(*dims: str, below: int = 0, seed: int = 1) -> tuple[tuple[str, ...], Array]:
        return dims, random(*(sizes[dim] for dim in dims), below=below, seed=seed)

    return xr.Dataset(
        {
            "q": variable("plume", "z", "y", "x"),
            "p": variable("z", "y", "x", seed=2),
            "n": variable("y", "x", below=NK),
            "i": variable("z", "y", "x", below=3),
            "j": variable("z", "y", "x", below=4, seed=5),
            "t": variable("a", "b", "c"),
            "u": variable("d"),
        }
    )


AXES = {"I": "x", "J": "y", "K": "z"}


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_of_datasets_give_the_same_bits(target: str, tmp_path: Path) -> None:
    """Components come from a dimension of a variable, tables from one that no block cuts."""
    source = dataset()
    cast(Any, source).to_zarr(tmp_path / "in.zarr", zarr_format=2)
    found: dict[str, list[Array]] = {"levels": [], "tables": []}
    for given in (source, tmp_path / "in.zarr"):
        for chunks in ({}, {"x": 4, "y": 3}):
            for name, scalars in (("levels", {"k": 1}), ("tables", {})):
                result = he.run(
                    TEXT,
                    given,
                    stencil_name=name,
                    scalars=scalars,
                    axes=AXES,
                    chunks=chunks,
                    target=target,
                )
                found[name].append(result["out"].transpose("x", "y", "z").values)
    q, p, n, i, j, t, u = (
        source[name].transpose(..., *(d for d in "xyz" if d in source[name].dims)).values
        for name in "qpnijtu"
    )
    column = n[:, :, None]
    steps = at(p, column) - at(p, np.maximum(0, column - 1)) + (at(p, 2) - at(p, 1))
    expected = {
        "levels": steps + at(q[1], column) - at(p, column),
        "tables": t[i, j, 2] * u[j] + t[1, j, i] + u[3],
    }
    for name, several in found.items():
        for one in several:
            np.testing.assert_array_equal(one, expected[name], err_msg=name)


def test_components_are_variables_of_the_result() -> None:
    source = dataset().rename(p="most")
    source["most"] = ("y", "x"), np.full((7, 9), 4)
    source["flag"] = ("y", "x", "plume"), np.zeros((7, 9, 3), np.int64)
    source["level"] = ("y", "x", "plume"), np.full((7, 9, 3), -5)
    source["q"] = source["q"].isel(plume=0)
    results = [
        he.run(TEXT, source, stencil_name="highest", scalars={"plume": 2}, axes=AXES, chunks=chunks)
        for chunks in ({}, {"x": 4})
    ]
    assert {*results[0]} == {"level.0", "level.1", "level.2"}
    for name in results[0]:
        np.testing.assert_array_equal(results[0][name].values, results[1][name].values)
    assert (results[0]["level.1"] == -5).all()
    assert (results[0]["level.2"] >= 0).all()


def test_datasets_without_such_dimensions_are_refused() -> None:
    source = dataset()
    with pytest.raises(FieldError) as caught:
        he.run(TEXT, source.isel(plume=[0, 1]), stencil_name="levels", scalars={"k": 1}, axes=AXES)
    assert caught.value.message == (
        "Field 'q' has data dimensions of the sizes (3,), but variable 'q' has"
        " {'plume': 2, 'z': 6, 'y': 7, 'x': 9}."
    )
    with pytest.raises(FieldError) as caught:
        he.run(TEXT, source.drop_vars("t"), stencil_name="tables", axes=AXES)
    assert caught.value.message == "Table 't' is read, but the dataset has no variable 't'."
    with pytest.raises(FieldError) as caught:
        he.run(TEXT, source.isel(a=[0]), stencil_name="tables", axes=AXES)
    assert caught.value.message == (
        "Table 't' must be 'float64' of the shape (3, 4, 5), but variable 't' is 'float64' of the"
        " shape (1, 4, 5)."
    )


@pytest.mark.parametrize("order", ["PARALLEL", "FORWARD", "BACKWARD"])
@pytest.mark.parametrize(
    ("guarded", "last"),
    [
        ("if K == k_end:\n            o = t\n        else:\n            o = t[0, 0, 1]", True),
        ("o = t if K == k_end else t[0, 0, 1]", True),
        ("if K > 0:\n            o = t[0, 0, -1]\n        else:\n            o = t", False),
    ],
)
def test_a_condition_may_guard_reads_beyond_the_levels_of_a_temporary(
    guarded: str, last: bool, order: str
) -> None:
    text = f"""
def f(a: Field[float], o: Field[float], k_end: int):
    with computation({order}), interval(...):
        t = 2.0 * a
    with computation({order}), interval(...):
        {guarded}
"""
    a = np.random.default_rng(0).random((3, 2, 5))
    parts = [a[:, :, 1:], a[:, :, -1:]] if last else [a[:, :, :1], a[:, :, :-1]]
    for target in ("reference", "cpu"):
        o = np.zeros_like(a)
        he.stencil(text, target=target)(a, o, k_end=4)
        np.testing.assert_array_equal(o, 2.0 * np.concatenate(parts, 2))
