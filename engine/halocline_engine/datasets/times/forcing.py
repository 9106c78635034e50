"""Forcing: fields of a program that are only read and whose variables vary with time.

Their blocks are read record by record, each when a step first needs it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.chunk_files.packed import packed_source
from halocline_engine.datasets.stores.source import Region, Source, native
from halocline_engine.datasets.times.clock import Clock, TimeRequest
from halocline_engine.datasets.times.dates import calendar_of
from halocline_engine.datasets.times.records import Windows, time_dimension, windows_of
from halocline_engine.datasets.variables import check_distinct, stored_chunks
from halocline_engine.errors import FieldError

__all__ = [
    "ForcedField",
    "Forcing",
    "RecordGroups",
    "RecordSource",
    "calendar_of_forcing",
    "find_forcing",
    "first_records",
    "records_at_once",
]

#: Records of a chunk that are read at once and held, at most, and their bytes.
_RECORDS = 32
_GROUP_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class RecordSource:
    """A variable of a source at one index of its time dimension, axis `place`."""

    source: Source
    place: int
    index: int

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the values of a region of the other dimensions."""
        whole = list(region)
        whole.insert(self.place, slice(self.index, self.index + 1))
        return self.source.read(name, tuple(whole)).squeeze(axis=self.place)


class RecordGroups:
    """Records of a variable, read and cached in groups of `count` of one chunk.

    A chunk of several records would be decoded as a whole for each of them.
    """

    def __init__(self, source: Source, field: ForcedField, count: int) -> None:
        self._source, self._field, self._count = source, field, count
        self._held: dict[tuple[object, ...], tuple[int, NDArray[Any]]] = {}

    def record(self, number: int) -> Source:
        """Return where a record is read."""
        return _GroupedRecord(self, number)

    def read(self, name: str, region: Region, number: int) -> NDArray[Any]:
        """Return the values of a region of a record."""
        field, chunk = self._field, number // self._field.chunk * self._field.chunk
        first = chunk + (number - chunk) // self._count * self._count
        stop = min(first + self._count, chunk + field.chunk, field.size)
        before, after = region[: field.place], region[field.place :]
        key = (name, *((side.start, side.stop) for side in region))
        held = self._held.get(key)
        if held is None or held[0] != first:
            whole = (*before, slice(first, stop), *after)
            held = self._held[key] = first, self._source.read(name, whole)
        return held[1][(*(slice(None),) * field.place, number - first)]


@dataclass(frozen=True, slots=True, eq=False)
class _GroupedRecord:
    """A record of `RecordGroups`, as a source."""

    groups: RecordGroups
    number: int

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the values of a region of the other dimensions."""
        return self.groups.read(name, region, self.number)


def records_at_once(chunk: int, nbytes: int) -> int:
    """Return how many records of a chunk are read at once, where one takes so many bytes.

    >>> records_at_once(24, 1 << 20), records_at_once(744, 1 << 20), records_at_once(24, 1 << 30)
    (24, 32, 1)
    """
    return max(1, min(chunk, _RECORDS, _GROUP_BYTES // max(1, nbytes)))


@dataclass(frozen=True, slots=True, eq=False)
class ForcedField:
    """A forced field: its variable, time dimension at axis `place`, and windows of records.

    `size` is how many records the variable has, and `chunk` how many a chunk of its store has.
    """

    name: str
    variable: str
    dim: str
    place: int
    dtype: str
    size: int
    chunk: int
    windows: Windows

    @property
    def parts(self) -> tuple[str, ...]:
        """The fields that hold records; no text can spell them where there are several."""
        count = self.windows.count
        return (self.name,) if count == 1 else tuple(f"{self.name}.record{n}" for n in range(count))

    @property
    def weights(self) -> tuple[str, ...]:
        """The scalars that weigh all records but the first."""
        return tuple(f"{self.name}.weight{n}" for n in range(1, self.windows.count))


@dataclass(frozen=True, eq=False)
class Forcing:
    """The forcing of a run."""

    fields: tuple[ForcedField, ...] = ()

    @cached_property
    def changes(self) -> tuple[int, ...]:
        """The steps that begin with new records, in order, without the first step."""
        found = {int(step) for one in self.fields for step in one.windows.changes}
        return tuple(sorted(found))

    @property
    def names(self) -> frozenset[str]:
        """The fields that hold records."""
        return frozenset(part for one in self.fields for part in one.parts)

    def longest(self, steps: int) -> int:
        """Return the largest number of steps with the same records."""
        return int(np.max(np.diff([0, *self.changes, steps])))

    def next_change(self, done: int) -> float:
        """Return the first step after `done` steps with new records, infinity for none."""
        at = int(np.searchsorted(self.changes, done, "right"))
        return self.changes[at] if at < len(self.changes) else math.inf

    def records(self, step: int) -> dict[str, int]:
        """Return the record that each field holds in a step."""
        return {
            part: int(number)
            for one in self.fields
            for part, number in zip(one.parts, one.windows.records[step], strict=True)
        }

    def record(self, source: Source, name: str, number: int) -> Source:
        """Return where a record of a field is read, as fast as it can be."""
        one = next(one for one in self.fields if name in one.parts)
        return RecordSource(packed_source(source, one.variable, one.dtype), one.place, number)

    def groups(self, source: Source, nbytes: Mapping[str, int]) -> dict[str, RecordGroups]:
        """Return the groups of records to prefetch; `nbytes` is the size of a record by field."""
        return {
            part: groups
            for one in self.fields
            for groups in (
                RecordGroups(
                    packed_source(source, one.variable, one.dtype),
                    one,
                    records_at_once(one.chunk, nbytes[one.parts[0]]),
                ),
            )
            for part in one.parts
        }

    def sources(
        self, sources: Iterable[tuple[str, Source, str]], source: Source, step: int
    ) -> tuple[tuple[str, Source, str], ...]:
        """Return where fields are read in a step: the same `sources`, but records of forcing."""
        numbers = self.records(step) if self.fields else {}
        return tuple(
            (name, self.record(source, name, numbers[name]) if name in numbers else one, variable)
            for name, one, variable in sources
        )

    def chunks(self) -> dict[str, int]:
        """Return how many records a chunk of the store of each field has."""
        return {part: one.chunk for one in self.fields for part in one.parts}

    def variables(self) -> dict[str, str]:
        """Return the variable of each field that holds a record."""
        return {part: one.variable for one in self.fields for part in one.parts}

    @property
    def identity(self) -> list[object]:
        """What names it: records and weights of each step."""
        return [
            (one.name, one.windows.records.tobytes().hex(), one.windows.weights.tobytes().hex())
            for one in self.fields
        ]


def find_forcing(
    dataset: xr.Dataset,
    inputs: Iterable[str],
    states: Iterable[str],
    variables: Mapping[str, str],
    clock: Clock,
    request: TimeRequest,
) -> Forcing:
    """Return the forcing among the fields that are only read.

    `states` are fields that steps change. Raises `FieldError` where one of them varies with time,
    and what `windows_of` raises; values that are read are times alone.
    """
    for name in states:
        dim = _dimension(dataset, variables.get(name, name))
        if dim is not None:
            raise FieldError(
                f"Field '{name}' is changed by steps, but variable '{variables.get(name, name)}'"
                f" varies along '{dim}', the time.",
                hint=f"Select where the run begins: dataset.isel({dim}=-1) for the last time.",
            )
    return Forcing(tuple(_forced(dataset, inputs, variables, clock, request)))


def calendar_of_forcing(
    dataset: xr.Dataset, inputs: Iterable[str], variables: Mapping[str, str]
) -> str | None:
    """Return the calendar of the first field that varies with time; None where none does."""
    for name in inputs:
        dim = _dimension(dataset, variables.get(name, name))
        if dim is not None and dataset[dim].size:
            return calendar_of(dataset[dim].values[0])
    return None


def first_records(dataset: xr.Dataset, forcing: Forcing) -> xr.Dataset:
    """Return a dataset whose forcing has no dimension of time, but the first records of the run."""
    found: dict[str, xr.DataArray] = {}
    for one in forcing.fields:
        array = dataset[one.variable]
        chosen = array.isel({one.dim: int(one.windows.records[0, 0])})
        made = chosen.drop_vars(one.dim, errors="ignore")
        rest = tuple(size for at, size in enumerate(stored_chunks(array)) if at != one.place)
        made.encoding = {**array.encoding, "chunks": rest}
        found[one.variable] = made
    return dataset.assign(found) if found else dataset


def _forced(
    dataset: xr.Dataset,
    inputs: Iterable[str],
    variables: Mapping[str, str],
    clock: Clock,
    request: TimeRequest,
) -> Iterator[ForcedField]:
    for name in inputs:
        variable = variables.get(name, name)
        dim = _dimension(dataset, variable)
        if dim is None:
            continue
        array = dataset[variable]
        windows = windows_of(dataset, name, dim, clock, request)
        if windows.count > 1 and array.dtype.kind != "f":
            raise FieldError(
                f"Field '{name}' is interpolated in time, for which its values must be floats, but"
                f" variable '{variable}' is {array.dtype}.",
                hint=f"Give 'interpolate': {{'{name}': 'previous'}} in 'time', or convert it.",
            )
        place = [str(one) for one in array.dims].index(dim)
        chunks, size = stored_chunks(array), int(array.sizes[dim])
        chunk = min(chunks[place], size) if chunks else 1
        dtype = native(array.dtype).name
        yield ForcedField(name, variable, dim, place, dtype, size, chunk, windows)


def _dimension(dataset: xr.Dataset, variable: str) -> str | None:
    if variable not in dataset.variables:
        return None
    check_distinct(dataset, variable)
    return time_dimension(dataset, variable)
