"""Halos of the variables of a rank, exchanged by their names."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from operator import setitem

from halocline_engine.backends.base import Array, Memory
from halocline_engine.distribute.communicators.base import Communicator
from halocline_engine.distribute.exchanges.halos import Exchange, exchange_of
from halocline_engine.distribute.stepping.held import Held, planes
from halocline_engine.distribute.stepping.pieces import pieces_of
from halocline_engine.distribute.stepping.plan import Steps
from halocline_engine.distribute.stepping.stages import Acts
from halocline_engine.distribute.tasks.spent import Stopwatch

__all__ = ["StepHalos"]


class StepHalos:
    """What the parts of one rank exchange with each other, and with those of other ranks."""

    def __init__(
        self, steps: Steps, memory: Memory, communicator: Communicator, watch: Stopwatch | None
    ) -> None:
        self._memory, self._communicator, self._watch = memory, communicator, watch
        near = {name for fields in steps.program.fields(steps.cut) for name in fields.near}
        self._pieces = {name: list(pieces_of(steps, name)) for name in sorted(near)}
        self._rank_of = {part.index: rank for rank, some in enumerate(steps.ranks) for part in some}

    def exchange(self, names: Sequence[str], held: Mapping[int, Mapping[str, Held]]) -> Exchange:
        """Return the exchange of some variables, between the arrays that parts have."""
        copies: Acts = []
        sent: dict[int, list[Array]] = {}
        received: dict[int, list[Array]] = {}
        here = self._communicator.rank
        for piece in itertools.chain.from_iterable(self._pieces[name] for name in names):
            source, target = self._rank_of[piece.source], self._rank_of[piece.target]
            ends: list[list[Array]] = []
            for rank, part, cells in (
                (source, piece.source, piece.sent),
                (target, piece.target, piece.into),
            ):
                several = planes(held[part][piece.name], cells) if rank == here else ()
                ends.append([view for view, _ in several])
            if source == here == target:
                copies += [partial(setitem, to, ..., of) for of, to in zip(*ends, strict=True)]
            elif source == here:
                sent.setdefault(target, []).extend(ends[0])
            elif target == here:
                received.setdefault(source, []).extend(ends[1])
        return exchange_of(
            copies, [], sent, received, self._memory, self._communicator, self._watch
        )
