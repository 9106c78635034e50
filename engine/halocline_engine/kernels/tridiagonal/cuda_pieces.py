"""Pieces of long systems that stay on a CUDA device while their ends are solved for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import AnyArray, copy, near, of_device, reshaped
from halocline_engine.far_memory import FarArray
from halocline_engine.kernels.machine import Arena, Machine
from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal import reference
from halocline_engine.kernels.tridiagonal.cuda import Act, CudaTridiagonal
from halocline_engine.kernels.tridiagonal.cuda_ends import DeviceEnds
from halocline_engine.kernels.tridiagonal.launching import Layout
from halocline_engine.kernels.tridiagonal.pieces import (
    Bands,
    Judged,
    Pieces,
    cut_off,
    judge_pieces,
    verdict,
)
from halocline_engine.kernels.tridiagonal.problem import Solved

__all__ = ["DevicePieces", "solve_on_device"]

_FOUND = np.uint8(Status.FAILED.value | Status.NOT_FINITE.value)
_OF_ROWS = np.uint8(~Status.FAILED.value & 0xFF)
_BYTE = np.dtype(np.uint8)


class DevicePieces:
    """Pieces of as many rows each, from when they are read until they are solved, which is once.

    `bands` are lower, diagonal, upper and rhs, taken one after the other: of the host, from which
    so many `threads` copy, or of the device. The host keeps them to compute the `residual` only.
    """

    def __init__(
        self,
        kernels: CudaTridiagonal,
        pieces: Pieces,
        first: int,
        past: int,
        bands: Iterable[AnyArray],
        *,
        periodic: bool,
        residual: bool,
        contiguous: bool,
        threads: int = 1,
    ) -> None:
        self._kernels, self._machine, self._contiguous = kernels, kernels.machine, contiguous
        self._pieces, self._first, self._past, self._threads = pieces, first, past, threads
        self._arena = Arena(self._machine)
        self._arrays: list[Any] = []
        self._whole: Bands | None = None
        self._acts: list[Act] = []
        given = [self._brought(band, keep=residual) for band in bands]
        if residual:
            whole = (given[0], given[1], given[2], given[3])
            self._whole = cut_off(pieces, first, past, whole, periodic=periodic)
        self._uncouple(periodic=periodic)
        self._at_ends = self._bands_at_ends()
        #: Those of both ends of each piece, as `DeviceEnds` has them.
        self.equations = self._new((6 * self._outer, 1, self._count * self._inner))
        self._reduce = kernels.reduce(
            self._layout, (*self._places(), self._address(self.equations))
        )

    def _brought(self, band: AnyArray, *, keep: bool) -> Any:
        """Bring a band to the device, and return it if the host keeps it."""
        outer, rows, inner = band.shape
        layout = Layout(outer * self._count, rows // self._count, inner, band.dtype.name)
        self._outer, self._inner, self._layout = outer, inner, layout
        self._arrays.append(self._new(layout.shape))
        if isinstance(band, FarArray) or not of_device(band):
            batch = reshaped(band, layout.shape)
            if batch is None:
                batch = np.reshape(near(band), layout.shape)
            self._machine.upload(batch.transpose([2, 1, 0]), self._arrays[-1], self._threads)
        else:
            self._arrays[-1][...] = band.reshape(layout.shape).transpose(2, 1, 0)
        return band if keep else None

    @property
    def _count(self) -> int:
        return self._past - self._first

    def _uncouple(self, *, periodic: bool) -> None:
        """Let bands on the device be zero where nothing is coupled beyond the ends of all rows."""
        if periodic:
            return
        nothing = np.zeros((self._inner, 1, self._outer), self._layout.dtype)
        if self._first == 0:
            self._machine.upload(nothing, self._arrays[0][:, :1, :: self._count])
        if self._past == self._pieces.count:
            last = slice(self._layout.rows - 1, self._layout.rows)
            at = slice(self._count - 1, None, self._count)
            self._machine.upload(nothing, self._arrays[2][:, last, at])

    def _bands_at_ends(self) -> Bands:
        """Return the rows of bands at both ends of pieces."""
        found = self._new((4 * self._layout.outer, 2, self._inner))
        self._at_both("bands_at_ends", found)()
        lower, diagonal, upper, rhs = np.split(self._arena.get(found), 4)
        return lower, diagonal, upper, rhs

    def reduce(self) -> None:
        """Queue the equations, also to where the ends of all pieces are solved for."""
        self._reduce()
        self._place[...] = self.equations

    def prepare(self, ends: DeviceEnds) -> None:
        """Allocate what the solution needs, given where the ends of all pieces are solved for."""
        layout = self._layout
        self._place = ends.equations(self._first, self._past)
        self._known, know = ends.known(self._first, self._past)
        self._solution = self._new(layout.shape)
        self._status = self._arena.new((1, layout.outer, layout.inner), _BYTE)
        found = (self._address(self._solution), self._address(self._status))
        places, how = (*self._places(), *found), self._contiguous
        solve = self._kernels.prepared(layout, places, self._arena, contiguous=how)
        self._acts = [know, self._at_both("hold_ends", self._known), solve]

    def solve(self) -> None:
        """Queue the solution of the rows between ends, which are solved for."""
        for act in self._acts:
            act()

    def complete(self) -> None:
        """Wait until all that is queued is done."""
        self._said = self._arena.get(self._status)

    def take(self, into: AnyArray, around: NDArray[Any] | None = None) -> Judged:
        """Do what `fill_pieces` does; the pieces are not there any more then.

        `around` are the unknowns that it is given, which residuals need.
        """
        own, given = self._arena.get(self._known), self._said
        _bring(self._machine, self._solution, into, self._layout, self._threads)
        if not np.isfinite(own).all():
            # What is given may be finite where a known unknown is not: then both are looked at.
            self._machine.upload(np.zeros_like(own).transpose(2, 1, 0), self._known)
            for act in self._acts[1:]:
                act()
            given = self._arena.get(self._status)
        self._arrays.clear()
        self._acts.clear()
        self._solution, self._arena = None, Arena(self._machine)
        if self._whole is not None and around is not None:
            where = (self._pieces, self._first, self._past, self._whole)
            return judge_pieces(self._kernels, *where, near(into), around, residual=True)
        status = _status(self._at_ends, given[0], self._said[0], own)
        return Judged(status.reshape(self._outer, self._count, self._inner), None, None)

    def _at_both(self, name: str, array: Any) -> Act:
        """Return what queues a kernel that looks at both ends of pieces."""
        layout = self._layout
        pieces = Layout(layout.outer, 1, layout.inner, layout.dtype)
        numbers = (np.int32(layout.rows), np.int32(layout.inner))
        places = (*self._places(), self._address(array))
        return self._kernels.by_piece(name, pieces, places, numbers, "held.cu")

    def _new(self, shape: tuple[int, int, int]) -> Any:
        return self._arena.new(shape, np.dtype(self._layout.dtype))

    def _address(self, array: Any) -> np.uint64:
        return self._arena.address(array)

    def _places(self) -> tuple[np.uint64, ...]:
        return tuple(self._address(array) for array in self._arrays)


def solve_on_device(
    kernels: CudaTridiagonal, bands: Bands, pieces: Pieces, *, periodic: bool, contiguous: bool
) -> Solved:
    """Solve long systems whose bands are arrays of the device; see `pieces.solve_rows`."""
    rhs = bands[3]
    outer, _, inner = rhs.shape
    ends = DeviceEnds(kernels, Layout(outer, pieces.count, inner, rhs.dtype.name, periodic))
    held: list[tuple[slice, DevicePieces]] = []
    for first, past in pieces.alike(0, pieces.count):
        at = slice(pieces.start(first), pieces.start(past))
        own = DevicePieces(
            kernels,
            pieces,
            first,
            past,
            (band[:, at] for band in bands),
            periodic=periodic,
            residual=False,
            contiguous=contiguous,
        )
        own.prepare(ends)
        own.reduce()
        held.append((at, own))
    ends.solve()
    solution, said = np.empty_like(rhs), list[NDArray[np.uint8]]()
    for at, own in held:
        own.solve()
        own.complete()
        said.append(own.take(solution[:, at]).status)
    status = verdict(np.concatenate(said, axis=1), 1)
    arena = Arena(kernels.machine)
    there = arena.new((1, outer, inner), _BYTE)
    kernels.machine.upload(status[None].transpose(2, 1, 0), there)
    return Solved(solution, arena.like(rhs, there)[0])


def _bring(machine: Machine, found: Any, into: AnyArray, layout: Layout, threads: int) -> None:
    """Bring a solution to where it shall be."""
    if not isinstance(into, FarArray) and of_device(into):
        into[...] = found.transpose(2, 1, 0).reshape(into.shape)
        return
    place = reshaped(into, layout.shape)
    target = np.empty(layout.shape, layout.dtype) if place is None else place
    machine.download(found, target.transpose([2, 1, 0]), threads)
    if place is None:
        copy(np.reshape(near(target), into.shape), into)


def _status(
    bands: Bands, given: NDArray[np.uint8], solved: NDArray[np.uint8], own: NDArray[Any]
) -> NDArray[np.uint8]:
    """Return what is said of pieces: by kernels of what is between ends, and here of these.

    `bands` are rows at both ends, and `own` the unknowns there.
    """
    ends = np.stack([*own.reshape(2, *given.shape)], axis=1)
    of_ends = reference.diagnose(bands[0], bands[1], bands[2], bands[3], ends, periodic=True)
    failed = np.where(solved & _FOUND, np.uint8(Status.FAILED.value), np.uint8(0))
    return verdict(np.stack([given & _OF_ROWS, failed, of_ends]), 0)
