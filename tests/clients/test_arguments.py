"""Arguments of another kind are told with what was expected, what was got, and an example."""

from __future__ import annotations

import inspect
from typing import Any, cast

import httpx2
import numpy as np
import pytest
import xarray as xr

from halocline.client import Client
from halocline.errors import ArgumentError
from halocline.inputs import arguments

PROGRAM = """
def f(a: Field[np.float64], b: Field[np.float64], s: float):
    with computation(PARALLEL), interval(...):
        b = a * s
"""
DATASET = xr.Dataset({"a": ("x", [1.0])})


def nothing(request: httpx2.Request) -> httpx2.Response:
    raise AssertionError(f"{request.method} {request.url} was sent")


@pytest.fixture
def client() -> Any:
    return Client("http://localhost", transport=httpx2.MockTransport(nothing))


MAPPINGS: list[tuple[str, object, str]] = [
    ("boundary", "periodic", "a mapping, got 'str' 'periodic'"),
    ("chunks", 100, "a mapping, got 'int' 100"),
    ("scalars", 0.2, "a mapping, got 'float' 0.2"),
    ("fields", "t", "a mapping, got 'str' 't'"),
    ("fields", ["t"], "a mapping, got 'list' ['t']"),
    ("fields", {"t": 1}, "a mapping with a name for 't', got 'int' 1"),
    ("fields", {1: "t"}, "a mapping from names, got 'int' 1"),
    ("externals", 2, "a mapping, got 'int' 2"),
    ("dtypes", np.float32, "a mapping, got 'type' <class 'numpy.float32'>"),
    ("axes", ("lon", "lat"), "a mapping, got 'tuple' ('lon', 'lat')"),
    ("feedback", "smoothed", "a mapping, got 'str' 'smoothed'"),
    ("feedback", {"smoothed": None}, "a mapping with a name for 'smoothed', got nothing"),
    ("boundary", {"x": 5}, "a mapping with a rule for 'x', got 'int' 5"),
    ("boundary", {"x": ["edge"]}, "a mapping with a rule for 'x', got 'list' ['edge']"),
    ("steps", "5", "a whole number, got 'str' '5'"),
    ("steps", 2.5, "a whole number, got 'float' 2.5"),
    ("snapshot_every", "10", "a whole number, got 'str' '10'"),
    ("target", 5, "text, got 'int' 5"),
]


@pytest.mark.parametrize(("name", "value", "told"), MAPPINGS)
def test_of_stencil(client: Any, name: str, value: object, told: str) -> None:
    with pytest.raises(ArgumentError) as error:
        client.stencil(PROGRAM, DATASET, **{name: value})
    assert error.value.message == f"Argument '{name}' must be {told}."
    if name != "target":
        assert error.value.hint.startswith(f"Write for example {name}=")


OTHERS: list[tuple[str, dict[str, Any], str]] = [
    ("column", {"axis": 5}, "'axis' must be a mapping, got 'int' 5"),
    ("regrid", {"dims": "lat"}, "'dims' must be a list of names, got 'str' 'lat'"),
    ("regrid", {"na_thres": "1"}, "'na_thres' must be a number, got 'str' '1'"),
    ("tridiagonal", {"lower": 5}, "'lower' must be text, got 'int' 5"),
    ("tridiagonal", {"rhs": ["a"]}, "'rhs' must be text, got 'list' ['a']"),
    ("tridiagonal", {"periodic": "no"}, "'periodic' must be True or False, got 'str' 'no'"),
    ("tridiagonal", {"dim": None, "lower": None}, "'lower' must be text, got nothing"),
    ("solve", {"rhs": 5}, "'rhs' must be a list of names, got 'int' 5"),
    ("scatter", {"size": 1.5}, "'size' must be a whole number, got 'float' 1.5"),
    ("gather", {"fill": "x"}, "'fill' must be a number, got 'str' 'x'"),
    ("gather", {"chunks": {"x": "1"}}, "'chunks['x']' must be a whole number, got 'str' '1'"),
]


@pytest.mark.parametrize(("method", "given", "told"), OTHERS)
def test_of_others(client: Any, method: str, given: dict[str, Any], told: str) -> None:
    needed = {
        name: "a"
        for name, parameter in inspect.signature(getattr(Client, method)).parameters.items()
        if parameter.default is inspect.Parameter.empty and name not in ("self", "dataset")
    }
    with pytest.raises(ArgumentError) as error:
        getattr(client, method)(DATASET, **(needed | given)) if method != "column" else (
            client.column("a", DATASET, **given)
        )
    assert error.value.message == f"Argument {told}."


@pytest.mark.parametrize("given", [5, None, {"a": [1.0]}, np.zeros(3)])
def test_of_datasets(client: Any, given: object) -> None:
    for send in (lambda: client.stencil(PROGRAM, given), lambda: client.gather(given, **GATHER)):
        with pytest.raises(ArgumentError) as error:
            send()
        assert error.value.message == (
            "A dataset must be an xarray Dataset or DataArray, a Job, a reference or a path, got "
            f"'{type(given).__name__}'."
        )
    with pytest.raises(ArgumentError, match="Argument 'reference' must be text"):
        client.uploads.remove(given)
    with pytest.raises(ArgumentError, match="Argument 'inputs' must be a mapping, got 'int' 5"):
        client.submit("stencil", 5)


GATHER = {"source": "a", "index": "a", "dim": "x"}


def test_every_argument_has_its_kind() -> None:
    """Of every method that submits; `chunks` and the like are the same kind in all of them."""
    methods = [m for _, m in inspect.getmembers(Client, inspect.isfunction) if _submits(m)]
    assert len(methods) == 14
    apart = {"self", "program", "dataset", "factors", "weights", "mesh"}
    for method in methods:
        unknown = set(inspect.signature(method).parameters) - apart - set(arguments.CHECKS)
        assert not unknown, method.__name__


def _submits(method: Any) -> bool:
    return "target" in inspect.signature(method).parameters


def test_numbers_of_numpy_are_sent_as_plain_ones() -> None:
    sent = arguments.plain(
        cast(
            "dict[str, Any]",
            {
                "steps": np.int64(3),
                "chunks": {"x": np.int32(5)},
                "na_thres": np.float32(0.5),
                "periodic": np.True_,
                "boundary": {"x": {"low": {"constant": np.float64(1.0)}, "high": "edge"}},
                "fields": {},
                "radius": None,
            },
        )
    )
    assert sent == {
        "steps": 3,
        "chunks": {"x": 5},
        "na_thres": 0.5,
        "periodic": True,
        "boundary": {"x": {"low": {"constant": 1.0}, "high": "edge"}},
    }
    assert {type(sent[name]) for name in ("steps", "na_thres", "periodic")} == {int, float, bool}
