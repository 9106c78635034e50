"""Pieces of long systems that stay on a CUDA device while their ends are solved for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import AnyArray, copy, near, reshaped
from halocline_engine.kernels.machine import Arena
from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal import reference
from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal
from halocline_engine.kernels.tridiagonal.launching import Layout
from halocline_engine.kernels.tridiagonal.pieces import (
    Bands,
    Judged,
    Pieces,
    cut_off,
    judge_pieces,
    verdict,
)

__all__ = ["DevicePieces"]

_FOUND = np.uint8(Status.FAILED.value | Status.NOT_FINITE.value)
_OF_ROWS = np.uint8(~Status.FAILED.value & 0xFF)


class DevicePieces:
    """Pieces of as many rows each; see `pieces.KeptPieces`.

    `bands` are lower, diagonal, upper and rhs of the host, taken one after the other and copied by
    so many `threads`. The host keeps them to compute the `residual` only.
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
        given = [self._brought(band, keep=residual) for band in bands]
        if residual:
            whole = (given[0], given[1], given[2], given[3])
            self._whole = cut_off(pieces, first, past, whole, periodic=periodic)
        self._uncouple(periodic=periodic)
        self._at_ends = self._bands_at_ends()

    def _brought(self, band: AnyArray, *, keep: bool) -> Any:
        """Bring a band to the device, and return it if the host keeps it."""
        outer, rows, inner = band.shape
        layout = Layout(outer * self._count, rows // self._count, inner, band.dtype.name)
        self._outer, self._inner, self._layout = outer, inner, layout
        self._arrays.append(self._arena.new(layout.shape, band.dtype))
        batch = reshaped(band, layout.shape)
        if batch is None:
            batch = np.reshape(near(band), layout.shape)
        self._machine.upload(batch.transpose([2, 1, 0]), self._arrays[-1], self._threads)
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
        arena, layout = Arena(self._machine), self._layout
        found = arena.new((4 * layout.outer, 2, layout.inner), np.dtype(layout.dtype))
        places = (*self._places(), arena.address(found))
        self._kernels.by_piece("held.cu", "bands_at_ends", layout, places)
        lower, diagonal, upper, rhs = np.split(arena.get(found), 4)
        return lower, diagonal, upper, rhs

    def ends(self) -> NDArray[Any]:
        """Return the equations of both ends of each piece."""
        arena, systems = Arena(self._machine), self._layout.systems
        found = arena.new((6, 1, systems), np.dtype(self._layout.dtype))
        places = (*self._places(), arena.address(found))
        self._kernels.by_piece("ends.cu", "piece_ends", self._layout, places)
        return arena.get(found).reshape(6, self._outer, self._count, self._inner)

    def fill(self, known: NDArray[Any], into: AnyArray) -> Judged:
        """Solve the rows between ends that are known; the bands are not there any more then."""
        own = np.ascontiguousarray(known[:, :, 1:-1])
        # What is given may be finite where a known unknown is not: then both are looked at.
        given = None if np.isfinite(own).all() else self._solved(np.zeros_like(own))[1]
        found, status = self._solved(own)
        self._arrays.clear()
        self._arena = Arena(self._machine)
        self._take(found, into)
        if self._whole is not None:
            where = (self._pieces, self._first, self._past, self._whole)
            return judge_pieces(*where, near(into), known, residual=True)
        return Judged(self._status(status if given is None else given, status, own), None, None)

    def _take(self, found: Any, into: AnyArray) -> None:
        """Bring a solution to where it shall be."""
        layout = self._layout
        place = reshaped(into, layout.shape)
        target = np.empty(layout.shape, layout.dtype) if place is None else place
        self._machine.download(found, target.transpose([2, 1, 0]), self._threads)
        if place is None:
            copy(np.reshape(near(target), into.shape), into)

    def _status(
        self, given: NDArray[np.uint8], solved: NDArray[np.uint8], own: NDArray[Any]
    ) -> NDArray[np.uint8]:
        """Return what is said of pieces: by kernels of what is between ends, and here of these."""
        bands, of_pieces = self._at_ends, (self._outer * self._count, self._inner)
        ends = np.stack([end.reshape(of_pieces) for end in own], axis=1)
        of_ends = reference.diagnose(bands[0], bands[1], bands[2], bands[3], ends, periodic=True)
        failed = np.where(solved & _FOUND, np.uint8(Status.FAILED.value), np.uint8(0))
        every = np.stack([given & _OF_ROWS, failed, of_ends.reshape(given.shape)])
        return verdict(every, 0)

    def _solved(self, own: NDArray[Any]) -> tuple[Any, NDArray[np.uint8]]:
        """Return the solution on the device, and status [outer, piece, inner] between ends."""
        layout, arena = self._layout, Arena(self._machine)
        places = (*self._places(), arena.put(own.reshape(2, 1, -1)))
        self._kernels.by_piece("held.cu", "hold_ends", layout, places)
        found = arena.new(layout.shape, np.dtype(layout.dtype))
        status = arena.new((1, layout.outer, layout.inner), np.dtype(np.uint8))
        places = (*self._places(), arena.address(found), arena.address(status))
        queue = self._kernels.contiguous if self._contiguous else self._kernels.interleaved
        queue(layout, places, arena)
        return found, arena.get(status).reshape(self._outer, self._count, self._inner)

    def _places(self) -> tuple[np.uint64, ...]:
        return tuple(self._arena.address(array) for array in self._arrays)
