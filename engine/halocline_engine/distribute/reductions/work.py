"""Work on blocks: the states of each block, and then the results of all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.reductions import Reducer, reducer_on
from halocline_engine.datasets.diagnostics import Kind
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import region_of
from halocline_engine.distribute.reductions.bound import Reduction
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import Report, Task
from halocline_engine.errors import FieldError
from halocline_engine.kernels.reduce.states import (
    BITS,
    COLUMNS,
    COUNT,
    NAN_PLACE,
    NANS,
    NEGATIVE,
    PLACE,
    POSITIVE,
    States,
    carrier,
    merged_extremes,
    merged_sums,
    whole_sums,
)

__all__ = [
    "MergeWork",
    "StateWork",
    "block_states",
    "has_states",
    "merged_states",
    "place_names",
    "results_of",
]

_BEYOND = 2.0**63


def place_names(reduction: Reduction) -> dict[str, str]:
    """Return the variables that say where an extreme is, by their dimensions."""
    if not reduction.asked.kind.is_extreme:
        return {}
    return {dim: f"{reduction.name}_{dim}" for dim in reduction.reduced}


@dataclass(frozen=True, slots=True, eq=False)
class StateWork:
    """Work of the first pass: the states of each reduction from a block of the dimensions `dims`.

    `own` are the dimensions of each variable, `steps` are the sizes of blocks.
    """

    reductions: tuple[Reduction, ...]
    own: Mapping[str, tuple[str, ...]]
    dims: tuple[str, ...]
    steps: Mapping[str, int]
    source: Source
    states: Sink
    target: str

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Read a block of each variable once, and write the states."""
        task, spans = Task(block, cancelled), dict(zip(self.dims, block.extra, strict=True))
        begins = [one for one in self.reductions if has_states(one, spans)]
        names = dict.fromkeys(name for one in begins for name in one.variables)
        read = {n: task.read(self.source, n, region_of(self.own[n], spans)) for n in names}
        with task.computing():
            reducer = reducer_on(self.target)
            found = [block_states(one, read, self.own, spans, reducer) for one in begins]
        for one, states in zip(begins, found, strict=True):
            piece = _piece_of(one, spans, self.steps)
            kept = region_of(one.kept, spans)
            region = (slice(piece, piece + 1), *kept, slice(None), slice(None))
            task.write(self.states, one.name, region, states[np.newaxis])
        return task.report()


def has_states(one: Reduction, spans: Mapping[str, Span]) -> bool:
    """Whether this block is the first with its cells of a reduction."""
    return all(span.start == 0 for dim, span in spans.items() if dim not in one.dims)


def block_states(
    one: Reduction,
    read: Mapping[str, NDArray[Any]],
    own: Mapping[str, tuple[str, ...]],
    spans: Mapping[str, Span],
    reducer: Reducer,
) -> States:
    """Return the states of a block, indexed [kept dimensions..., group, column].

    `read` are the block's cells of variables, and `own` their dimensions.
    """
    lengths = {
        dim: size
        for name in one.variables
        for dim, size in zip(own[name], read[name].shape, strict=True)
    }
    whole = {name: _aligned(read[name], own[name], one.dims, lengths) for name in one.variables}
    states = _states_of(one, whole, reducer)
    if one.asked.kind.is_extreme:
        firsts = [spans[dim].start for dim in one.reduced]
        shape = [lengths[dim] for dim in one.reduced]
        _move_places(states, shape, firsts, [one.sizes[dim] for dim in one.reduced])
    return states.reshape(*(lengths[dim] for dim in one.kept), one.groups, one.columns)


def _piece_of(one: Reduction, spans: Mapping[str, Span], steps: Mapping[str, int]) -> int:
    """Return the number of the block among those of its group."""
    piece = 0
    for dim in one.reduced:
        piece = piece * max(1, -(-one.sizes[dim] // steps[dim])) + spans[dim].start // steps[dim]
    return piece


def _aligned(
    values: NDArray[Any], own: tuple[str, ...], dims: tuple[str, ...], lengths: Mapping[str, int]
) -> NDArray[Any]:
    """Return values broadcast to all dimensions."""
    order = [dim for dim in dims if dim in own]
    turned = values.transpose([own.index(dim) for dim in order])
    shaped = turned.reshape([lengths[dim] if dim in own else 1 for dim in dims])
    return np.broadcast_to(shaped, [lengths[dim] for dim in dims])


def _states_of(one: Reduction, read: Mapping[str, NDArray[Any]], reducer: Reducer) -> States:
    """Return the states of each row of cells that are reduced together, and of each group.

    `read` are the variables, each with all dimensions of the reduction.
    """
    values = one.value.values(read)
    shape = values.shape
    codes = _codes(one, read, values)
    order = [one.dims.index(dim) for dim in (*one.kept, *one.reduced)]
    rows = math.prod(shape[one.dims.index(dim)] for dim in one.kept)
    reduced = [shape[one.dims.index(dim)] for dim in one.reduced] or [1]

    def in_rows(array: NDArray[Any]) -> NDArray[Any]:
        cells = array.size // rows if rows else 0
        return np.ascontiguousarray(array.transpose(order)).reshape(rows, cells)

    def in_lines(array: NDArray[Any]) -> NDArray[Any]:
        """Return [row, line, cell], a view of padded rows too where two dimensions suffice."""
        return array.transpose(order).reshape(rows, math.prod(reduced[:-1]), reduced[-1])

    marks = None if codes is None else in_rows(codes)
    kind = one.asked.kind
    if kind.is_extreme:
        largest = kind is Kind.MAX
        return reducer.find_extremes(in_rows(values), marks, one.groups, largest=largest)
    if one.columns == 1:
        counts = marks if marks is not None else np.zeros((rows, values.size // max(1, rows)), int)
        if kind is Kind.COUNT and values.dtype.kind == "f":
            counts = np.where(np.isnan(in_rows(values)), -1, counts)
        return _counted(counts, one.groups)
    weights = None if one.weights is None else one.weights.values(read)
    if kind is Kind.HISTOGRAM and weights is not None:
        return reducer.add_up(in_rows(weights), marks, one.groups)
    if kind is Kind.NORM and weights is None:
        weights = values
    elif kind is Kind.NORM:
        values = np.square(values, dtype=np.float64)
    of = in_lines if marks is None else in_rows
    factors = None if weights is None else of(weights)
    states = reducer.add_up(of(values), marks, one.groups, factors)
    if kind is not Kind.MEAN or weights is None:
        return states
    lacks = np.isnan(np.multiply(values, weights, dtype=np.float64))
    present = np.where(lacks, np.nan, weights)
    return np.concatenate([states, reducer.add_up(of(present), marks, one.groups)], axis=1)


def _codes(
    one: Reduction, read: Mapping[str, NDArray[Any]], values: NDArray[Any]
) -> NDArray[np.int64] | None:
    """Return the group of each cell, -1 where it has none, or None where all are in one."""
    codes: NDArray[np.int64] | None = None
    if one.labels is not None:
        given = read[str(one.asked.by)]
        codes = np.searchsorted(one.labels, given).astype(np.int64)
        codes[given != given] = -1
    if one.asked.bins:
        edges = np.array(one.asked.bins)
        bins = (np.searchsorted(edges, values, side="right") - 1).astype(np.int64)
        bins[values == edges[-1]] = len(edges) - 2
        bins[(bins >= len(edges) - 1) | (values != values)] = -1
        both = bins if codes is None else np.where(bins < 0, -1, codes * (len(edges) - 1) + bins)
        codes = both if codes is None else np.where(codes < 0, -1, both)
    return codes


def _counted(codes: NDArray[np.int64], groups: int) -> States:
    rows = len(codes)
    places = codes + groups * np.arange(rows)[:, np.newaxis]
    counts = np.bincount(places[codes >= 0], minlength=rows * groups)
    return counts.astype(np.int64)[:, np.newaxis]


def _move_places(
    states: States, shape: Sequence[int], firsts: Sequence[int], sizes: Sequence[int]
) -> None:
    """Change places within a block to those within the whole."""
    for column in (PLACE, NAN_PLACE):
        known = states[:, column] >= 0
        if known.any() and shape:
            within = np.unravel_index(states[known, column], shape)
            moved = [at + first for at, first in zip(within, firsts, strict=True)]
            states[known, column] = np.ravel_multi_index(moved, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class MergeWork:
    """Work of the second pass: merge the states of all pieces, and write the results.

    The first span of a block is the number of the reduction, the others are of its kept dimensions.
    `coordinates` are values along dimensions.
    """

    reductions: tuple[Reduction, ...]
    pieces: tuple[int, ...]
    coordinates: Mapping[str, NDArray[Any]]
    states: Source
    sink: Sink
    target: str

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Merge the states of some groups."""
        task, number = Task(block, cancelled), block.extra[0].start
        one, spans = self.reductions[number], block.extra[1:]
        kept = tuple(slice(span.start, span.stop) for span in spans)
        merged: States | None = None
        shape: tuple[int, ...] = ()
        for piece in range(self.pieces[number]):
            region = (slice(piece, piece + 1), *kept, slice(None), slice(None))
            states = task.read(self.states, one.name, region)[0]
            shape, rows = states.shape[:-2], states.reshape(-1, one.columns)
            merged = rows.copy() if merged is None else merged_states(one, merged, rows)
        assert merged is not None
        with task.computing():
            results = results_of(one, merged, self.coordinates, reducer_on(self.target))
        outer = (*shape, *one.group_dims.values())
        for name, values in results.items():
            region = (*kept, *(slice(None) for _ in one.group_dims))
            task.write(self.sink, name, region, values.reshape(outer))
        return task.report()


def merged_states(one: Reduction, first: States, second: States) -> States:
    """Return the states of the unions of two, group by group."""
    both = np.stack([first, second])
    if one.asked.kind.is_extreme:
        largest = one.asked.kind is Kind.MAX
        return merged_extremes(both, one.value.dtype, largest=largest)
    if one.columns == 1:
        return first + second
    parts = [both[..., at : at + COLUMNS] for at in range(0, one.columns, COLUMNS)]
    return np.concatenate([merged_sums(part) for part in parts], axis=1)


def results_of(
    one: Reduction, states: States, coordinates: Mapping[str, NDArray[Any]], reducer: Reducer
) -> dict[str, NDArray[Any]]:
    """Return the values of each group by the variables of the result.

    Raises `FieldError` where a sum of whole numbers has no place in its type.
    """
    if one.asked.kind.is_extreme:
        return _extremes(one, states, coordinates)
    if one.columns == 1:
        return {one.name: states[:, 0]}
    sums = reducer.round_sums(states[:, :COLUMNS])
    if one.dtype.kind == "i":
        beyond = np.abs(sums) >= _BEYOND
        if beyond.any():
            raise FieldError(
                f"The sum '{one.name}' is {sums[beyond][0]:.6g}, which has no place in 'int64'.",
                hint=f"Sum '1.0 * {one.value.text}', which gives a float.",
            )
        return {one.name: whole_sums(states)}
    if not one.asked.skipna:
        sums[states[:, NANS] > 0] = np.nan
    match one.asked.kind:
        case Kind.NORM:
            sums = np.sqrt(sums)
        case Kind.MEAN if one.weights is None:
            counts = states[:, COUNT] + states[:, POSITIVE] + states[:, NEGATIVE]
            sums = _divided(sums, counts.astype(np.float64))
        case Kind.MEAN:
            sums = _divided(sums, reducer.round_sums(states[:, COLUMNS:]))
        case _:
            pass
    return {one.name: sums}


def _divided(sums: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by == 0.0, np.nan, sums / by)


def _extremes(
    one: Reduction, states: States, coordinates: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    own = one.value.dtype
    values = np.ascontiguousarray(states[:, BITS]).view(carrier(own)).astype(own)
    places, nan = states[:, PLACE].copy(), states[:, NAN_PLACE] >= 0
    values[places < 0] = np.nan if own.kind == "f" else 0
    if not one.asked.skipna and nan.any():
        places[nan], values[nan] = states[nan, NAN_PLACE], np.nan
    made = {one.name: values}
    if not one.reduced:
        return made
    sizes = [one.sizes[dim] for dim in one.reduced]
    found = np.unravel_index(np.maximum(places, 0), [max(1, size) for size in sizes])
    for (dim, name), at in zip(place_names(one).items(), found, strict=True):
        where = coordinates.get(dim)
        if where is None or not len(where):
            made[name] = np.where(places < 0, -1, at)
        else:
            made[name] = np.where(places < 0, np.nan, where[at].astype(np.float64))
    return made
