"""Plans and matrices applied to arrays in host memory, on any target.

Every function takes arrays indexed [batch, ...] and gives the same bytes on every target. The
target 'cuda' copies a few members of the batch at a time to the device, at most `MEMBER_BYTES` or
one, and their results back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.errors import ArgumentError
from halocline_engine.kernels.indirect import reference
from halocline_engine.kernels.indirect.cuda import Ends, Movers, passes_for
from halocline_engine.kernels.indirect.emit import Product
from halocline_engine.kernels.indirect.grouping import Grouped
from halocline_engine.kernels.indirect.indices import Groups
from halocline_engine.kernels.indirect.plan import IndexPlan, Strategy
from halocline_engine.kernels.indirect.problem import (
    Bytes,
    Direction,
    Duplicates,
    Transfer,
    alignment_of,
)
from halocline_engine.kernels.indirect.sparse import Form, Missing, Sparse, balanced, sliced
from halocline_engine.kernels.machine import Arena, Library, Machine

__all__ = [
    "COMBINABLE",
    "MEMBER_BYTES",
    "PRODUCT_LEVELS",
    "Device",
    "Host",
    "Target",
    "check_combinable",
]

#: Bytes that are on a device at a time for one side of a transfer, if one member is not larger.
MEMBER_BYTES = 2**28
#: Members of a batch that a kernel multiplies at a time.
PRODUCT_LEVELS = {"float32": 4, "float64": 4}
#: Bytes of shared memory that a block may have on any device, and those that grouped gathers keep.
_ANY_SHARED, _KEPT_SHARED = 48 * 2**10, 6 * 2**10
#: Types whose duplicates can be summed, or the least or largest of them taken.
COMBINABLE = ("float32", "float64", "int32", "int64")


@dataclass(frozen=True, slots=True)
class Host:
    """The targets 'cpu' and 'reference': `threads` is 0 for the latter."""

    threads: int = 1

    def apply(self, plan: IndexPlan, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Move the elements of a plan; arrays are indexed [batch, element, value], dense.

        What no index names keeps its value.
        """
        _check(plan, source, target)
        if plan.groups is not None:
            self._combine(plan, source, target, plan.groups)
            return
        read, written = _bytes(source), _bytes(target)
        if plan.strategy is Strategy.SLICES:
            for dense, first, count in plan.runs:
                ranges = (slice(dense, dense + count), slice(first, first + count))
                to, of = ranges if plan.direction is Direction.GATHER else ranges[::-1]
                written[:, to] = read[:, of]
            return
        transfer = _transfer(plan, read)
        if self.threads:
            from halocline_engine.kernels.indirect import cpu

            cpu.move(transfer, read, written, plan.index, threads=self.threads)
        else:
            reference.move(transfer, read, written, plan.index)

    def product(
        self, matrix: Sparse, field: NDArray[Any], form: Form, missing: Missing, least: float
    ) -> NDArray[Any]:
        """Return the product with fields [batch, cell] of type float32 or float64."""
        if self.threads:
            from halocline_engine.kernels.indirect import cpu

            return cpu.product(matrix, field, form, missing, least, threads=self.threads)
        return reference.product(matrix, field, form, missing, least)

    def _combine(
        self, plan: IndexPlan, source: NDArray[Any], target: NDArray[Any], groups: Groups
    ) -> None:
        if self.threads:
            from halocline_engine.kernels.indirect import cpu

            cpu.combine(plan.duplicates, source, target, groups, threads=self.threads)
        else:
            reference.combine(plan.duplicates, source, target, groups)


class Device:
    """The target 'cuda', on the machine that is current.

    `shared` are the bytes of shared memory that a block may have: where they do not hold a window
    or a tile of a grouped plan, elements are moved in one pass.
    """

    def __init__(
        self,
        machine: Machine,
        keep: Callable[[tuple[str, str], Callable[[], bytes]], bytes] | None = None,
        member_bytes: int = MEMBER_BYTES,
        shared: int = _ANY_SHARED,
    ) -> None:
        self._machine = machine
        self._shared = shared
        self._movers = Movers(Library(machine, keep))
        self._member_bytes = member_bytes

    def apply(self, plan: IndexPlan, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Move the elements of a plan; see `Host.apply`."""
        _check(plan, source, target)
        if 0 in source.shape or 0 in target.shape:
            return
        held = Arena(self._machine)
        work = self._work(plan, (source.shape[1], target.shape[1]), source[0, 0].nbytes, held)
        for members in self._members(source, target):
            moved = Arena(self._machine)
            of = moved.put(source[members])
            made = moved.new(_shape(target[members]), target.dtype)
            self._machine.upload(target[members].transpose(2, 1, 0), made)
            work(source[members], target[members], int(of), int(moved.address(made)))
            target[members] = moved.get(made)

    def product(
        self, matrix: Sparse, field: NDArray[Any], form: Form, missing: Missing, least: float
    ) -> NDArray[Any]:
        """Return the product with fields [batch, cell]; see `Host.product`."""
        out = np.empty((field.shape[0], matrix.rows), field.dtype)
        if out.size == 0:
            return out
        held = Arena(self._machine)
        kernel, arrays = _for_product(matrix, field.dtype, form, missing)
        parts = tuple(int(held.put(array)) for array in arrays)
        for members in self._members(field, out):
            moved = Arena(self._machine)
            made = moved.new((1, len(out[members]), matrix.rows), field.dtype)
            self._movers.product(
                kernel,
                (int(moved.put(field[members])), int(moved.address(made)), *parts),
                (matrix.rows, matrix.cells, len(out[members])),
                least,
            )
            out[members] = moved.get(made)[0]
        return out

    def _members(self, source: NDArray[Any], target: NDArray[Any]) -> Iterator[slice]:
        one = max(source[:1].nbytes, target[:1].nbytes, 1)
        count = max(1, self._member_bytes // one)
        for first in range(0, source.shape[0], count):
            yield slice(first, min(first + count, source.shape[0]))

    def _work(
        self, plan: IndexPlan, shape: tuple[int, int], size: int, held: Arena
    ) -> Callable[[NDArray[Any], NDArray[Any], int, int], None]:
        """Return what does a plan from and to so many elements of `size` bytes each."""
        if plan.groups is not None:
            return self._combine(plan, held)
        grouped = plan.grouped
        if grouped is None or grouped.most(*shape) * size > self._shared - _KEPT_SHARED:
            return self._move(plan, held)
        return self._grouped(grouped, held)

    def _move(self, plan: IndexPlan, held: Arena) -> Callable[..., None]:
        """Return what moves the elements of some members, with the indices on the device."""
        named = plan.index if plan.inverse is None else plan.inverse
        index = int(held.put(named))
        gather = plan.direction is Direction.GATHER or plan.inverse is not None
        direction = Direction.GATHER if gather else plan.direction
        masked = bool(named.size and named.min() < 0)

        def work(source: NDArray[Any], target: NDArray[Any], of: int, to: int) -> None:
            size = source.shape[2] * source.itemsize
            steps = (source.shape[1] * size, target.shape[1] * size)
            transfer = Transfer(direction, alignment_of(of, to, size), size, named.size)
            ends = Ends(
                source=of,
                target=to,
                source_elements=source.shape[1],
                target_elements=target.shape[1],
                take=index if gather else 0,
                put=0 if gather else index,
                index_bits=8 * named.itemsize,
                masked=masked,
                near=plan.near,
                batch=source.shape[0],
                source_step=steps[0],
                target_step=steps[1],
            )
            self._movers.move(transfer, ends)

        return work

    def _grouped(self, grouped: Grouped, held: Arena) -> Callable[..., None]:
        """Return the two passes of a grouped plan, one member of the batch at a time."""
        indices = [int(held.put(array)) for array in grouped.arrays]

        def work(source: NDArray[Any], target: NDArray[Any], of: int, to: int) -> None:
            size = source.shape[2] * source.itemsize
            shape = source.shape[1], target.shape[1]
            room = Arena(self._machine)
            between = room.new((1, grouped.room, size), np.dtype(np.uint8))
            middle = int(room.address(between))
            alignment = alignment_of(of, to, middle, shape[0] * size, shape[1] * size, size)
            kernels = passes_for(size, alignment, grouped.room)
            for member in range(source.shape[0]):
                start, end = (at + member * n * size for at, n in zip((of, to), shape, strict=True))
                self._movers.passes(kernels, grouped, (start, middle, end), indices, shape)

        return work

    def _combine(self, plan: IndexPlan, held: Arena) -> Callable[..., None]:
        groups = plan.groups
        assert groups is not None
        arrays = (groups.places, groups.starts, groups.order)
        bits = 8 * max(array.itemsize for array in arrays)
        wide = [array.astype(f"i{bits // 8}", copy=False) for array in arrays]
        places, starts, order = (int(held.put(array)) for array in wide)

        def work(source: NDArray[Any], target: NDArray[Any], of: int, to: int) -> None:
            ends = Ends(
                source=of,
                target=to,
                source_elements=source.shape[1],
                target_elements=target.shape[1],
                index_bits=bits,
                batch=source.shape[0],
                source_step=source[0].nbytes,
                target_step=target[0].nbytes,
            )
            self._movers.combine(
                plan.duplicates,
                source.dtype,
                source.shape[2],
                ends,
                (places, starts, order),
                groups.places.size,
            )

        return work


Target = Host | Device


def _for_product(
    matrix: Sparse, dtype: np.dtype[Any], form: Form, missing: Missing
) -> tuple[Product, list[NDArray[Any]]]:
    """Return the kernel for a matrix, and the arrays that it takes: in slices where that pays."""
    bits, renormalise = 8 * matrix.columns.itemsize, missing is Missing.RENORMALISE
    levels, noted = PRODUCT_LEVELS[dtype.name], renormalise and balanced(matrix)
    found = sliced(matrix, 16 // dtype.itemsize)
    if found is not None:
        kernel = Product(
            dtype.name, form, renormalise, bits, levels, block=found.block, balanced=noted
        )
        return kernel, [found.offsets, found.lengths, found.columns, found.weights]
    starts, columns = matrix.starts, matrix.columns
    if starts.itemsize != columns.itemsize:
        bits = 64
        starts, columns = starts.astype(np.int64), columns.astype(np.int64)
    kernel = Product(dtype.name, form, renormalise, bits, levels, balanced=noted)
    return kernel, [starts, columns, matrix.weights]


def _bytes(array: NDArray[Any]) -> Bytes:
    return array.view(np.uint8)


def _shape(array: NDArray[Any]) -> tuple[int, int, int]:
    batch, elements, values = array.shape
    return batch, elements, values


def _transfer(plan: IndexPlan, source: Bytes) -> Transfer:
    size = source.shape[2]
    return Transfer(plan.direction, alignment_of(size), size, plan.facts.count)


def check_combinable(duplicates: Duplicates, dtype: np.dtype[Any]) -> None:
    """Raise `ArgumentError` where values of a type cannot be combined as they should be."""
    combined = duplicates in (Duplicates.SUM, Duplicates.MIN, Duplicates.MAX)
    if combined and str(dtype) not in COMBINABLE:
        kinds = ", ".join(f"'{kind}'" for kind in COMBINABLE)
        raise ArgumentError(
            f"Duplicates can be combined for values of the types {kinds}, got '{dtype}'.",
            hint="Convert the values, or use duplicates='last'.",
        )


def _check(plan: IndexPlan, source: NDArray[Any], target: NDArray[Any]) -> None:
    check_combinable(plan.duplicates, source.dtype)
    if source.dtype != target.dtype:
        raise ArgumentError(
            f"Elements are not converted: '{source.dtype}' values do not become '{target.dtype}'."
        )
