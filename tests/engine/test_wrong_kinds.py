"""Every keyword argument of every function, given what it is not: one of our errors, at once."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.datasets.formats.swc import read_swc

DOUBLED = """
def doubled(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * inp
"""
SHARED = ("target", "mode", "chunks", "cluster", "output", "on_event", "cancelled", "options")
BANDS: dict[str, Any] = {"lower": "inp", "diagonal": "own", "upper": "inp", "rhs": "inp"}
SCATTERED: dict[str, Any] = {"source": "s", "index": "i", "dim": "c", "size": 4}
LEVELS: dict[str, Any] = {"axis": {"centre": "x", "face": "xf"}, "heights": "h"}
TREES: dict[str, Any] = {
    "diagonal": "nodes",
    "upper": "nodes",
    "rhs": "nodes",
    "parent": "parent",
    "row_size": "count",
}


def data() -> xr.Dataset:
    random = np.random.default_rng(9)
    return xr.Dataset(
        {
            "inp": (("y", "x"), random.random((4, 6))),
            "own": (("y", "x"), random.random((4, 6)) + 5.0),
            "turned": (("x", "z"), random.random((6, 3))),
            "s": (("y", "p"), random.random((4, 2))),
            "i": ("p", np.array([1, 0])),
            "h": ("xf", np.arange(7.0)),
            "nodes": ("node", np.ones(3)),
            "parent": ("node", np.array([-1, 0, 1])),
            "count": ("cell", np.array([3]), {"sample_dimension": "node"}),
        }
    )


def weights() -> xr.Dataset:
    places = np.arange(1, 25)
    return xr.Dataset(
        {
            "row": ("n_s", places),
            "col": ("n_s", places),
            "S": ("n_s", np.ones(24)),
            "src_grid_dims": ("a", np.array([6, 4])),
            "dst_grid_dims": ("b", np.array([6, 4])),
        }
    )


class Call:
    """A function with arguments that have sense, and those that are given wrongly."""

    def __init__(
        self, function: Callable[..., object], wrong: str, /, *positional: Any, **named: Any
    ) -> None:
        self.function = partial(function, *positional)
        self.wrong = (*wrong.split(), *SHARED)
        self.named = {"target": "reference", **named}


CALLS = {
    "run": Call(
        he.run,
        "fields scalars externals dtypes stencil_name axes boundary steps feedback workspace",
        DOUBLED,
        data(),
    ),
    "tridiagonal": Call(
        he.tridiagonal,
        "lower diagonal upper rhs dim periodic pivoting residual name",
        data(),
        dim="x",
        **BANDS,
    ),
    "pentadiagonal": Call(
        he.pentadiagonal,
        "second_lower second_upper pivoting residual dim",
        data(),
        dim="x",
        second_lower="inp",
        second_upper="inp",
        **BANDS,
    ),
    "factor": Call(
        he.factor, "lower dim periodic", data(), lower="inp", diagonal="own", upper="inp", dim="x"
    ),
    "solve": Call(
        he.solve,
        "rhs name",
        data(),
        he.factor(data(), lower="inp", diagonal="own", upper="inp", dim="x", target="reference"),
        rhs="inp",
    ),
    "tree": Call(he.tree, "diagonal upper parent rhs row_size name", data(), **TREES),
    "gather": Call(
        he.gather,
        "source index dim name out_of_range negative fill plans",
        data(),
        source="inp",
        index="i",
        dim="x",
    ),
    "scatter": Call(
        he.scatter, "source index dim size name duplicates fill plans", data(), **SCATTERED
    ),
    "matmul": Call(he.matmul, "left right dim name", data(), left="inp", right="turned", dim="x"),
    "regrid": Call(
        he.regrid,
        "variables dims target_dims skipna na_thres plans",
        data()[["inp"]],
        weights(),
    ),
    "column": Call(
        he.column, "fields scalars axis heights boundary dtype name", "2.0 * inp", data(), **LEVELS
    ),
    "column_matrix": Call(he.column_matrix, "of", "2.0 * inp", data(), of="inp", **LEVELS),
}
#: What no argument is.
NOTHING: dict[str, Any] = {
    "float": 2.5,
    "not a number": float("nan"),
    "bytes": b"x",
    "object": object(),
    "array": np.array([1, 2]),
    "dataset": data(),
    "variable": data()["inp"],
    "complex": 1j,
    "none of a list": [None],
    "names by number": {1: 2},
    "slice": slice(2),
}
#: Where one of these has sense after all.
MEANT = {
    ("fill", "float"),
    ("fill", "not a number"),
    *((name, "dataset") for name in ("externals", "dtypes")),
}


@pytest.mark.parametrize("kind", NOTHING)
@pytest.mark.parametrize("call", CALLS)
def test_what_has_no_sense_is_refused(call: str, kind: str, tmp_path: Path) -> None:
    given = CALLS[call]
    for argument in given.wrong:
        if (argument, kind) in MEANT:
            continue
        with pytest.raises(he.HaloclineError):
            given.function(**{**given.named, argument: NOTHING[kind]})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "argument", "value", "message"),
    [
        (
            "regrid",
            "variables",
            "inp",
            "Argument 'variables' must be a list of names, got the str 'inp'. Write for example"
            " variables=['t', 'u'].",
        ),
        (
            "solve",
            "rhs",
            3,
            "Argument 'rhs' must be a list of names, got the int 3. Write for example rhs='b', or"
            " several: rhs=['b', 'c'].",
        ),
        (
            "tridiagonal",
            "lower",
            None,
            "Argument 'lower' must be the name of a variable, got the NoneType None. Give the"
            " name of a variable: lower='...'.",
        ),
        (
            "tridiagonal",
            "periodic",
            "no",
            "Argument 'periodic' must be True or False, got the str 'no'. Write periodic=True,"
            " or leave it out.",
        ),
        (
            "scatter",
            "size",
            2.5,
            "Argument 'size' must be a whole number from 0, got 2.5. Write for example size=10.",
        ),
        (
            "scatter",
            "dim",
            "",
            "Argument 'dim' must be the name of a dimension, got ''. Name one of the source.",
        ),
        (
            "gather",
            "fill",
            "nan",
            "Argument 'fill' must be a value of type 'float64', got the str 'nan'. Convert it,"
            " or leave it out.",
        ),
        (
            "gather",
            "plans",
            {},
            "Argument 'plans' must be a PlanCache, got the dict. Leave it out, or keep one for"
            " several calls: plans=PlanCache().",
        ),
        (
            "run",
            "on_event",
            True,
            "Argument 'on_event' must be a function, got the bool True. Leave it out.",
        ),
        (
            "matmul",
            "options",
            {"memory": 3},
            "Argument 'options' must be Options, got the dict {'memory': 3}. Write for example"
            " options=Options(memory_limit=2**30).",
        ),
        (
            "regrid",
            "na_thres",
            "half",
            "Argument 'na_thres' must be a number from 0 to 1, got the str 'half'. Write for"
            " example na_thres=0.5.",
        ),
        (
            "column",
            "heights",
            3,
            "Argument 'heights' must be the name of a variable of heights, got the int 3. Write"
            " it as text, in quotes.",
        ),
    ],
)
def test_what_is_said(call: str, argument: str, value: Any, message: str) -> None:
    given = CALLS[call]
    with pytest.raises(he.ArgumentError) as caught:
        given.function(**{**given.named, argument: value})
    assert str(caught.value) == message


def test_options_are_true_or_false() -> None:
    with pytest.raises(he.ArgumentError) as caught:
        he.Options(compressed="no")  # pyright: ignore[reportArgumentType] - that is the point
    assert str(caught.value) == "Option 'compressed' must be True or False, got 'no'. Leave it out."


def test_numbers_and_flags_of_numpy() -> None:
    whole: Any = np.int64(2)
    options = he.Options(memory_limit=np.int64(2**30))  # pyright: ignore[reportArgumentType]
    result = he.run(
        DOUBLED, data(), steps=whole, feedback={"out": "inp"}, target="cpu", options=options
    )
    np.testing.assert_array_equal(result["out"], 4.0 * data()["inp"])
    solved: Any = CALLS["tridiagonal"].function(
        **CALLS["tridiagonal"].named | {"periodic": np.True_}
    )
    assert solved["solution"].dims == ("y", "x")


def test_options_may_be_none() -> None:
    assert "out" in he.run(DOUBLED, data(), target="reference", options=None)


def test_objects_are_not_moved() -> None:
    texts = data().assign(t=("x", np.array(list("abcdef"), object)))
    with pytest.raises(he.FieldError) as caught:
        he.gather(texts, source="t", index="i", dim="x", target="cpu")
    assert str(caught.value) == (
        "Variable 't' has values of type 'object', which differ in size. Convert texts with"
        " astype('U'), or other objects to numbers."
    )
    same = texts.assign(t=texts["t"].astype("U1"))
    found = he.gather(same, source="t", index="i", dim="x", target="cpu")
    assert found["gathered"].values.tolist() == ["b", "a"]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_calls_on_arrays(target: str) -> None:
    made: Any = he.stencil(DOUBLED, target=target)
    arrays = {"inp": np.ones((4, 5, 6)), "out": np.zeros((4, 5, 6))}
    for wrong in (2.5, float("nan"), "x", np.array([3]), object(), slice(2), (1.0, 0, 0), {1: 0}):
        with pytest.raises(he.ArgumentError, match="origin"):
            made(**arrays, origin=wrong)
        with pytest.raises(he.ArgumentError, match="domain"):
            made(**arrays, domain=wrong)
        with pytest.raises(he.ArgumentError, match="'steps'"):
            made.repeat(wrong, **arrays, feedback={"out": "inp"})
        if not isinstance(wrong, dict):
            with pytest.raises(he.ArgumentError, match="'feedback'"):
                made.repeat(2, **arrays, feedback=wrong)
        if not isinstance(wrong, str):
            with pytest.raises(he.ArgumentError, match="'stage'"):
                made.show(wrong)
    made(**arrays, origin=np.int64(1))
    assert (arrays["out"][:, :, 1:] == 2.0).all()
    assert (arrays["out"][:, :, 0] == 0.0).all()


def test_messages_of_calls_on_arrays() -> None:
    made: Any = he.stencil(DOUBLED, target="reference")
    arrays = {"inp": np.ones((4, 5, 6)), "out": np.zeros((4, 5, 6))}
    with pytest.raises(he.ArgumentError) as caught:
        made(**arrays, domain=3)
    assert str(caught.value) == (
        "The domain must be 3 whole numbers that are not negative, but is 3. It is the number of"
        " points along I, J and K."
    )
    scaled = DOUBLED.replace("out: Field[float]", "out: Field[float], c: float").replace("2.0", "c")
    with pytest.raises(he.ArgumentError) as caught:
        he.run(scaled, data(), scalars={"c": 10**400}, target="reference")
    assert str(caught.value) == (
        "Scalar 'c' is 100000000000000000...0000000000000000000, which does not fit into a"
        " 'float64'. Give a number with fewer digits, or float(...), which rounds it."
    )


@pytest.mark.parametrize("most", [None, -1, 2.5, "all", b"x"])
def test_a_plan_cache_is_of_a_size(most: Any) -> None:
    with pytest.raises(he.ArgumentError, match="'most' must be a whole number from 0"):
        he.PlanCache(most)


@pytest.mark.parametrize("paths", [None, 3, b"a.swc", [None]])
def test_morphologies_are_in_files(paths: Any) -> None:
    with pytest.raises(he.ArgumentError) as caught:
        read_swc(paths)
    assert str(caught.value) == (
        f"Argument 'paths' must be a path or a list of paths, got the {type(paths).__name__}."
        " Write for example paths=['a.swc', 'b.swc']."
    )


def test_numbers_that_are_far_too_large() -> None:
    text = DOUBLED.replace("    with", "    from __externals__ import E\n    with", 1)
    with pytest.raises(he.HaloclineError):
        he.run(text.replace("2.0", "E"), data(), externals={"E": 10**400}, target="cpu")
    given = CALLS["regrid"]
    for wrong in (10**400, -(10**400)):
        with pytest.raises(he.ArgumentError, match="from 0 to 1"):
            given.function(**{**given.named, "na_thres": wrong})
    with pytest.raises(he.ArgumentError, match="must be a list of names"):
        given.function(**{**given.named, "variables": np.array(3)})
