"""Datasets of several files as one: joined along the dimension in which they differ.

The files go in the order of their coordinate there. Everything else must be the same in all.
Values are read when they are asked for, from the files that have them.
"""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

__all__ = ["Joint", "Read", "join_datasets", "joint_of", "region_in_parts"]

_XARRAY: Any = xr
#: Bytes up to which variables without the dimension are compared.
_COMPARED = 16 << 20
#: Reads a region of a variable of one of the datasets.
Read = Callable[[int, str, tuple[slice, ...]], NDArray[Any]]
_Refuse = Callable[..., Exception]


@dataclass(frozen=True, slots=True)
class Joint:
    """The dimension along which datasets are joined, their order, and where each begins.

    `starts` has the length of the whole as its last element.
    """

    dim: str
    order: tuple[int, ...]
    starts: tuple[int, ...]


def region_in_parts(
    starts: Sequence[int], region: tuple[slice, ...], axis: int
) -> Iterator[tuple[int, tuple[slice, ...]]]:
    """Yield the parts that a region touches, with the region in each.

    >>> [(at, part[0]) for at, part in region_in_parts((0, 3, 5), (slice(2, 4),), 0)]
    [(0, slice(2, 3, None)), (1, slice(0, 1, None))]
    """
    low, high, _ = region[axis].indices(starts[-1])
    for at, (start, end) in enumerate(itertools.pairwise(starts)):
        first, last = max(low, start), min(high, end)
        if first < last:
            part = slice(first - start, last - start)
            yield at, (*region[:axis], part, *region[axis + 1 :])


def joint_of(named: Sequence[tuple[str, xr.Dataset]], refuse: _Refuse) -> Joint:
    """Return how datasets are joined, each of which has a name for messages.

    Raises what `refuse` makes, of a sentence and a `hint`, where they do not fit.
    """
    dim = _differing(named, refuse)
    order = _ordered(named, dim, refuse)
    first = named[order[0]]
    for at in order[1:]:
        _check_alike(first, named[at], dim, refuse)
    sizes = [named[at][1].sizes[dim] for at in order]
    return Joint(dim, tuple(order), (0, *np.cumsum(sizes).tolist()))


def join_datasets(datasets: Sequence[xr.Dataset], joint: Joint, read: Read) -> xr.Dataset:
    """Return datasets, which are in order, as one; `read` reads values of one of them."""
    first: Any = datasets[0]
    variables: dict[Any, Any] = {}
    for name, variable in first.variables.items():
        if joint.dim not in variable.dims:
            variables[name] = variable
            continue
        parts = [cast("Any", one).variables[name] for one in datasets]
        if name in first.xindexes or variable.dtype.kind in "OSUT" or variable.ndim == 1:
            values = np.concatenate([part.values for part in parts])
            variables[name] = _XARRAY.Variable(variable.dims, values, variable.attrs)
        else:
            array = _JoinedArray(str(name), parts, variable.dims.index(joint.dim), joint, read)
            lazy = _XARRAY.core.indexing.LazilyIndexedArray(array)
            variables[name] = _XARRAY.Variable(variable.dims, lazy, variable.attrs)
        chunks = variable.encoding.get("preferred_chunks")
        variables[name].encoding = {
            key: value
            for key, value in variable.encoding.items()
            if key in ("units", "calendar", "grid_mapping", "bounds")
        } | ({} if chunks is None else {"preferred_chunks": chunks})
    coords = {name: variables.pop(name) for name in first.coords}
    return _XARRAY.Dataset(variables, coords, first.attrs)


class _JoinedArray(_XARRAY.backends.BackendArray):
    """A variable of several datasets, read from where each region lies."""

    def __init__(
        self, name: str, parts: Sequence[Any], axis: int, joint: Joint, read: Read
    ) -> None:
        self._name, self._axis, self._starts, self._read = name, axis, joint.starts, read
        shape = list(parts[0].shape)
        shape[axis] = joint.starts[-1]
        self.shape = tuple(shape)
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def __getitem__(self, key: Any) -> Any:
        indexing = _XARRAY.core.indexing
        basic = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, basic, self._values)

    def _values(self, key: tuple[Any, ...]) -> NDArray[Any]:
        """Return the values of whole numbers and slices: boxes are read, and cut."""
        spans = [_box(one, size) for one, size in zip(key, self.shape, strict=True)]
        parts = [
            self._read(at, self._name, region)
            for at, region in region_in_parts(self._starts, tuple(spans), self._axis)
        ]
        shape = tuple(one.stop - one.start for one in spans)
        whole = np.concatenate(parts, axis=self._axis) if parts else np.empty(shape, self.dtype)
        steps: list[Any] = [getattr(one, "step", 0) for one in key]
        inside = tuple(0 if step == 0 else slice(None, None, step) for step in steps)
        return whole.astype(self.dtype, copy=False)[inside]


def _box(part: Any, size: int) -> slice:
    """Return the cells that a number, or a slice with a positive step, spans."""
    if not isinstance(part, slice):
        return slice(int(part), int(part) + 1)
    low, high, _ = part.indices(size)
    return slice(low, max(low, high))


def _differing(named: Sequence[tuple[str, xr.Dataset]], refuse: _Refuse) -> str:
    """Return the only dimension whose size or coordinate is not the same in all."""
    (place, first), dims = named[0], list[str]()
    for dim in map(str, first.sizes):
        for other, dataset in named[1:]:
            if dim not in dataset.sizes:
                raise refuse(
                    f"'{place}' has the dimension '{dim}', but '{other}' has not.",
                    hint="Leave that one out.",
                )
        if any(not _same_coordinate(first, dataset, dim) for _, dataset in named[1:]):
            dims.append(dim)
    if not dims:
        raise refuse(
            f"'{place}' and '{named[1][0]}' do not say in which order they follow each other: their"
            " coordinates are the same.",
            hint="Join them with xarray.concat, and pass the dataset.",
        )
    if len(dims) > 1:
        both = ", ".join(f"'{dim}'" for dim in dims)
        other = next(name for name, one in named[1:] if not _same_coordinate(first, one, dims[1]))
        raise refuse(
            f"'{place}' and '{other}' differ along the dimensions {both}, but files are joined"
            " along one.",
            hint="Remove unrelated files, or open them with xarray.open_mfdataset.",
        )
    return dims[0]


def _same_coordinate(first: xr.Dataset, other: xr.Dataset, dim: str) -> bool:
    if first.sizes[dim] != other.sizes[dim] or (dim in first.coords) != (dim in other.coords):
        return False
    return dim not in first.coords or bool(_index(first, dim).equals(_index(other, dim)))


def _index(dataset: xr.Dataset, dim: str) -> Any:
    return cast("Any", dataset).indexes[dim]


def _ordered(named: Sequence[tuple[str, xr.Dataset]], dim: str, refuse: _Refuse) -> list[int]:
    """Return the order of datasets by their coordinate; without one, that of the list."""
    lacking = [place for place, one in named if dim not in one.coords]
    if len(lacking) == len(named):
        return [*range(len(named))]
    if lacking:
        raise refuse(
            f"'{lacking[0]}' has no coordinate '{dim}', along which the files are joined.",
            hint="Give it one, or leave the file out.",
        )
    filled = [at for at, (_, one) in enumerate(named) if one.sizes[dim]]
    indexes = {at: _index(named[at][1], dim) for at in filled}
    try:
        rising = all(index.is_monotonic_increasing for index in indexes.values())
        order = sorted(filled, key=lambda at: indexes[at][0], reverse=not rising)
        for before, after in itertools.pairwise(order):
            last, first = indexes[before][-1], indexes[after][0]
            steps = indexes[after].is_monotonic_increasing or indexes[after].is_monotonic_decreasing
            if not steps or not (last < first if rising else last > first):
                raise refuse(
                    f"'{named[after][0]}' does not follow '{named[before][0]}' along '{dim}': it"
                    f" begins at {first}, and the other one ends at {last}.",
                    hint="Leave one of them out, or cut the part that both have.",
                )
    except TypeError as error:  # dates of different calendars, numbers and texts
        raise refuse(
            f"The coordinates '{dim}' of the files cannot be compared: {error}.",
            hint="Give them one type and calendar.",
        ) from error
    return order or [0]


def _check_alike(
    first: tuple[str, xr.Dataset], other: tuple[str, xr.Dataset], dim: str, refuse: _Refuse
) -> None:
    (place, one), (there, two) = first, other
    both: tuple[Any, Any] = one.variables, two.variables
    for name in (*both[0], *both[1]):
        if name not in both[0] or name not in both[1]:
            has, lacks = (place, there) if name in both[0] else (there, place)
            raise refuse(
                f"Variable '{name}' is in '{has}', but not in '{lacks}'.",
                hint="Leave the variable, or one of the files, out.",
            )
        here, also = both[0][name], both[1][name]
        for what, got, expected in (
            ("the dimensions", also.dims, here.dims),
            ("the units", also.attrs.get("units"), here.attrs.get("units")),
            ("values of the kind", _kind(also), _kind(here)),
        ):
            if got != expected:
                raise refuse(
                    f"'{name}' has {what} {_shown(expected)} in '{place}', but {_shown(got)} in"
                    f" '{there}'.",
                    hint="Make them alike, or leave one of the files out.",
                )
        is_fixed = dim not in here.dims
        if is_fixed and (here.shape != also.shape or not _same_values(here, also)):
            raise refuse(
                f"'{name}' has other values in '{there}' than in '{place}'.",
                hint="Leave the variable, or one of the files, out.",
            )


def _kind(variable: Any) -> str:
    """Return what may be mixed: numbers are, and so are texts."""
    kind = str(variable.dtype.kind)
    kinds = {"i": "number", "u": "number", "f": "number"} | dict.fromkeys("OSUT", "text or object")
    return kinds.get(kind, kind)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(str, cast('tuple[object, ...]', value)))})"
    return "none" if value is None else reprlib.repr(value)


def _same_values(one: Any, two: Any) -> bool:
    return one.nbytes > _COMPARED or bool(one.equals(two))
