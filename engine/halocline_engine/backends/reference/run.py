"""Run a program with NumPy, statement by statement, exactly as `ir.nodes` says what it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import numpy as np

from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.base import HostArray, Value
from halocline_engine.backends.host import HostMemory
from halocline_engine.backends.reference.values import evaluate
from halocline_engine.ir.extent import CENTRE, Horizontal
from halocline_engine.ir.nodes import Assign, Block, Expr, If, Program, Read, Statement
from halocline_engine.ir.types import Axis, Order

__all__ = ["ReferenceExecutable"]

#: Indices relative to the domain's first point: (first, one past the last) along I, J and K.
_Box: TypeAlias = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ReferenceExecutable:
    """`backends.base.Executable` that interprets the program."""

    program: Program

    @property
    def memory(self) -> HostMemory:
        """NumPy arrays."""
        return HostMemory()

    def repeat(self, work: Callable[[], None], times: int) -> None:
        """Do work again; a call costs little on the host."""
        for _ in range(times):
            work()

    def __call__(
        self,
        fields: Mapping[str, HostArray],
        scalars: Mapping[str, Value],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
    ) -> None:
        """Run once, on the caller's arrays."""
        if 0 in domain:
            return
        facts = analyse(self.program)
        stores = {
            field.name: _Store(fields[field.name], origins[field.name], frozenset(field.axes))
            for field in self.program.fields
            if field.read or field.written
        }
        for temporary in self.program.temporaries:
            stores[temporary.name] = _temporary(
                np.dtype(temporary.dtype.value), facts.temporaries[temporary.name], domain
            )
        temporaries = frozenset(temporary.name for temporary in self.program.temporaries)
        machine = _Machine(stores, temporaries, scalars, domain)
        with np.errstate(all="ignore"):
            for computation, blocks in zip(
                self.program.computations, facts.statements, strict=True
            ):
                for block, extents in zip(computation.blocks, blocks, strict=True):
                    machine.block(block, computation.order, extents)


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


def _temporary(dtype: np.dtype[Any], extent: Horizontal, domain: tuple[int, int, int]) -> _Store:
    """Return a temporary on the domain widened by its extent, holding zero."""
    (i_low, i_high), (j_low, j_high) = extent
    ni, nj, nk = domain
    array = np.zeros((ni + i_high - i_low, nj + j_high - j_low, nk), dtype)
    return _Store(array, (-i_low, -j_low, 0), frozenset(Axis))


@dataclass(frozen=True, slots=True)
class _Machine:
    """The state of a run: where the values are."""

    stores: Mapping[str, _Store]
    temporaries: frozenset[str]
    scalars: Mapping[str, Value]
    domain: tuple[int, int, int]

    def block(self, block: Block, order: Order, extents: tuple[Horizontal, ...]) -> None:
        """Run a block on the whole of its levels at once, or on one after the other."""
        levels = self.domain[2]
        start, end = block.interval.start.level(levels), block.interval.end.level(levels)
        match order:
            case Order.PARALLEL:
                self.body(block, extents, (start, end))
            case Order.FORWARD:
                for level in range(start, end):
                    self.body(block, extents, (level, level + 1))
            case Order.BACKWARD:
                for level in reversed(range(start, end)):
                    self.body(block, extents, (level, level + 1))
            case _:
                assert_never(order)

    def body(self, block: Block, extents: tuple[Horizontal, ...], levels: tuple[int, int]) -> None:
        """Run the statements of a block on some levels, each on all points before the next."""
        for statement, extent in zip(block.body, extents, strict=True):
            self.statement(statement, extent, levels, None)

    def statement(
        self,
        statement: Statement,
        extent: Horizontal,
        levels: tuple[int, int],
        mask: HostArray | None,
    ) -> None:
        """Run one statement where `mask`, on the box of `extent`, is true or is None."""
        match statement:
            case Assign(target, value):
                where = extent if target in self.temporaries else CENTRE
                box = self.box(where, levels)
                chosen = True if mask is None else _crop(mask, extent, where)
                view = self.stores[target].at(box)
                np.copyto(view, self.value(value, box), where=chosen)
            case If(condition, then, otherwise):
                box = self.box(extent, levels)
                shape = tuple(high - low for low, high in box)
                test = np.broadcast_to(self.value(condition, box), shape).copy()
                outer = np.True_ if mask is None else mask
                for inner in then:
                    self.statement(inner, extent, levels, outer & test)
                for inner in otherwise:
                    self.statement(inner, extent, levels, outer & ~test)
            case _:
                assert_never(statement)

    def box(self, extent: Horizontal, levels: tuple[int, int]) -> _Box:
        """Return the domain widened by an extent, on some levels."""
        (i_low, i_high), (j_low, j_high) = extent
        ni, nj, _ = self.domain
        return (i_low, ni + i_high), (j_low, nj + j_high), levels

    def value(self, expr: Expr, box: _Box) -> HostArray:
        """Return the value of an expression on a box, broadcastable to it."""

        def read(node: Read) -> HostArray:
            return self.stores[node.name].at(box, node.offset)

        return evaluate(expr, read, self.scalars)


def _crop(mask: HostArray, extent: Horizontal, inner: Horizontal) -> HostArray:
    """Return the part of a mask on `extent` that lies on `inner`, which is inside it."""
    index = tuple(
        slice(low - outer_low, size - (outer_high - high))
        for (low, high), (outer_low, outer_high), size in zip(
            inner, extent, mask.shape[:2], strict=True
        )
    )
    return mask[index]
