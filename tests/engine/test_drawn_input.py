"""Every function on datasets that are wrong in some way: a result, or one of our errors.

Each variable is given other types, dimensions and numbers, and each dimension other sizes and
coordinates. Whatever a library would say about it, such as a warning of NumPy, is a fault.
"""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false
from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he

TYPES = ("O", "S4", "U3", "M8[ns]", "m8[s]", "c16", "u8", "i1", "?", "f2", "g")
WHOLE = (-(2**63), -5, 2**31, 2**62)
FLOATS = (np.nan, np.inf, -1e308)
BANDS: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "a", "dim": "x"}
COORDINATES: dict[str, Callable[[int], Any]] = {
    "reversed": lambda n: np.arange(n)[::-1],
    "NaN": lambda n: np.full(n, np.nan),
    "equal": np.zeros,
    "texts": lambda n: np.array([chr(97 + i % 26) for i in range(n)]),
    "times": lambda n: np.arange(n).astype("M8[ns]"),
    "complex": lambda n: np.arange(n) * 1j,
}
PROGRAM = """
def smooth(a: Field[float], weight: float, out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = weight * (a[-1, 0, 0] + a[1, 0, 0] + a[0, -1, 0] + a[0, 1, 0])
"""
TABLES = """
def around(nodes: Field[float], near: Table[2], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = neighbor_sum(nodes[near])
"""


@dataclass(frozen=True)
class Call:
    """A function that takes one dataset, which is drawn, and arguments that fit the good one."""

    function: Callable[..., Any]
    dataset: xr.Dataset
    named: dict[str, Any] = field(default_factory=dict[str, Any])


def numbers(*shape: int) -> Any:
    return np.random.default_rng(5).random(shape)


def plane() -> xr.Dataset:
    return xr.Dataset({"a": (("y", "x"), numbers(4, 6)), "b": (("y", "x"), numbers(4, 6) + 5.0)})


def indexed() -> xr.Dataset:
    return xr.Dataset(
        {
            "s": (("t", "c", "l"), numbers(3, 4, 2)),
            "i": (("t", "p"), np.array([[1, 0], [2, 3], [0, 0]])),
            "j": (("t", "c"), np.arange(12).reshape(3, 4)),
        },
        coords={"t": np.arange(3.0), "c": np.arange(4.0)},
    )


def forest() -> xr.Dataset:
    return xr.Dataset(
        {
            "nodes": ("node", numbers(3) + 1.0),
            "parent": ("node", np.array([-1, 0, 1])),
            "count": ("cell", np.array([3]), {"sample_dimension": "node"}),
            "near": (("node", "side"), np.array([[1, -1], [0, 2], [1, -1]])),
        }
    )


def column() -> xr.Dataset:
    return xr.Dataset({"a": (("y", "z"), numbers(2, 4)), "h": ("zf", np.arange(5.0))})


def weights() -> xr.Dataset:
    places = np.arange(1, 25)
    return xr.Dataset(
        {
            "row": ("n_s", places),
            "col": ("n_s", places),
            "S": ("n_s", np.ones(24)),
            "src_grid_dims": ("rank", np.array([6, 4])),
            "dst_grid_dims": ("rank", np.array([6, 4])),
            "yc_b": ("n_b", np.repeat(np.arange(4.0) * 20, 6), {"units": "degrees"}),
            "xc_b": ("n_b", np.tile(np.arange(6.0) * 20, 4), {"units": "degrees"}),
        }
    )


def mesh() -> xr.Dataset:
    """Return an octahedron."""
    topology = {
        "cf_role": "mesh_topology",
        "node_coordinates": "lon lat",
        "face_node_connectivity": "faces",
    }
    ring = [[top, 1 + n, 1 + (n + 1) % 4] for top in (0, 5) for n in range(4)]
    return xr.Dataset(
        {
            "mesh": ((), 0, topology),
            "faces": (("face", "corner"), np.array(ring), {"start_index": 0}),
            "lon": ("node", np.array([0.0, 0, 90, 180, 270, 0]), {"units": "degrees_east"}),
            "lat": ("node", np.array([90.0, 0, 0, 0, 0, -90]), {"units": "degrees_north"}),
        }
    )


def on_weights(drawn: xr.Dataset, **named: Any) -> Any:
    return he.regrid(plane()[["a"]], drawn, **named)


def on_mesh(drawn: xr.Dataset, **named: Any) -> Any:
    return he.neighbours(xr.Dataset({"h": ("face", np.arange(8.0))}), drawn, **named)


def solved(drawn: xr.Dataset, **named: Any) -> Any:
    good = plane()
    return he.solve(drawn, he.factor(good, **BANDS, target="reference"), **named)


LEVELS: dict[str, Any] = {"axis": {"centre": "z", "face": "zf"}, "heights": "h"}
CALLS = {
    "run": Call(lambda d, **n: he.run(PROGRAM, d, **n), plane(), {"scalars": {"weight": 0.25}}),
    "run with a table": Call(
        lambda d, **n: he.run(TABLES, d, **n), forest(), {"axes": {"I": "node"}}
    ),
    "tridiagonal": Call(he.tridiagonal, plane(), {**BANDS, "rhs": "a"}),
    "pentadiagonal": Call(
        he.pentadiagonal, plane(), {**BANDS, "rhs": "a", "second_lower": "a", "second_upper": "a"}
    ),
    "factor": Call(he.factor, plane(), BANDS),
    "solve": Call(solved, plane(), {"rhs": "a"}),
    "tree": Call(
        he.tree,
        forest(),
        {
            "diagonal": "nodes",
            "upper": "nodes",
            "rhs": "nodes",
            "parent": "parent",
            "row_size": "count",
        },
    ),
    "gather": Call(he.gather, indexed(), {"source": "s", "index": "i", "dim": "c"}),
    "gather in tiles": Call(
        he.gather, indexed(), {"source": "s", "index": "i", "dim": "c", "chunks": {"c": 2}}
    ),
    "scatter": Call(
        he.scatter,
        indexed(),
        {"source": "s", "index": "j", "dim": "z", "size": 12, "duplicates": "sum"},
    ),
    "matmul": Call(
        he.matmul,
        xr.Dataset(
            {"a": (("b", "m", "k"), numbers(2, 3, 4)), "c": (("b", "k", "n"), numbers(2, 4, 5))}
        ),
        {"left": "a", "right": "c", "dim": "k"},
    ),
    "regrid": Call(he.regrid, plane(), {"weights": weights()}),
    "regrid by weights": Call(on_weights, weights()),
    "column": Call(lambda d, **n: he.column("2.0 * a", d, **n), column(), LEVELS),
    "column_matrix": Call(
        lambda d, **n: he.column_matrix("2.0 * a", d, of="a", **n), column(), LEVELS
    ),
    "neighbours": Call(
        he.neighbours,
        xr.Dataset({"h": ("face", np.arange(8.0)), "g": ("face", np.arange(8.0))}),
        {"mesh": mesh(), "operation": "gradient"},
    ),
    "neighbours of a mesh": Call(on_mesh, mesh(), {"operation": "laplacian"}),
}


def drawn(good: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
    """Return what was done to a dataset, and the dataset."""
    yield "nothing in it", xr.Dataset()
    for name in map(str, good.data_vars):
        for what, variable in _variables(good[name].variable):
            yield f"{name}: {what}", _replaced(good, name, variable)
    for dim, size in good.sizes.items():
        for few in range(min(3, size)):
            yield f"{dim}: {few} of them", good.isel({dim: slice(0, few)})
        for what, make in COORDINATES.items():
            yield f"{dim}: {what}", good.assign_coords({dim: (dim, make(size))})


def _replaced(good: xr.Dataset, name: str, variable: xr.Variable) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # xarray tells of dimensions that are there twice
        return good.drop_vars(name).assign({name: variable})


def _variables(own: xr.Variable) -> Iterator[tuple[str, xr.Variable]]:
    values, dims = own.values, own.dims

    def made(array: Any, names: Any = dims) -> xr.Variable:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return xr.Variable(names, array, own.attrs)

    for dtype in TYPES:
        through = values.astype("i8") if dtype[0] in "mM" else values
        yield dtype, made(through.astype(dtype))
    for number in WHOLE if values.dtype.kind == "i" else FLOATS:
        yield str(number), made(np.full_like(values, number))
    if own.ndim:
        yield "a number", made(values.flat[0], ())
        yield "a dimension less", made(values[0], dims[1:])
        yield "another dimension", made(values, ("other", *dims[1:]))
        yield "an extra dimension", made(np.stack([values, values]), ("extra", *dims))
        for dim, size in zip(dims, values.shape, strict=True):
            yield f"{dim} twice", made(np.resize(values, (size, size)), (dim, dim))


@pytest.mark.parametrize("name", CALLS)
def test_a_result_or_one_of_our_errors(name: str) -> None:
    call, raw = CALLS[name], dict[str, str]()
    call.function(call.dataset, **call.named, target="reference")
    for what, dataset in drawn(call.dataset):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                # xarray tells of it wherever it meets such a variable; no function takes one.
                warnings.filterwarnings("ignore", "Duplicate dimension names")
                call.function(dataset, **call.named, target="reference")
        except he.InternalError as error:
            raw[what] = repr(error)
        except he.HaloclineError:
            pass
        except Exception as error:  # that is what is looked for
            last = traceback.extract_tb(error.__traceback__)[-1]
            raw[what] = f"{error!r} in {last.filename}, line {last.lineno}"
    assert raw == {}


TWICE = {
    "run": ("a", "y"),
    "tridiagonal": ("b", "x"),
    "pentadiagonal": ("a", "x"),
    "factor": ("a", "x"),
    "solve": ("a", "y"),
    "tree": ("count", "cell"),
    "gather": ("s", "c"),
    "gather in tiles": ("i", "p"),
    "scatter": ("j", "c"),
    "matmul": ("c", "k"),
    "column": ("a", "z"),
    "column_matrix": ("h", "zf"),
    "run with a table": ("near", "node"),
}


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
def test_a_dimension_that_is_there_twice(name: str) -> None:
    call, (variable, dim) = CALLS[name], TWICE[name]
    size = call.dataset.sizes[dim]
    values = np.resize(call.dataset[variable].values, (size, size))
    own = xr.Variable((dim, dim), values, call.dataset[variable].attrs)
    with pytest.raises(he.FieldError) as caught:
        call.function(_replaced(call.dataset, variable, own), **call.named, target="reference")
    assert str(caught.value) == (
        f"Variable '{variable}' must have each dimension once, but '{dim}' stands 2 times in"
        f" ({dim}, {dim}). Give one of them another name: dataset['{variable}'] = (('{dim}',"
        f" '{dim}_2'), dataset['{variable}'].values)."
    )


@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
@pytest.mark.parametrize("name", ["regrid", "neighbours"])
def test_such_a_variable_is_taken_only_by_name(name: str) -> None:
    call = CALLS[name]
    first, other = map(str, call.dataset.data_vars)
    dim = str(call.dataset[first].dims[0])
    size = call.dataset.sizes[dim]
    given = _replaced(call.dataset, other, xr.Variable((dim, dim), np.ones((size, size))))
    found = call.function(given, **call.named, target="reference")
    assert not any(str(made).startswith(other) for made in found.data_vars)
    with pytest.raises(he.FieldError, match=f"'{other}' must have each dimension once"):
        call.function(given, **call.named, variables=[other], target="reference")


@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
def test_coordinates_with_a_dimension_twice_are_left_out() -> None:
    given = indexed().assign_coords(cov=xr.Variable(("t", "t"), np.eye(3)))
    found = CALLS["gather"].function(given, **CALLS["gather"].named, target="reference")
    assert set(found.coords) == {"t"}
    field = plane().assign_coords(cov=xr.Variable(("y", "y"), np.eye(4)))
    made = CALLS["run"].function(field, **CALLS["run"].named, target="reference")
    assert set(made.coords) == set()


@pytest.mark.parametrize(
    ("name", "variable", "change", "message"),
    [
        (
            "regrid by weights",
            "S",
            lambda values: values * 1j,
            "Variable 'S' must hold real numbers, got the type 'complex128'. Take its real or"
            " imaginary part.",
        ),
        (
            "neighbours of a mesh",
            "lat",
            lambda values: values + 0j,
            "Variable 'lat' must hold real numbers, got the type 'complex128'. Take its real or"
            " imaginary part.",
        ),
        (
            "column",
            "h",
            lambda values: values.astype("U8"),
            "Variable 'h' must hold real numbers, got the type '<U8'. Convert it with"
            " astype('float64').",
        ),
        (
            "column",
            "h",
            lambda values: values * np.inf,
            "The heights 'h' must be finite, got nan at place 0. Fill in what is missing, or choose"
            " another variable with 'heights'.",
        ),
        (
            "regrid by weights",
            "row",
            lambda values: values.astype("O"),
            "The weights' 'row' must be whole numbers, got the type 'object'.",
        ),
        (
            "regrid by weights",
            "col",
            lambda values: values + 0.25,
            "The weights' 'col' must be whole numbers, got 1.25 of type 'float64' at place 0.",
        ),
        (
            "regrid by weights",
            "dst_grid_dims",
            lambda values: -values,
            "The weights' 'dst_grid_dims' must list the sizes of the grid, each at least 1, got"
            " [-6, -4].",
        ),
    ],
)
def test_numbers_that_are_none(
    name: str, variable: str, change: Callable[[Any], Any], message: str
) -> None:
    call = CALLS[name]
    own = call.dataset[variable]
    with np.errstate(invalid="ignore"):
        given = call.dataset.assign({variable: (own.dims, change(own.values), own.attrs)})
    with pytest.raises(he.RequestError) as caught:
        call.function(given, **call.named, target="reference")
    assert str(caught.value) == message


@pytest.mark.parametrize("chunks", [None, {"c": 2}])
def test_nothing_along_a_shared_dimension(chunks: dict[str, int] | None) -> None:
    empty = indexed().isel(t=slice(0, 0))
    for target in ("reference", "cpu"):
        found = he.gather(empty, source="s", index="i", dim="c", chunks=chunks, target=target)
        assert found["gathered"].shape == (0, 2, 2)
