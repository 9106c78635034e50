"""Run a program with NumPy, statement by statement, exactly as `ir.nodes` says what it means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, assert_never

import numpy as np

from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.base import HostArray, HostFields, Origins, Point, Scalars
from halocline_engine.backends.host import HostExecutable
from halocline_engine.backends.reference.values import Prepared, prepare
from halocline_engine.ir.extent import CENTRE, Facts, Horizontal
from halocline_engine.ir.nodes import (
    Assign,
    Block,
    Expr,
    If,
    Program,
    Read,
    Statement,
    While,
)
from halocline_engine.ir.types import Axis, Order

__all__ = ["ReferenceExecutable"]

#: Indices relative to the domain's first point: (first, one past the last) along I, J and K.
_Box: TypeAlias = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
#: A statement on its box: does its work where the mask, on the box of its extent, is true or None.
_Act: TypeAlias = Callable[[HostArray | None], None]


@dataclass(frozen=True)
class ReferenceExecutable(HostExecutable):
    """`backends.base.Executable` that interprets the program."""

    program: Program

    def __call__(
        self, fields: HostFields, scalars: Scalars, origins: Origins, domain: Point
    ) -> None:
        """Run once, on the caller's arrays."""
        if 0 not in domain:
            with np.errstate(all="ignore"):
                for act in self._acts(self._machine(fields, scalars, origins, domain)):
                    act(None)

    def prepared(
        self, fields: HostFields, scalars: Scalars, origins: Origins, domain: Point
    ) -> Callable[[], None]:
        """Return the call as one that can be made again; see `backends.base.Preparable`."""
        if 0 in domain:
            return _nothing
        machine = self._machine(fields, scalars, origins, domain)
        acts = tuple(self._acts(machine))

        def run() -> None:
            for name in machine.temporaries:
                machine.stores[name].array.fill(0)
            with np.errstate(all="ignore"):
                for act in acts:
                    act(None)

        return run

    def _machine(
        self, fields: HostFields, scalars: Scalars, origins: Origins, domain: Point
    ) -> _Machine:
        stores = {
            field.name: _Store(fields[field.name], origins[field.name], frozenset(field.axes))
            for field in self.program.fields
            if field.read or field.written
        }
        for temporary in self.program.temporaries:
            extent = self._facts.temporaries[temporary.name]
            stores[temporary.name] = _temporary(np.dtype(temporary.dtype.value), extent, domain)
        temporaries = frozenset(temporary.name for temporary in self.program.temporaries)
        return _Machine(stores, temporaries, scalars, domain)

    @cached_property
    def _facts(self) -> Facts:
        return analyse(self.program)

    def _acts(self, machine: _Machine) -> Iterator[_Act]:
        """Yield what a run does, in order."""
        for computation, blocks in zip(
            self.program.computations, self._facts.statements, strict=True
        ):
            for block, extents in zip(computation.blocks, blocks, strict=True):
                yield from machine.block(block, computation.order, extents)


@dataclass(frozen=True, slots=True)
class _Store:
    """An array and where the domain's first point lies in it."""

    array: HostArray
    origin: tuple[int, int, int]
    axes: frozenset[Axis]

    def at(self, box: _Box, offset: tuple[int, int, int] = (0, 0, 0)) -> HostArray:
        """Return the view of a box moved by an offset; it has one point along absent axes."""
        index = tuple(
            slice(start + low + step, start + high + step) if axis in self.axes else slice(0, 1)
            for axis, start, (low, high), step in zip(Axis, self.origin, box, offset, strict=True)
        )
        return self.array[index]

    def column(self, box: _Box, offset: tuple[int, int, int] = (0, 0, 0)) -> HostArray:
        """Return the view of a box moved by an offset along I and J, with all levels there are."""
        first = -self.origin[2]
        levels = (first, first + self.array.shape[2])
        return self.at((box[0], box[1], levels), offset)


def _looked_up(store: _Store, node: Read, level: Prepared, box: _Box) -> Prepared:
    """Return what gives the values of an array at levels that an expression gives."""
    i, j, _ = node.offset
    column, shape = store.column(box, (i, j, 0)), _shape(box)
    whole = np.broadcast_to(column, (*shape[:2], column.shape[2]))

    def found() -> HostArray:
        places = np.broadcast_to(level() + store.origin[2], shape)
        return np.take_along_axis(whole, places, axis=2)

    return found


def _shape(box: _Box) -> tuple[int, int, int]:
    """Return how many points a box has along I, J and K."""
    (i0, i1), (j0, j1), (k0, k1) = box
    return i1 - i0, j1 - j0, k1 - k0


def _nothing() -> None:
    """Run a program on no points."""


def _temporary(dtype: np.dtype[Any], extent: Horizontal, domain: Point) -> _Store:
    """Return a temporary on the domain widened by its extent, holding zero."""
    (i_low, i_high), (j_low, j_high) = extent
    ni, nj, nk = domain
    array = np.zeros((ni + i_high - i_low, nj + j_high - j_low, nk), dtype)
    return _Store(array, (-i_low, -j_low, 0), frozenset(Axis))


@dataclass(frozen=True, slots=True)
class _Machine:
    """State of a run: the storage of its values."""

    stores: Mapping[str, _Store]
    temporaries: frozenset[str]
    scalars: Scalars
    domain: Point

    def block(self, block: Block, order: Order, extents: tuple[Horizontal, ...]) -> Iterator[_Act]:
        """Yield a block on the whole of its levels at once, or on one after the other."""
        levels = self.domain[2]
        start, end = block.interval.start.level(levels), block.interval.end.level(levels)
        match order:
            case Order.PARALLEL:
                yield from self.body(block, extents, (start, end))
            case Order.FORWARD:
                for level in range(start, end):
                    yield from self.body(block, extents, (level, level + 1))
            case Order.BACKWARD:
                for level in reversed(range(start, end)):
                    yield from self.body(block, extents, (level, level + 1))
            case _:
                assert_never(order)

    def body(
        self, block: Block, extents: tuple[Horizontal, ...], levels: tuple[int, int]
    ) -> Iterator[_Act]:
        """Yield the statements of a block on some levels, each on all points before the next."""
        for statement, extent in zip(block.body, extents, strict=True):
            yield self.statement(statement, extent, levels)

    def statement(self, statement: Statement, extent: Horizontal, levels: tuple[int, int]) -> _Act:
        """Return one statement on some levels."""
        match statement:
            case Assign(target, value, _, level):
                if level is not None:
                    return self.scatter(target, level, value, extent, levels)
                return self.assign(target, value, extent, levels)
            case While(condition, body):
                return self.turns(condition, body, extent, levels)
            case If(condition, then, otherwise):
                box = self.box(extent, levels)
                shape = _shape(box)
                test = self.value(condition, box)
                yes = [self.statement(inner, extent, levels) for inner in then]
                no = [self.statement(inner, extent, levels) for inner in otherwise]

                def choose(mask: HostArray | None) -> None:
                    found = np.broadcast_to(test(), shape).copy()
                    outer = np.True_ if mask is None else mask
                    for act in yes:
                        act(outer & found)
                    for act in no:
                        act(outer & ~found)

                return choose
            case _:
                assert_never(statement)

    def assign(self, target: str, value: Expr, extent: Horizontal, levels: tuple[int, int]) -> _Act:
        """Return an assignment on some levels."""
        where = extent if target in self.temporaries else CENTRE
        box = self.box(where, levels)
        view = self.stores[target].at(box)
        found = self.value(value, box)

        def act(mask: HostArray | None) -> None:
            chosen = True if mask is None else _crop(mask, extent, where)
            np.copyto(view, found(), where=chosen)

        return act

    def scatter(
        self, target: str, level: Expr, value: Expr, extent: Horizontal, levels: tuple[int, int]
    ) -> _Act:
        """Return an assignment at levels that an expression gives, on one level."""
        where = extent if target in self.temporaries else CENTRE
        box = self.box(where, levels)
        store, shape = self.stores[target], _shape(box)
        at, found = self.value(level, box), self.value(value, box)
        whole = store.column(box)

        def act(mask: HostArray | None) -> None:
            chosen = np.True_ if mask is None else _crop(mask, extent, where)
            i, j, k = np.nonzero(np.broadcast_to(chosen, shape))
            places = np.broadcast_to(at(), shape)[i, j, k] + store.origin[2]
            whole[i, j, places] = np.broadcast_to(found(), shape)[i, j, k]

        return act

    def turns(
        self,
        condition: Expr,
        body: tuple[Statement, ...],
        extent: Horizontal,
        levels: tuple[int, int],
    ) -> _Act:
        """Return a `While` on some levels."""
        box = self.box(extent, levels)
        shape, test = _shape(box), self.value(condition, box)
        acts = [self.statement(inner, extent, levels) for inner in body]

        def act(mask: HostArray | None) -> None:
            active = np.broadcast_to(test(), shape) & (np.True_ if mask is None else mask)
            while active.any():
                for each in acts:
                    each(active)
                active = active & test()

        return act

    def box(self, extent: Horizontal, levels: tuple[int, int]) -> _Box:
        """Return the domain widened by an extent, on some levels."""
        (i_low, i_high), (j_low, j_high) = extent
        ni, nj, _ = self.domain
        return (i_low, ni + i_high), (j_low, nj + j_high), levels

    def value(self, expr: Expr, box: _Box) -> Callable[[], HostArray]:
        """Return what gives the value of an expression on a box, broadcastable to it."""

        def read(node: Read) -> Prepared:
            store = self.stores[node.name]
            if node.level is not None:
                return _looked_up(store, node, self.value(node.level, box), box)
            view = store.at(box, node.offset)
            return lambda: view

        return prepare(expr, read, self.scalars)


def _crop(mask: HostArray, extent: Horizontal, inner: Horizontal) -> HostArray:
    """Return the part of a mask on `extent` that lies on `inner`, which is inside it."""
    index = tuple(
        slice(low - outer_low, size - (outer_high - high))
        for (low, high), (outer_low, outer_high), size in zip(
            inner, extent, mask.shape[:2], strict=True
        )
    )
    return mask[index]
