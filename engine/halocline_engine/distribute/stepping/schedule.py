"""The acts of a step on arrays that stay: exchanges of halos, stages, and turns of arrays.

A step is a list of stages and turns. Before a stage, the halos of exactly those variables are
exchanged that it reads beside its points and that changed since their last exchange. All of it is
planned once, by names alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

__all__ = [
    "Act",
    "Exchanged",
    "Made",
    "Operation",
    "Run",
    "StageFields",
    "Turn",
    "Turned",
    "schedules",
    "turned",
]

#: Steps after which the same acts are expected again.
_SETTLED = 8


@dataclass(frozen=True, slots=True)
class StageFields:
    """The variables of a stage.

    `near` are read beside their points along a dimension that is cut; `replaced` are those of the
    `written` that get all their values anew. `ghosts` are the variables with cells beyond the data
    that the stage reads, each with the rules that make them. `repeated` are read as copies that
    have more dimensions.
    """

    read: frozenset[str]
    written: frozenset[str]
    replaced: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    ghosts: Mapping[str, Hashable] = field(default_factory=dict[str, Hashable])
    repeated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Run:
    """Run the stage of a number."""

    stage: int
    fields: StageFields


@dataclass(frozen=True, slots=True)
class Turn:
    """Give variables the values of others, all at once: `sources` by the variable that changes."""

    sources: Mapping[str, str]


#: What a step does, in its order.
Operation: TypeAlias = Run | Turn


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Exchange the halos of variables."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """Run a stage, after making the ghosts and the copies of some variables anew."""

    stage: int
    ghosts: tuple[str, ...]
    repeated: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Turned:
    """Give variables the arrays of others; then copy values into some of them.

    Each of `copied` is a variable and the one whose values it gets.
    """

    arrays: Mapping[str, str]
    copied: tuple[tuple[str, str], ...]


#: An act of a step.
Act: TypeAlias = Exchanged | Made | Turned


@dataclass(frozen=True, slots=True)
class _State:
    """Which halos, ghosts and copies belong to the values of their variables."""

    halos: frozenset[str] = frozenset()
    ghosts: Mapping[str, Hashable] = field(default_factory=dict[str, Hashable])
    repeated: frozenset[tuple[int, str]] = frozenset()

    def without(self, names: frozenset[str]) -> _State:
        """Return the state after some variables changed."""
        return _State(
            self.halos - names,
            {name: rules for name, rules in self.ghosts.items() if name not in names},
            frozenset(one for one in self.repeated if one[1] not in names),
        )


def schedules(
    operations: Sequence[Operation], feedback: Mapping[str, str], results: frozenset[str]
) -> tuple[Sequence[Act], Sequence[Act]]:
    """Return the acts of the first step, and those of each later one.

    A later step begins with the `feedback`: results by the variable that gets their values.
    `results` are the variables that are looked at after each step.
    """
    first, before = _planned(operations, results, _State())
    later = [*([Turn(feedback)] if feedback else []), *operations]
    for _ in range(_SETTLED):
        acts, state = _planned(later, results, before)
        if state == before:
            return first, acts
        before = state
    # Halos that are exchanged, and ghosts that are made, once too often change nothing.
    return first, _planned(later, results, _State())[0]


def _planned(
    operations: Sequence[Operation], results: frozenset[str], state: _State
) -> tuple[list[Act], _State]:
    acts: list[Act] = []
    for at, one in enumerate(operations):
        match one:
            case Run(stage, fields):
                late = tuple(sorted(fields.near - state.halos))
                if late:
                    acts.append(Exchanged(late))
                    state = state.without(frozenset(late))
                    state = replace(state, halos=state.halos.union(late))
                ghosts = [n for n, rules in fields.ghosts.items() if state.ghosts.get(n) != rules]
                copies = [n for n in sorted(fields.repeated) if (stage, n) not in state.repeated]
                acts.append(Made(stage, tuple(ghosts), tuple(copies)))
                state = _State(
                    state.halos,
                    {**state.ghosts, **fields.ghosts},
                    state.repeated.union((stage, name) for name in fields.repeated),
                ).without(fields.written)
            case Turn(sources):
                kept = frozenset(_kept(sources, operations[at + 1 :], results))
                acts.append(turned(sources, kept))
                state = _moved(sources, state)
    return acts, state


def _moved(sources: Mapping[str, str], state: _State) -> _State:
    """Return the state after variables got the values of others, halos and ghosts included."""
    changed = frozenset([*sources, *sources.values()])
    after = state.without(changed)
    return replace(
        after,
        halos=after.halos.union(to for to, of in sources.items() if of in state.halos),
        ghosts={
            **after.ghosts,
            **{to: state.ghosts[of] for to, of in sources.items() if of in state.ghosts},
        },
    )


def _kept(
    sources: Mapping[str, str], later: Sequence[Operation], results: frozenset[str]
) -> Iterator[str]:
    """Yield the first variables of chains whose values are still asked for after a turn."""
    for name in sources.values():
        if name not in sources and _is_read(name, later, results):
            yield name


def _is_read(name: str, later: Sequence[Operation], results: frozenset[str]) -> bool:
    """Whether values of a variable are asked for before it gets others, or the step ends."""
    for one in later:
        match one:
            case Run(_, fields):
                if name in fields.read:
                    return True
                if name in fields.replaced:
                    return False
            case Turn(sources):
                if name in sources.values():
                    return True
                if name in sources:
                    return False
    return name in results


def turned(sources: Mapping[str, str], kept: frozenset[str]) -> Turned:
    """Return how arrays change their places: along a chain each variable gets that of the next one.

    The first one of a chain gets the array that the last one had, and if it is `kept` its values.

    >>> turned({"h": "new", "old": "h"}, frozenset({"new"}))
    Turned(arrays={'h': 'new', 'old': 'h', 'new': 'old'}, copied=(('new', 'h'),))
    """
    arrays, copied = dict(sources), list[tuple[str, str]]()
    fed = {of: to for to, of in sources.items()}
    for first in [name for name in fed if name not in sources]:
        last = fed[first]
        while last in fed:
            last = fed[last]
        arrays[first] = last
        if first in kept:
            copied.append((first, fed[first]))
    return Turned(arrays, tuple(copied))
