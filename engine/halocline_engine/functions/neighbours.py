"""Operators on unstructured meshes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack, assert_never

import xarray as xr

from halocline_engine.analysis.named import near
from halocline_engine.arguments import number, several, text
from halocline_engine.datasets.attributes import text_of
from halocline_engine.datasets.formats.mesh import Mesh, Points
from halocline_engine.datasets.formats.mesh_reader import read_mesh
from halocline_engine.datasets.inputs.opening import DatasetLike, open_source
from halocline_engine.datasets.stores.provenance import coordinates_within, with_history
from halocline_engine.datasets.stores.source import Opened
from halocline_engine.datasets.variables import (
    hint_of_conversion,
    hint_of_packed,
    is_distinct,
    variable_of,
)
from halocline_engine.distribute.jobs.outputs import open_beside
from halocline_engine.distribute.transfers.job import (
    Change,
    Multiplying,
    Request,
    change_job,
    check_memory,
)
from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.functions.documentation import documented
from halocline_engine.functions.execution import Execution, ExecutionArguments
from halocline_engine.kernels.indirect.mesh.operators import (
    Location,
    Operator,
    check_components,
    location_of,
)
from halocline_engine.kernels.indirect.mesh.sphere import (
    divergence,
    gradient,
    laplacian,
    neighbour_mean,
)
from halocline_engine.kernels.indirect.mesh.staggered import (
    edge_curl,
    edge_divergence,
    edge_gradient,
)
from halocline_engine.kernels.indirect.plan import PlanCache, content_key, plans_of
from halocline_engine.kernels.indirect.problem import choice
from halocline_engine.kernels.indirect.sparse import Form, Missing, Sparse
from halocline_engine.signatures import complete

__all__ = ["neighbours"]

_TYPES = ("float32", "float64")
#: Location of results that differs from that of the values.
_RESULT: Mapping[Operator, Location] = {
    Operator.NORMAL_GRADIENT: Location.EDGE,
    Operator.NORMAL_DIVERGENCE: Location.FACE,
    Operator.NORMAL_CURL: Location.NODE,
}
#: Radius in metres of the sphere in GRIB, the format of the World Meteorological Organization.
_EARTH = 6_371_229.0


@dataclass(frozen=True, slots=True, eq=False)
class _Matrices:
    """Matrices by the suffix of the result's name."""

    by_suffix: Mapping[str, Multiplying]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return sum(one.matrix.nbytes for one in self.by_suffix.values())


@documented(ExecutionArguments)
def neighbours(
    dataset: DatasetLike,
    mesh: xr.Dataset | str | Path,
    operation: str,
    *,
    variables: Sequence[str] | None = None,
    location: str | None = None,
    dim: str | None = None,
    radius: float | None = None,
    plans: PlanCache | None = None,
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    """Apply an operator on an unstructured mesh of the sphere.

    Parameters
    ----------
    %(dataset)s
    mesh : xarray.Dataset or path
        Mesh in UGRID or MPAS.
    operation : str
        'sum' or 'mean' of the neighbours (faces that share an edge, nodes that an edge joins, edges
        that share a node), 'gradient' (eastward and northward), 'laplacian', 'divergence' (of the
        eastward and northward components that `variables` names), or on MPAS meshes for vectors by
        their components normal to edges 'normal_gradient', 'normal_divergence' and 'normal_curl'.
    variables : sequence of str, optional
        Variables of the operator, float32 or float64; by default all on the mesh.
    location : {'face', 'node', 'edge'}, optional
        Location of the values, by default 'face'; 'edge' is for MPAS meshes.
    dim : str, optional
        Dimension of the mesh in the dataset; by default the mesh's own name, or the dimension of
        its size.
    radius : float, optional
        Radius of the sphere in metres; by default that of the mesh, or 6371229.
    %(plans)s
    %(execution)s

    Returns
    -------
    xarray.Dataset
        Variables ``<variable>_<operation>``; 'gradient' gives ``<variable>_eastward`` and
        ``<variable>_northward``, 'divergence' gives `divergence`. Derivatives are per metre. NaN
        where a value nearby is NaN, or where the points nearby do not determine a derivative.

    %(raises)s

    Notes
    -----
    Derivatives are those of a quadratic fitted to the values around each point, of second order in
    the distance between points, the Laplacian of first. The operators for normal components are
    those of the C-grid of Ringler et al. (2010).

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> mesh = xr.Dataset(
    ...     {
    ...         "mesh": (
    ...             (),
    ...             0,
    ...             {
    ...                 "cf_role": "mesh_topology",
    ...                 "topology_dimension": 2,
    ...                 "node_coordinates": "lon lat",
    ...                 "face_node_connectivity": "nodes",
    ...             },
    ...         ),
    ...         "nodes": (("face", "corner"), [[0, 1, 2], [1, 3, 2]], {"start_index": 0}),
    ...         "lon": ("node", [0.0, 1.0, 0.0, 1.0], {"units": "degrees_east"}),
    ...         "lat": ("node", [0.0, 0.0, 1.0, 1.0], {"units": "degrees_north"}),
    ...     }
    ... )
    >>> dataset = xr.Dataset({"t": ("face", [2.0, 5.0])})
    >>> he.neighbours(dataset, mesh, "sum")["t_sum"].values.tolist()
    [5.0, 2.0]

    """
    execution = Execution(**complete(neighbours, given))
    operator: Operator = choice(Operator, "operation", operation)
    where = location_of(operator, location)
    variables = several("variables", variables, "['u', 'v']")
    _check_kinds(dim, radius)
    check_components(operator, variables)
    opened = open_source(dataset)
    beside = open_beside(mesh, "mesh", execution.output)
    known = read_mesh(beside, check_memory, _fields(opened, variables), where)
    kept, size = plans_of(plans), radius or known.radius or _EARTH
    key = f"{known.key}-{where.value}"
    points = kept.get(key, lambda: _points(known, where))
    chosen = _chosen(opened, _Home(known, points, where, dim), variables)
    name = content_key("operator", key, operator.value, size)
    cached = kept.get(name, lambda: _Matrices(_matrices(operator, known, points, size)))
    matrices = cached.by_suffix
    made = _made(operator, known)
    lies = _RESULT.get(operator, where)
    if operator is Operator.DIVERGENCE:
        changes = [_vector(opened, chosen, matrices[""], lies)]
    else:
        changes = [
            _change(
                opened.dataset[name], (name,), f"{name}{suffix}", along, multiplying, lies, made
            )
            for name, along in chosen.items()
            for suffix, multiplying in matrices.items()
        ]
    what = f"{operation} on a mesh of {', '.join(chosen)}"
    sizes = {d: int(opened.dataset.sizes[d]) for change in changes for d in change.batch}
    sizes |= {change.made[0]: _rows(change) for change in changes}
    request = Request(
        opened=opened,
        changes=tuple(changes),
        sizes=sizes,
        frame=with_history(xr.Dataset(coords=_coordinates(opened, changes)), opened.dataset, what),
        chunks=execution.block_sizes,
        output=execution.place,
        what=what,
    )
    return execution.run_job(partial(change_job, request), "there is one pass")


def _check_kinds(dim: object, radius: object) -> None:
    if dim is not None:
        text("dim", dim, "the name of a dimension")
    if radius is not None and not number("radius", radius, "a length in metres") > 0:
        raise ArgumentError(f"Argument 'radius' must be a length in metres, got {radius!r}.")


def _rows(change: Change) -> int:
    assert isinstance(change.operation, Multiplying)
    return change.operation.matrix.rows


def _points(known: Mesh, where: Location) -> Points:
    match where:
        case Location.FACE:
            return known.on_faces()
        case Location.NODE:
            return known.on_nodes()
        case Location.EDGE:
            return known.on_edges()
        case _:
            assert_never(where)


def _made(operator: Operator, known: Mesh) -> str:
    """Return the dimension of results at another location than the values, or ''."""
    dims = {
        Location.EDGE: known.edge_dim,
        Location.FACE: known.face_dim,
        Location.NODE: known.node_dim,
    }
    return dims[_RESULT[operator]] if operator in _RESULT else ""


def _matrices(
    operator: Operator, known: Mesh, points: Points, radius: float
) -> dict[str, Multiplying]:
    """Return the matrices of an operator on a mesh; see `_Matrices`."""

    def by(matrix: Sparse, form: Form) -> Multiplying:
        return Multiplying(matrix, form, Missing.PROPAGATE, 0.0)

    match operator:
        case Operator.SUM:
            return {"_sum": by(neighbour_mean(points.neighbours, total=True), Form.PLAIN)}
        case Operator.MEAN:
            return {"_mean": by(neighbour_mean(points.neighbours), Form.DEPARTURE)}
        case Operator.GRADIENT:
            east, north = gradient(points.xyz, points.surroundings, radius)
            return {"_eastward": by(east, Form.RELATIVE), "_northward": by(north, Form.RELATIVE)}
        case Operator.LAPLACIAN:
            matrix = laplacian(points.xyz, points.surroundings, radius)
            return {"_laplacian": by(matrix, Form.RELATIVE)}
        case Operator.DIVERGENCE:
            return {"": by(divergence(points.xyz, points.surroundings, radius), Form.PLAIN)}
        case Operator.NORMAL_GRADIENT:
            return {"_normal": by(edge_gradient(known.with_edges(), radius), Form.PLAIN)}
        case Operator.NORMAL_DIVERGENCE:
            return {"_divergence": by(edge_divergence(known.with_edges(), radius), Form.PLAIN)}
        case Operator.NORMAL_CURL:
            return {"_curl": by(edge_curl(known.with_edges(), radius), Form.PLAIN)}
        case _:
            assert_never(operator)


@dataclass(frozen=True, slots=True, eq=False)
class _Home:
    """The points of a mesh at the location of values; `dim` is their dimension if given."""

    known: Mesh
    points: Points
    location: Location
    dim: str | None


def _fields(opened: Opened, variables: Sequence[str] | None) -> list[xr.DataArray]:
    """Return the variables that may be on the mesh, to choose its topology."""
    dataset = opened.dataset
    named = [name for name in variables or () if name in dataset.data_vars]
    arrays = [dataset[name] for name in named or map(str, dataset.data_vars)]
    return [array for array in arrays if array.dtype.name in _TYPES]


def _chosen(opened: Opened, home: _Home, variables: Sequence[str] | None) -> dict[str, str]:
    """Return the variables, each with its dimension on the mesh."""
    names = [str(name) for name in opened.dataset.data_vars]
    chosen: dict[str, str] = {}
    count = len(home.points.xyz)
    for name in names if variables is None else variables:
        if name not in names:
            raise FieldError(f"The dataset has no variable '{name}'.", hint=near(name, names))
        if variables is None and not is_distinct(opened.dataset, name):
            continue
        array = variable_of(opened.dataset, name)
        along = _along(array, home)
        elsewhere = _elsewhere(array, home) if along != home.points.dim else ""
        if along is not None and array.dtype.name in _TYPES and not elsewhere:
            chosen[name] = along
        elif variables is not None:
            raise FieldError(
                f"Variable '{name}' does not lie on the mesh: expected float32 or float64 with one"
                f" dimension of {count} points, got '{array.dtype}' with {dict(array.sizes)}"
                f"{elsewhere}.",
                hint=hint_of_conversion(
                    array, "Name the dimension with dim=, or the location of the values."
                ),
            )
    if not chosen:
        raise FieldError(
            f"The dataset has no variable of type float32 or float64 on the {count} points of the"
            " mesh.",
            hint=hint_of_packed(opened.dataset.data_vars.values())
            or "Values on nodes need location='node'.",
        )
    return chosen


def _along(array: xr.DataArray, home: _Home) -> str | None:
    count = len(home.points.xyz)
    fitting = [str(d) for d, size in array.sizes.items() if size == count]
    wanted = home.dim or home.points.dim
    if wanted in fitting:
        return wanted
    return fitting[0] if home.dim is None and len(fitting) == 1 else None


def _elsewhere(array: xr.DataArray, home: _Home) -> str:
    """Return the contradicting mesh or location in UGRID attributes of an array, or ''."""
    mesh, location = (text_of(array.attrs, name) for name in ("mesh", "location"))
    if mesh in home.known.others:
        return f" on the mesh '{mesh}'"
    places = {place.value for place in Location} - {home.location.value}
    return f" on its {location}s" if home.dim is None and location in places else ""


def _vector(
    opened: Opened, chosen: Mapping[str, str], multiplying: Multiplying, lies: Location
) -> Change:
    names = tuple(chosen)
    arrays = [opened.dataset[name] for name in names]
    if arrays[0].dims != arrays[1].dims or arrays[0].dtype.name != arrays[1].dtype.name:
        described = [f"{array.dtype}{[*array.dims]}" for array in arrays]
        raise FieldError(
            "Both components of a vector must have the same type and dimensions, and be two"
            f" variables, got {', '.join(described)}."
        )
    return _change(arrays[0], names, "divergence", chosen[names[0]], multiplying, lies)


def _change(
    array: xr.DataArray,
    names: tuple[str, ...],
    result: str,
    along: str,
    multiplying: Multiplying,
    lies: Location,
    made: str = "",
) -> Change:
    """Return the output variable; `made` is its dimension if it changes."""
    own = tuple(str(dim) for dim in array.dims)
    kept = {key: array.attrs[key] for key in ("mesh", "location") if key in array.attrs}
    kept |= {"location": lies.value} if "location" in kept else {}
    return Change(
        variables=names,
        result=result,
        dtype=array.dtype.name,
        own=own,
        batch=tuple(dim for dim in own if dim != along),
        taken=(along,),
        values=(),
        made=(made or along,),
        dims=tuple((made or along) if dim == along else dim for dim in own),
        operation=multiplying,
        attributes=kept,
    )


def _coordinates(opened: Opened, changes: Sequence[Change]) -> dict[str, xr.DataArray]:
    coordinates: dict[str, xr.DataArray] = {}
    for change in changes:
        array = opened.dataset[change.variables[0]]
        dims = change.dims if change.made == change.taken else change.batch
        coordinates |= coordinates_within(array, dims)
    return coordinates
