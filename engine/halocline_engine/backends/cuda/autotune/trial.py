"""One kind of call whose candidates are compiled beside the calls, and then timed in one of them.

Compiling takes seconds and no device, so it has threads of its own while calls go on as usual.
Timing takes a fraction of a second and must have the device for itself, so a call that comes when
enough is compiled does it first, on scratch arrays for whatever it writes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from halocline_engine.backends.base import Fields, Origins, Point, Scalars
from halocline_engine.backends.cuda.autotune.choice import Choice, choice_from, choice_text
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import View
from halocline_engine.errors import HaloclineError
from halocline_engine.schedule.tune import Candidate, Measured, measured, proposed

__all__ = ["COMPILING", "Prospect", "Trial", "united"]

#: The name of the threads that compile.
COMPILING = "halocline-tuning"

#: Candidates with the default; compilers that run at once.
_MOST = 14
_COMPILERS = 6


class Prospect(Protocol):
    """A program that runs as one candidate says; see `run.CudaExecutable`."""

    def compile_for(self, views: Mapping[str, View], domain: Domain) -> None:
        """Compile what calls on fields that lie so need; needs no device."""
        ...

    def __call__(self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point) -> None:
        """Queue the program."""
        ...


class Trial:
    """Candidates for calls on fields that lie as `views` say.

    `candidates` draws them up, the usual one first, and `make` makes one run.
    """

    def __init__(
        self,
        candidates: Callable[[], Sequence[Candidate]],
        make: Callable[[Choice], Prospect],
        views: Mapping[str, View],
        domain: Domain,
    ) -> None:
        self._make = make
        self._views = views
        self._domain = domain
        self._draw = candidates
        self._waiting: deque[Candidate] = deque()
        self._prospects: dict[str, Prospect] = {}
        self._failures: dict[str, str] = {}
        self._all: tuple[Candidate, ...] = ()
        self._done = threading.Event()
        self._stopped = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Compile in threads that do not delay the end of the process."""
        threading.Thread(target=self._compile, name=COMPILING, daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Return when all is compiled, or after some seconds."""
        self._done.wait(max(0.0, seconds))

    @property
    def complete(self) -> bool:
        """Whether nothing is left to compile."""
        return self._done.is_set()

    def results(
        self,
        time: Callable[[Prospect], float],
        now: Callable[[], float],
        until: float,
    ) -> tuple[Measured, ...]:
        """Return what was measured of each candidate; empty if they are not even drawn up.

        What is not compiled now is left out, but for the usual one, which calls have compiled.
        Nothing is begun after `until` on the clock `now`. Raises what the usual one raises.
        """
        with self._lock:
            self._stopped = True
            prospects, failures = dict(self._prospects), dict(self._failures)
        usual = self._all[:1]
        if not usual:
            return ()
        if usual[0].options not in prospects:
            prospects[usual[0].options] = self._make(choice_from(usual[0].options))

        def seconds(one: Candidate) -> float:
            return time(prospects[one.options])

        ready = tuple(one for one in self._all if one.options in prospects)
        found = list(measured(ready, seconds, now, until))
        union = united(found)
        if union is not None and now() < until:
            options = choice_text(union)
            both = Candidate("the best of each kernel", options, 0.0)
            prospects[options] = self._make(union)
            _, last = measured((usual[0], both), seconds, now, until)
            found.append(last)
        late = "It was not compiled in time."
        missing = (
            Measured(one.label, one.options, None, 0, failures.get(one.options, late))
            for one in self._all
            if one.options not in prospects
        )
        return (*found, *missing)

    def _compile(self) -> None:
        try:
            self._all = proposed(self._draw(), _MOST)
            self._waiting.extend(self._all)
            several = [
                threading.Thread(target=self._compile_some, name=COMPILING, daemon=True)
                for _ in range(min(_COMPILERS, len(self._all)))
            ]
            for thread in several:
                thread.start()
            for thread in several:
                thread.join()
        finally:
            self._done.set()

    def _compile_some(self) -> None:
        while not self._stopped:
            try:
                one = self._waiting.popleft()
            except IndexError:
                return
            prospect = self._make(choice_from(one.options))
            try:
                prospect.compile_for(self._views, self._domain)
            except HaloclineError as error:
                with self._lock:
                    self._failures[one.options] = str(error)
                continue
            with self._lock:
                self._prospects[one.options] = prospect


def united(results: Sequence[Measured]) -> Choice | None:
    """Return the best tile of each kernel together, if more than one has a better one."""
    default = results[0].seconds
    best: dict[str, tuple[float, Tile]] = {}
    for one in results[1:]:
        choice = choice_from(one.options)
        if one.seconds is None or default is None or one.seconds >= default:
            continue
        for name, tile in choice.tiles:
            if name not in best or one.seconds < best[name][0]:
                best[name] = (one.seconds, tile)
    if len(best) < 2:
        return None
    return Choice(tuple((name, tile) for name, (_, tile) in sorted(best.items())))
