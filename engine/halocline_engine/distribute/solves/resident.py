"""Choice between the streamed and the resident mode of long systems, with its reason.

Both modes compute the same with each piece of rows, so the result does not depend on the mode, nor
on the number of ranks (`kernels.tridiagonal.pieces`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.exchanges.transport import Transport, transport_of
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.grid.partition import Block, Span, shares
from halocline_engine.distribute.jobs.blocking import LARGE_TASK, check_wanted
from halocline_engine.distribute.jobs.execute import Blockwise
from halocline_engine.distribute.jobs.losses import lost_for_good
from halocline_engine.distribute.jobs.ranked import Ranked
from halocline_engine.distribute.jobs.reading import reading_of
from halocline_engine.distribute.solves.pieces import SpreadSystems
from halocline_engine.distribute.solves.ranks import PASSES, RankSolve
from halocline_engine.distribute.solves.request import CheckedBanded, outputs_of, systems_of
from halocline_engine.errors import ArgumentError, CapacityError
from halocline_engine.kernels.tridiagonal.pieces import Pieces

__all__ = ["Stay", "check_resident", "refusal", "resident_job", "stay"]

# Arrays of the rows of a rank: on a host that computes; on one with a device, and more of them with
# residuals; on the device. Those of pieces that a host computes at once, and of the ends of all.
_KEPT = 6
_ON_HOST = 3
_WITH_RESIDUAL = 6
_ON_DEVICE = 7
_AT_WORK = 24
_ENDS = 40
#: Bytes of a chunk of the solution, at most, if the caller gives no size.
_CHUNK = 16 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Stay:
    """How rows stay on ranks: each has a multiple of `unit` pieces, and computes `step` at once.

    `parts` are the pieces of each rank. A rank needs `host` and `device` bytes, of which so many
    are there.
    """

    unit: int
    step: int
    parts: tuple[Span, ...]
    host: int
    device: int
    host_there: int
    device_there: int

    @property
    def fits(self) -> bool:
        """Whether there is enough memory."""
        return self.host <= self.host_there and self.device <= self.device_there

    @property
    def compared(self) -> tuple[int, int]:
        """The bytes that a rank needs, and those that are there, of what it has less of."""
        if self.device and (self.device > self.device_there or self.host <= self.host_there):
            return self.device, self.device_there
        return self.host, self.host_there

    @property
    def shown(self) -> str:
        """The memory of the workers, as a clause."""
        needed, there = self.compared
        count = len(self.parts)
        workers = f"{count} workers" if count > 1 else "one worker"
        return f"the memory of {workers}: {needed} of {there} bytes each"


def check_resident(checked: CheckedBanded, pieces: Pieces) -> None:
    """Raise `ArgumentError` where no system can be shared by ranks."""
    so = "With mode='resident' workers share the rows of each system, but"
    if checked.request.pivoting:
        raise ArgumentError(
            f"{so} 'pivoting' needs all rows at once.", hint="Leave one of both out."
        )
    if pieces.count == 1:
        least = (3 if checked.request.periodic else 2) * pieces.size
        raise ArgumentError(
            f"{so} systems of {pieces.rows} rows are solved whole, as they have fewer than"
            f" {least}.",
            hint="Leave the mode out.",
        )


def stay(checked: CheckedBanded, pieces: Pieces, pool: Pool, target: str) -> Stay:
    """Return how the rows would stay on the workers of a pool."""
    request, dim = checked.request, checked.request.dim
    check_wanted(checked.sizes, dim, {**request.chunks, dim: pieces.rows})
    wanted = request.chunks.get(dim)
    each = _bytes(checked, pieces)
    unit = min(pieces.count // pool.workers, _CHUNK // max(1, each))
    unit = unit if wanted is None else -(-wanted // pieces.size)
    return _stay(checked, pieces, pool, target, max(1, unit))


def resident_job(
    checked: CheckedBanded, pieces: Pieces, pool: Pool, target: str, chosen: Stay
) -> Blockwise:
    """Return the job on ranks."""
    request, dim = checked.request, checked.request.dim
    others = {name: size for name, size in checked.sizes.items() if name != dim}

    def work(source: Source, sink: Sink, ranks: int) -> RankSolve:
        systems = systems_of(SpreadSystems, checked, source, sink, target, pieces=pieces)
        parts, peers = _parts(pieces, chosen.unit, ranks), transport(ranks).queued
        return RankSolve(systems, others, checked.dtype, parts, chosen.step, peers)

    def transport(ranks: int) -> Transport:
        same_host = ranks > 1 and pool.same_host
        return transport_of(target, ranks, remote=pool.remote, same_host=same_host)

    def left() -> int:
        found = _stay(checked, pieces, pool, target, chosen.unit)
        if not found.fits:
            raise lost_for_good(f"the rows do not fit {found.shown}")
        return len(found.parts)

    ranks = len(chosen.parts)
    wanted = {name: size for name, size in request.chunks.items() if name != dim}
    shaped = {request.name: {**checked.sizes, **wanted, dim: chosen.unit * pieces.size}}
    one = Span(0, 1)
    return Blockwise(
        opened=checked.opened,
        sizes=checked.sizes,
        reads=request.variables,
        outputs=outputs_of(checked, shaped, checked.sizes),
        blocks=tuple(Block(i, (one, one, one), (part,)) for i, part in enumerate(chosen.parts)),
        work=None,
        what=f"tridiagonal systems of '{checked.bands[-1].name}' along '{dim}'",
        target=target,
        projected=ranks * (chosen.host + chosen.device),
        output=request.output,
        operations=checked.operations,
        passes=PASSES,
        ranked=Ranked(
            reason=f"rows that are read once and fit {chosen.shown}",
            transport=transport(ranks).name,
            ranks=ranks,
            left=left,
            work=work,
        ),
    )


def refusal(found: Stay) -> CapacityError:
    """Return the error of rows that do not fit."""
    needed, there = found.compared
    return CapacityError(
        f"The rows do not fit {found.shown}.",
        hint="Use more workers, or mode='streamed'.",
        needed=needed,
        available=there,
    )


def _stay(checked: CheckedBanded, pieces: Pieces, pool: Pool, target: str, unit: int) -> Stay:
    each = _bytes(checked, pieces)
    parts = _parts(pieces, unit, min(pool.workers, -(-pieces.count // unit)))
    # The last piece has up to twice the rows.
    most = max(part.size for part in parts) + 1
    device_there = pool.device_memory(target)
    if device_there is None:
        step = max(1, min(LARGE_TASK, pool.memory // 4) // max(1, _AT_WORK * each))
        host, device = _KEPT * most + _AT_WORK * min(step, most), 0
    else:
        residual = _WITH_RESIDUAL if checked.request.residual else 0
        step, host, device = most, (_ON_HOST + residual) * most, _ON_DEVICE * most * each
    rows = min(step, most) * pieces.size
    reading = reading_of(checked.opened, checked.request.variables)
    ends = _ENDS * pieces.count * each // pieces.size
    # Ranks that are threads share the memory of this process with the result.
    together = 1 if pool.remote else len(parts)
    here = 0 if pool.remote or checked.request.output else pieces.count * each
    return Stay(
        unit=unit,
        step=step,
        parts=parts,
        host=host * each + ends + reading.bytes({checked.request.dim: rows}),
        device=device,
        host_there=max(0, pool.memory - here) // together,
        device_there=(device_there or 0) // together,
    )


def _parts(pieces: Pieces, unit: int, ranks: int) -> tuple[Span, ...]:
    """Return the pieces of each rank: units that are as many as those of others, or one more.

    >>> _parts(Pieces(rows=90, size=10, count=9), 2, 3)
    (Span(start=0, stop=2), Span(start=2, stop=6), Span(start=6, stop=9))
    """
    units = range(-(-pieces.count // unit))
    return tuple(
        Span(some[0] * unit, min(pieces.count, (some[-1] + 1) * unit))
        for some in shares(units, ranks)
    )


def _bytes(checked: CheckedBanded, pieces: Pieces) -> int:
    """Return the bytes of an array of a piece of all systems."""
    others = math.prod(n for name, n in checked.sizes.items() if name != checked.request.dim)
    return others * pieces.size * np.dtype(checked.dtype).itemsize
