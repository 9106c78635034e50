"""Datasets as models write them, drawn, beside what programs on them must give.

A draw has the dimensions of a model, or of nobody, with attributes that are complete, missing, in
another case or in the encoding, and its variables in any order of dimensions. Expectations are of
plain NumPy arrays whose axes are known.
"""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

__all__ = ["PROGRAMS", "Draw", "draw_dataset"]

Array = NDArray[np.float64]

#: Dimensions of centres and faces along z, y and x, and where the faces with a centre's number lie.
MODELS: Mapping[str, tuple[str, str, str, str, str, str]] = {
    "WRF": (
        *("bottom_top", "bottom_top_stag", "south_north", "south_north_stag"),
        *("west_east", "west_east_stag"),
    ),
    "ROMS": ("s_rho", "s_w", "eta_rho", "eta_v", "xi_rho", "xi_u"),
    "NEMO": ("deptht", "depthw", "y", "y_f", "x", "x_f"),
    "NEMO of its files": ("deptht", "depthw", "y", "y", "x", "x"),
    "MOM6": ("zl", "zi", "yh", "yq", "xh", "xq"),
    "MOM5": ("st_ocean", "sw_ocean", "yt_ocean", "yu_ocean", "xt_ocean", "xu_ocean"),
    "MITgcm": ("k", "k_p1", "j", "j_g", "i", "i_g"),
    "MITgcm of its files": ("Z", "Zp1", "Y", "Yp1", "X", "Xp1"),
    "ICON": ("height", "height_2", "", "", "ncells", "edges"),
    "ERA5": ("pressure_level", "half_level", "latitude", "latitude_2", "longitude", "longitude_2"),
    "GRIB": ("isobaricInhPa", "hybrid", "latitude", "lat_2", "longitude", "lon_2"),
    "CMIP": ("lev", "lev_2", "lat", "lat_2", "lon", "lon_2"),
    "CESM": ("lev", "ilev", "lat", "slat", "lon", "slon"),
    "FV3": ("pfull", "phalf", "grid_yt", "grid_y", "grid_xt", "grid_x"),
    "nobody": ("a", "b", "c", "d", "e", "f"),
    "somebody": ("layers", "interfaces", "rows", "row_edges", "columns", "column_edges"),
}
LOOPS = ("time", "member", "band", "run", "case")


@dataclass(frozen=True, slots=True)
class Draw:
    """A dataset, the canonical values of its variables, and what was drawn.

    `t`, `u`, `v` and `w` are indexed [loop, z, y, x] with one point where the dataset has no such
    dimension; `dims` are those of `t` in this order, '' for none.
    """

    dataset: xr.Dataset
    dims: tuple[str, str, str, str]
    values: Mapping[str, Array]
    axes: Mapping[str, str | None] | None
    words: str

    def result(self, array: xr.DataArray) -> Array | None:
        """Return a result in the order of `values`, None if it has dimensions that `t` lacks.

        It may have no levels.
        """
        flat = self.dims[1] not in array.dims
        own = tuple(dim for at, dim in enumerate(self.dims) if dim and not (flat and at == 1))
        if {*array.dims} != {*own}:
            return None
        shape = tuple(array.sizes[dim] if dim in array.dims else 1 for dim in self.dims)
        return cast("Array", array.transpose(*own).values.reshape(shape))


def draw_dataset(random: np.random.Generator) -> Draw:
    """Return a dataset with tracers `t`, velocities `u`, `v` and `w` on faces, and widths."""
    model = str(random.choice(list(MODELS)))
    names = MODELS[model]
    has = [
        bool(names[2 * at]) and random.random() < odds for at, odds in enumerate((0.6, 0.8, 0.9))
    ]
    if not any(has):
        has[2] = True
    loop = str(random.choice(LOOPS)) if random.random() < 0.4 else ""
    centres = [int(random.integers(3, 6)) if there else 1 for there in has]
    more = [int(random.choice([1, 1, 0])) if there else 0 for there in has]
    dims = [names[2 * at] if there else "" for at, there in enumerate(has)]
    faces = [names[2 * at + 1] if there else "" for at, there in enumerate(has)]
    more = [0 if one == other else n for one, other, n in zip(dims, faces, more, strict=True)]
    count = int(random.integers(2, 5)) if loop else 1
    values: dict[str, Array] = {}
    variables: dict[str, xr.Variable] = {}
    for name, at in (("t", None), ("w", 0), ("v", 1), ("u", 2)):
        if at is not None and not has[at]:
            continue
        own = [faces[n] if n == at else dims[n] for n in range(3)]
        sizes = [centres[n] + (more[n] if n == at else 0) for n in range(3)]
        looped = loop if name == "t" or random.random() < 0.5 else ""
        values[name] = random.normal(size=(count if looped else 1, *sizes))
        variables[name] = _shuffled(random, (looped, *own), values[name])
    for name, at in (("dz", 0), ("dy", 1), ("dx", 2)):
        if has[at]:
            shape = [1, *(centres[n] if n == at else 1 for n in range(3))]
            values[name] = random.normal(size=shape)
            own = [dims[n] if n == at else "" for n in range(3)]
            variables[name] = _shuffled(random, ("", *own), values[name])
    sizes = {dim: size for item in variables.values() for dim, size in item.sizes.items()}
    coords = _coordinates(random, [str(dim) for dim in sizes], dims, faces, sizes)
    dataset = xr.Dataset(variables, coords)
    if random.random() < 0.3:
        how = random.choice(np.array(["all", "coordinates"], object))
        dataset = cast("Any", xr).decode_cf(dataset, decode_coords=how)
    axes = None
    if random.random() < 0.5:
        pairs = zip("KJI", dims, strict=True)
        axes = {axis: dim or None for axis, dim in pairs if random.random() < 0.7}
    return Draw(dataset, (loop, dims[0], dims[1], dims[2]), values, axes, f"{model}, {more}")


def _shuffled(random: np.random.Generator, dims: tuple[str, ...], values: Array) -> xr.Variable:
    """Return a variable without the dimensions that have no name, in an order as models write."""
    own = [at for at, dim in enumerate(dims) if dim]
    plain = values.reshape([values.shape[at] for at in own])
    order = random.permutation(len(own)) if random.random() < 0.3 else np.arange(len(own))
    return xr.Variable([dims[own[at]] for at in order], plain.transpose(order))


def _coordinates(
    random: np.random.Generator,
    used: list[str],
    dims: list[str],
    faces: list[str],
    sizes: Mapping[Any, int],
) -> dict[str, xr.Variable]:
    """Return coordinates with attributes for all dimensions, for the centres alone, or for none."""
    known = {
        **{dim: ("ZYX"[at], at, -0.5) for at, dim in enumerate(faces) if dim},
        **{dim: ("ZYX"[at], at, 0.0) for at, dim in enumerate(dims) if dim},
    }
    which = random.choice(["all", "centres", "none"], p=[0.5, 0.2, 0.3])
    coords: dict[str, xr.Variable] = {}
    for dim in used:
        if dim == "time":
            days = np.arange(sizes[dim]).astype("M8[D]").astype("M8[ns]")
            coords[dim] = xr.Variable(dim, days)
        if dim not in known or which == "none" or (which == "centres" and dim not in dims):
            continue
        axis, at, shift = known[dim]
        attrs: dict[str, Any] = {"axis": axis}
        if at == 0:
            attrs["positive"] = "up"
        elif random.random() < 0.3:
            units = ("", "degrees_north", "degrees_east")[at]
            attrs |= {"units": units, "standard_name": ("", "latitude", "longitude")[at]}
        if shift and random.random() < 0.5:
            attrs["c_grid_axis_shift"] = shift
        attrs = {key: value for key, value in attrs.items() if random.random() < 0.8}
        if random.random() < 0.2:
            change = str.upper if random.random() < 0.5 else str.lower
            attrs = {k: change(v) if k in ("axis", "positive") else v for k, v in attrs.items()}
        coords[dim] = xr.Variable(dim, np.arange(sizes[dim]) + shift, attrs)
    return coords


def _head(*fields: str) -> str:
    listed = ", ".join(f"{field}: Field[float]" for field in (*fields, "out"))
    return f"def f({listed}):\n    with computation(PARALLEL), interval(...):\n        out = "


def _shift(values: Array, axis: int, by: int) -> Array:
    """Return values of the points that lie `by` further, NaN where there is none."""
    moved = np.roll(values, -by, axis)
    place = [slice(None)] * values.ndim
    place[axis] = slice(-by, None) if by > 0 else slice(0, -by)
    moved[tuple(place)] = np.nan
    return moved


def _flux(axis: int) -> Callable[[Mapping[str, Array]], Array | None]:
    """Return what `t` times the difference of faces is, None where faces have other points."""
    name = {1: "w", 2: "v", 3: "u"}[axis]

    def expected(values: Mapping[str, Array]) -> Array | None:
        face = values[name]
        few = values["t"].shape[axis]
        low: list[int] = list(range(few))
        if face.shape[axis] == few:
            return values["t"] * (_shift(face, axis, 1) - face)
        high = [at + 1 for at in low]
        return values["t"] * (np.take(face, high, axis) - np.take(face, low, axis))

    return expected


def _first(values: Mapping[str, Array]) -> Array:
    made = values["t"].copy()
    made[:, 0] += 5.0
    return made


def _last(values: Mapping[str, Array]) -> Array:
    made = values["t"].copy()
    made[:, -1] += 5.0
    return made


def _interval(bounds: str) -> str:
    return (
        "def f(t: Field[float], out: Field[float]):\n"
        "    with computation(PARALLEL):\n        with interval(...):\n            out = t\n"
        f"    with computation(PARALLEL):\n        with interval({bounds}):\n"
        "            out = t + 5.0\n"
    )


def _place(axis: int) -> Callable[[Mapping[str, Array]], Array]:
    def expected(values: Mapping[str, Array]) -> Array:
        made = np.zeros_like(values["t"])
        first = (slice(None),) * axis + (slice(0, 1),)
        made[first] = values["t"][first]
        return made

    return expected


def _region(place: str) -> str:
    return f"{_head('t')}0.0\n        with horizontal(region[{place}]):\n            out = t\n"


#: Programs by name: the variables they need, the text, and the values of `out`.
PROGRAMS: Mapping[str, tuple[tuple[str, ...], str, Callable[[Mapping[str, Array]], Any]]] = {
    "point": (("t",), _head("t") + "2.0 * t\n", lambda v: 2.0 * v["t"]),
    "x": (("t", "dx"), _head("t") + "t[1, 0, 0] - t\n", lambda v: _shift(v["t"], 3, 1) - v["t"]),
    "y": (("t", "dy"), _head("t") + "t[0, -1, 0] - t\n", lambda v: _shift(v["t"], 2, -1) - v["t"]),
    "z": (("t", "dz"), _head("t") + "t[0, 0, 1] - t\n", lambda v: _shift(v["t"], 1, 1) - v["t"]),
    "first level": (("t",), _interval("0, 1"), _first),
    "last level": (("t",), _interval("-1, None"), _last),
    "level": (("t",), _head("t") + "t if K == 0 else 0.0\n", _place(1)),
    "row": (("t",), _region(":, J[0]"), _place(2)),
    "column": (("t",), _region("I[0], :"), _place(3)),
    "flux in x": (("t", "u"), _head("t", "u") + "t * (u[1, 0, 0] - u)\n", _flux(3)),
    "flux in y": (("t", "v"), _head("t", "v") + "t * (v[0, 1, 0] - v)\n", _flux(2)),
    "flux in z": (("t", "w"), _head("t", "w") + "t * (w[0, 0, 1] - w)\n", _flux(1)),
    "product": (("t", "u"), _head("t", "u") + "t * u\n", lambda v: _product(v, "u")),
    "product in z": (("t", "w"), _head("t", "w") + "t * w\n", lambda v: _product(v, "w")),
    "metric in x": (
        ("t", "dx"),
        _head("t", "dx") + "t[0, 0, 0] * dx\n",
        lambda v: v["t"] * v["dx"],
    ),
    "metric in y": (
        ("t", "dy", "dx"),
        _head("t", "dy") + "dy * (t[1, 0, 0] - t)\n",
        lambda v: v["dy"] * (_shift(v["t"], 3, 1) - v["t"]),
    ),
    "sum": (
        ("t",),
        "def f(t: Field[float], out: Field[float]):\n    with computation(FORWARD):\n"
        "        with interval(0, 1):\n            out = t\n"
        "        with interval(1, None):\n            out = out[0, 0, -1] + t\n",
        lambda v: np.cumsum(v["t"], 1),
    ),
    "flat sum": (
        ("t",),
        "def f(t: Field[float], out: Field[IJ, float]):\n    with computation(FORWARD):\n"
        "        with interval(0, 1):\n            out = t\n"
        "        with interval(1, None):\n            out = out + t\n",
        lambda v: np.sum(v["t"], 1, keepdims=True),
    ),
}


def _product(values: Mapping[str, Array], name: str) -> Array | None:
    """Return the product of cells and their lower faces."""
    few = {"u": values["t"].shape[3], "w": values["t"].shape[1]}[name]
    return values["t"] * np.take(values[name], range(few), {"u": 3, "w": 1}[name])
