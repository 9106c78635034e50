"""What a call does, and the threads that share it: kernels on pieces and slabs.

It is known but for where temporaries are, and for the values of scalars.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TypeAlias, TypeVar, assert_never

from halocline_engine.backends.base import Scalars, Value
from halocline_engine.backends.cpu.calls import Domain, Place, buffer_place
from halocline_engine.backends.cpu.code import Compiled
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.nodes import Buffer

__all__ = [
    "KernelCalls",
    "Places",
    "Slabs",
    "SpareMemory",
    "Team",
    "Temporaries",
    "Work",
    "taken",
]

Places: TypeAlias = Mapping[str, Place]
_Item = TypeVar("_Item")


class Team:
    """The threads of an executable; they start when work comes, and idle ones are used first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None

    def run(
        self, compiled: Callable[..., None], pieces: Sequence[tuple[Value, ...]], threads: int
    ) -> None:
        """Run a kernel on pieces, each by the thread that comes first."""
        if len(pieces) == 1:
            compiled(*pieces[0])
            return
        left = deque(pieces)

        def some() -> None:
            for words in taken(left):
                compiled(*words)

        self.share(some, min(threads, len(pieces)))

    def share(self, work: Callable[[], None], workers: int) -> None:
        """Work here and in other threads, and wait for all that began; each takes what is left."""
        pool = self._threads() if workers > 1 else None
        others = [pool.submit(work) for _ in range(workers - 1)] if pool else []
        work()
        for other in others:
            if not other.cancel():
                other.result()

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(thread_name_prefix="halocline-cpu")
            return self._pool


def taken(work: deque[_Item]) -> Iterator[_Item]:
    """Yield what no thread has taken yet; threads share the work."""
    while True:
        try:
            yield work.popleft()
        except IndexError:
            return


@dataclass(frozen=True, slots=True)
class Temporaries:
    """Temporaries that have memory, each with the domain that it is for."""

    inner: Axis
    buffers: tuple[tuple[Buffer, Domain], ...]

    def places(self) -> Places:
        """Return new memory for each."""
        return {b.name: buffer_place(b, self.inner, domain) for b, domain in self.buffers}


class SpareMemory:
    """Memory that calls left, `most` times at most, for later ones with the same temporaries."""

    def __init__(self, most: int) -> None:
        self._left: deque[tuple[Temporaries, Places]] = deque(maxlen=most)
        self._lock = Lock()

    def take(self, needed: Temporaries) -> Places:
        """Return memory that nothing else uses."""
        if not needed.buffers:
            return {}
        with self._lock:
            for number, (known, places) in enumerate(self._left):
                if known is needed or known == needed:
                    del self._left[number]
                    return places
        return needed.places()

    def leave(self, known: Temporaries, places: Places) -> None:
        """Leave memory to later calls."""
        if places:
            with self._lock:
                self._left.append((known, places))


@dataclass(frozen=True, slots=True)
class KernelCalls:
    """Calls of a kernel on boxes, in any order or at once.

    Its arguments are those of a box, `words` and scalars. Those with the numbers in `temporaries`
    are addresses of temporaries.
    """

    compiled: Compiled
    boxes: tuple[tuple[int, ...], ...]
    words: tuple[int, ...]
    temporaries: tuple[tuple[int, str], ...]
    scalars: tuple[str, ...]

    def arguments(self, places: Places, values: Scalars) -> list[tuple[Value, ...]]:
        """Return the arguments of each call."""
        rest: list[Value] = [*self.words, *[values[name] for name in self.scalars]]
        before = len(self.boxes[0])
        for number, name in self.temporaries:
            rest[number - before] = places[name].words[0]
        return [(*box, *rest) for box in self.boxes]


@dataclass(frozen=True, slots=True)
class Slabs:
    """Kernels that are called in turn on slab after slab, whose arrays fit in a core's cache.

    Each kernel has one box, of which a slab has a range across `axis`. The temporaries in `local`
    hold one slab: the domain's first point lies before their memory, as far as the slab's first
    point is from it. `moving` are their addresses among the arguments of each kernel: number, name
    and stride across slabs.
    """

    kernels: tuple[KernelCalls, ...]
    ranges: tuple[tuple[int, int], ...]
    axis: int
    local: Temporaries
    moving: tuple[tuple[tuple[int, str, int], ...], ...]
    workers: int

    def run(self, arguments: list[tuple[Value, ...]], team: Team, spare: SpareMemory) -> None:
        """Call all kernels; each thread takes slabs that no other one has taken."""
        left, start = deque(self.ranges), 2 * self.axis

        def some() -> None:
            own = spare.take(self.local)
            work = [
                (kernel.compiled, list(words), moving)
                for kernel, words, moving in zip(self.kernels, arguments, self.moving, strict=True)
            ]
            for low, high in taken(left):
                for compiled, words, moving in work:
                    words[start : start + 2] = low, high
                    for number, name, stride in moving:
                        words[number] = own[name].words[0] - low * stride
                    compiled(*words)
            spare.leave(self.local, own)

        team.share(some, self.workers)


@dataclass(frozen=True, slots=True)
class Work:
    """All that a call does, in order, on arrays that are somewhere, by so many threads."""

    steps: tuple[KernelCalls | Slabs, ...]
    temporaries: Temporaries
    threads: int

    def bound(
        self, places: Places, values: Scalars, team: Team, spare: SpareMemory
    ) -> list[Callable[[], None]]:
        """Return what to do with temporaries in some places and values of scalars, in order."""
        found: list[Callable[[], None]] = []
        for step in self.steps:
            match step:
                case KernelCalls():
                    arguments = step.arguments(places, values)
                    found.append(partial(team.run, step.compiled, arguments, self.threads))
                case Slabs():
                    each = [kernel.arguments(places, values)[0] for kernel in step.kernels]
                    found.append(partial(step.run, each, team, spare))
                case _:
                    assert_never(step)
        return found
