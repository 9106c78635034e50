"""Pieces of long systems that stay on a CUDA device while their ends are solved for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.machine import Machine, Moved
from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal import reference
from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal
from halocline_engine.kernels.tridiagonal.launching import Layout
from halocline_engine.kernels.tridiagonal.pieces import (
    Bands,
    Filled,
    Pieces,
    cut_off,
    judge_pieces,
    verdict,
)
from halocline_engine.kernels.tridiagonal.problem import Batch

__all__ = ["DevicePieces"]

_FOUND = np.uint8(Status.FAILED.value | Status.NOT_FINITE.value)
_OF_ROWS = np.uint8(~Status.FAILED.value & 0xFF)


class DevicePieces:
    """Pieces of as many rows each; see `pieces.KeptPieces`.

    `bands` are lower, diagonal, upper and rhs of the host, taken one after the other. The host
    keeps rows at the ends of pieces only, or, to compute the `residual`, all.
    """

    def __init__(
        self,
        kernels: CudaTridiagonal,
        machine: Machine,
        pieces: Pieces,
        first: int,
        past: int,
        bands: Iterable[Batch],
        *,
        periodic: bool,
        residual: bool,
        contiguous: bool,
    ) -> None:
        self._kernels, self._machine, self._contiguous = kernels, machine, contiguous
        self._pieces, self._first, self._past = pieces, first, past
        self._residual, self._moved = residual, Moved(machine)
        self._arrays: list[Any] = []
        kept = [self._kept_of(band, whole=residual) for band in bands]
        lower, diagonal, upper, rhs = kept
        given = (lower, diagonal, upper, rhs)
        self._kept = cut_off(pieces, first, past, given, periodic=periodic)
        self._uncouple(given)

    def _kept_of(self, band: Batch, *, whole: bool) -> Batch:
        """Bring a band to the device, and return what the host keeps of it."""
        outer, rows, inner = band.shape
        layout = Layout(outer * self._count, rows // self._count, inner, band.dtype.name)
        batch = np.ascontiguousarray(band).reshape(layout.outer, layout.rows, inner)
        self._arrays.append(self._moved.new((layout.outer, layout.rows, inner), band.dtype))
        self._machine.upload(batch.transpose(2, 1, 0), self._arrays[-1])
        self._outer, self._inner, self._layout = outer, inner, layout
        return band if whole else batch[:, [0, -1]].reshape(outer, -1, inner)

    @property
    def _count(self) -> int:
        return self._past - self._first

    def _uncouple(self, given: Bands) -> None:
        """Let bands on the device be zero where those of the host were made so."""
        for band, row, piece in ((0, 0, 0), (2, self._layout.rows - 1, self._count - 1)):
            if self._kept[band] is given[band]:
                continue
            ends = self._arrays[band][:, row : row + 1, piece :: self._count]
            self._machine.upload(np.zeros((self._inner, 1, self._outer), given[3].dtype), ends)

    def ends(self) -> NDArray[Any]:
        """Return the equations of both ends of each piece."""
        moved, systems = Moved(self._machine), self._layout.systems
        found = moved.new((6, 1, systems), np.dtype(self._layout.dtype))
        places = (*self._places(), moved.address(found))
        self._kernels.by_piece("ends.cu", "piece_ends", self._layout, places)
        return moved.get(found).reshape(6, self._outer, self._count, self._inner)

    def fill(self, known: NDArray[Any]) -> Filled:
        """Solve the rows between ends that are known; the bands are not there any more then."""
        own = np.ascontiguousarray(known[:, :, 1:-1])
        # What is given may be finite where a known unknown is not: then both are looked at.
        all_finite = bool(np.isfinite(own).all())
        given = None if all_finite else self._solved(np.zeros_like(own))[1]
        solution, status = self._solved(own)
        self._arrays.clear()
        self._moved = Moved(self._machine)
        if self._residual:
            where = (self._pieces, self._first, self._past)
            return judge_pieces(*where, self._kept, solution, known, residual=True)
        return Filled(
            solution, self._status(status if given is None else given, status, own), None, None
        )

    def _status(
        self, given: NDArray[np.uint8], solved: NDArray[np.uint8], own: NDArray[Any]
    ) -> NDArray[np.uint8]:
        """Return what is said of pieces: by kernels of what is between ends, and here of these."""
        shape = (self._outer * self._count, 2, self._inner)
        bands = [band.reshape(shape) for band in self._kept]
        ends = np.stack([end.reshape(shape[0], self._inner) for end in own], axis=1)
        of_ends = reference.diagnose(bands[0], bands[1], bands[2], bands[3], ends, periodic=True)
        failed = np.where(solved & _FOUND, np.uint8(Status.FAILED.value), np.uint8(0))
        every = np.stack([given & _OF_ROWS, failed, of_ends.reshape(given.shape)])
        return verdict(every, 0)

    def _solved(self, own: NDArray[Any]) -> tuple[Batch, NDArray[np.uint8]]:
        """Return the solution between ends, and status [outer, piece, inner] of changed systems."""
        layout, moved = self._layout, Moved(self._machine)
        places = (*self._places(), moved.put(own.reshape(2, 1, -1)))
        self._kernels.by_piece("held.cu", "hold_ends", layout, places)
        found = moved.new((layout.outer, layout.rows, layout.inner), np.dtype(layout.dtype))
        status = moved.new((1, layout.outer, layout.inner), np.dtype(np.uint8))
        places = (*self._places(), moved.address(found), moved.address(status))
        queue = self._kernels.contiguous if self._contiguous else self._kernels.interleaved
        queue(layout, places, moved)
        solution = moved.get(found).reshape(self._outer, -1, self._inner)
        return solution, moved.get(status).reshape(self._outer, self._count, self._inner)

    def _places(self) -> tuple[np.uint64, ...]:
        return tuple(self._moved.address(array) for array in self._arrays)
