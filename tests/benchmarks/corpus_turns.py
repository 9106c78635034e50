"""Programs of the corpus by the engine and by other compilers, timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

from corpus.calls import CorpusCall
from corpus_gt4py import Peer, built

__all__ = ["Building", "Machine", "PeerFigure", "attempt", "figures", "queued", "table"]

_ROUNDS, _LEAST_SECONDS = 5, 4e-3


@dataclass(frozen=True)
class Machine:
    """Where programs run: a target, NumPy or CuPy, and how one waits for what is queued."""

    target: str
    library: Any
    wait: Callable[[], object]


@dataclass(frozen=True)
class PeerFigure:
    """A program by the engine and by a peer, in milliseconds a call; or why there is no time.

    `on_storages` is the engine on the peer's own arrays, whose rows begin at multiples of what a
    device reads at once, or 0 where the peer has no such arrays. `attainable` is the engine's share
    of what is attainable, `differing` the share of the points where the peer's results are others
    than the engine's by more than rounding.
    """

    name: str
    dtype: str
    peer: str
    milliseconds: float
    attainable: float
    peer_milliseconds: float
    on_storages: float
    differing: float
    problem: str

    @property
    def ratio(self) -> float:
        """How many times as fast as the peer the engine is."""
        return self.peer_milliseconds / self.milliseconds if self.milliseconds else 0.0

    @property
    def ratio_on_storages(self) -> float:
        """The same where both have the peer's arrays."""
        return self.peer_milliseconds / self.on_storages if self.on_storages else 0.0


class Building:
    """Processes in which GT4Py compiles programs, as long as they are given."""

    def __init__(self, calls: Sequence[CorpusCall], backends: Sequence[str], workers: int) -> None:
        self._begun = perf_counter()
        self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        longest = sorted(calls, key=lambda call: -len(call.case.source))
        keys = [(c.case.name, c.dtype, backend) for backend in backends for c in longest]
        self._tasks = {key: self._pool.submit(built, *key) for key in keys}

    def failures(self, seconds: float) -> dict[tuple[str, str, str], str]:
        """Return what is not compiled so many seconds after the begin, and why; stop the rest."""
        wait(self._tasks.values(), timeout=self._begun + seconds - perf_counter())
        print(f"compiled in {perf_counter() - self._begun:.0f} s", flush=True)
        processes = active_children()
        self._pool.shutdown(wait=False, cancel_futures=True)
        found: dict[tuple[str, str, str], str] = {}
        for key, task in self._tasks.items():
            if not task.done() or task.cancelled():
                found[key] = "not compiled in time"
            elif problem := task.exception() or task.result()[1]:
                found[key] = str(problem)
        for process in processes if "not compiled in time" in found.values() else ():
            process.terminate()
        return found


def attempt(make: Callable[[], Peer]) -> Peer | str:
    """Return a peer, or what it raised."""
    try:
        return make()
    except Exception as error:  # a peer may raise anything
        return f"{type(error).__name__}: {error}"[:300]


def figures(
    machine: Machine,
    call: CorpusCall,
    peers: Mapping[str, Callable[[], Peer] | str],
    attainable: float,
) -> Iterator[PeerFigure]:
    """Yield a figure for each peer, timed in turns with the engine."""
    for peer, problem in peers.items():
        if isinstance(problem, str):
            yield PeerFigure(call.case.name, call.dtype, peer, 0, 0, 0, 0, 0, problem)
    makes = {peer: make for peer, make in peers.items() if not isinstance(make, str)}
    if not makes:
        return
    arrays = call.arrays(machine.library)
    program = call.stencil(machine.target)
    call.run(program, arrays)
    expected = {name: array.copy() for name, array in arrays.items()}
    for peer, make in makes.items():
        found = attempt(make)
        own = theirs = there = differing = 0.0
        if not isinstance(found, str):
            try:
                found.call()
                differing = _differing(machine, call, found, expected)
                works = [partial(call.run, program, arrays), found.call]
                if found.storages is not None:
                    works.append(partial(call.run, program, found.storages))
                own, theirs, *others = _in_turns(machine, works)
                there = others[0] if others else 0.0
            except Exception as error:  # as above
                found = f"{type(error).__name__}: {error}"[:300]
        yield PeerFigure(
            call.case.name,
            call.dtype,
            peer,
            round(own * 1e3, 4),
            round(attainable / own, 3) if own else 0.0,
            round(theirs * 1e3, 4),
            round(there * 1e3, 4),
            differing,
            found if isinstance(found, str) else "",
        )


def _differing(
    machine: Machine, call: CorpusCall, peer: Peer, expected: Mapping[str, Any]
) -> float:
    """Return the share of the points of the domain where a peer has another result."""
    tolerance = 1e-11 if call.dtype == "float64" else 3e-4
    sides = {
        axis: slice(halo, halo + size)
        for axis, halo, size in zip("IJK", call.halo, call.domain, strict=True)
    }
    shares = [0.0]
    for name, array in expected.items():
        if name in call.written:
            inner = tuple(sides[axis.value] for axis in call.axes[name])
            ours, theirs = array[inner], machine.library.asarray(peer.arrays[name])[inner]
            near = machine.library.abs(ours - theirs) <= tolerance * (1 + machine.library.abs(ours))
            same = near | ((ours != ours) & (theirs != theirs))
            shares.append(float((~same).mean()))
    return max(shares)


def _in_turns(machine: Machine, works: Sequence[Callable[[], object]]) -> list[float]:
    """Return the seconds of calls, whose rounds alternate."""
    times: list[list[float]] = [[] for _ in works]
    numbers = [max(3, int(_LEAST_SECONDS / queued(machine, work, 3)) + 1) for work in works]
    for _ in range(_ROUNDS):
        for work, number, into in zip(works, numbers, times, strict=True):
            into.append(queued(machine, work, number))
    return [median(each) for each in times]


def queued(machine: Machine, work: Callable[[], object], number: int) -> float:
    """Return the seconds of a call, of so many that are queued one after the other."""
    work()
    machine.wait()
    begun = perf_counter()
    for _ in range(number):
        work()
    machine.wait()
    return (perf_counter() - begun) / number


def table(found: Sequence[PeerFigure]) -> Iterator[str]:
    """Yield what peers failed at, then times and ratios worst first, then means."""
    timed = sorted((one for one in found if one.ratio), key=lambda one: one.ratio)
    for one in found:
        if not one.ratio:
            yield f"{one.name:26} {one.dtype} {one.peer:13} {one.problem[:90]}"
    for one in timed:
        differing = f" differs at {one.differing:.1e}" if one.differing else ""
        yield (
            f"{one.name:26} {one.dtype} {one.peer:13} {one.milliseconds:7.3f}"
            f" {one.attainable:5.2f} {one.peer_milliseconds:7.3f} {one.ratio:5.2f}"
            f" {one.ratio_on_storages:5.2f}{differing}"
        )
    for key in dict.fromkeys((one.peer, one.dtype) for one in timed):
        each = [one for one in timed if (one.peer, one.dtype) == key]
        there = [one.ratio_on_storages for one in each]
        kinds = {"": [one.ratio for one in each], " on its storages": there}
        for kind, ratios in kinds.items():
            if all(ratios):
                yield (
                    f"{key[0]} {key[1]}{kind}: {len(ratios)} programs, geometric mean"
                    f" {geometric_mean(ratios):.2f}, least {min(ratios):.2f},"
                    f" {sum(r < 1 / 1.05 for r in ratios)} where the peer is more than 5 % faster"
                )
