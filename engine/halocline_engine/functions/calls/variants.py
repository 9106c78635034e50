"""Executables of a stencil, one for each outcome of the conditions on scalars in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from halocline_engine.analysis.named import given_scalars
from halocline_engine.analysis.scalars import scalar_value
from halocline_engine.backends.base import Executable
from halocline_engine.backends.compiled import Compiled
from halocline_engine.backends.settled import outcomes_of, settled, settled_conditions
from halocline_engine.errors import ArgumentError
from halocline_engine.ir.walk import parameters_of

__all__ = ["Outcomes", "Variants"]

#: Whether each condition holds, or nothing where a program has none.
Outcomes: TypeAlias = tuple[bool, ...]

#: How many values of scalars, and their outcomes, are remembered, and how many executables there
#: are for them; several outcomes may leave the same program.
_REMEMBERED, _EXECUTABLES = 256, 16


class Variants:
    """The executables of a program on its target.

    Each is compiled when a call first needs it. Where scalars have had many outcomes, calls with
    other ones have the executable that tests the conditions itself.
    """

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._conditions = settled_conditions(compiled)
        named = {one for condition in self._conditions for one in parameters_of(condition)}
        scalars = given_scalars(compiled.program)
        self._scalars = tuple(scalar for scalar in scalars if scalar.name in named)
        self._known: dict[tuple[object, ...], Outcomes] = {}
        self._loaded: dict[Outcomes | None, Executable] = {}
        self._programs: dict[str, Executable] = {}

    def outcomes(self, values: Mapping[str, object]) -> Outcomes | None:
        """Return the outcomes for scalars as a caller gives them; None if one cannot be taken."""
        if not self._conditions:
            return ()
        key = tuple(values.get(scalar.name) for scalar in self._scalars)
        try:
            found = self._known.get(key)
            if found is None:
                found = self._found(key)
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[key] = found
        except (ArgumentError, TypeError):
            return None
        return found

    def load(self, scalars: Mapping[str, object]) -> Executable:
        """Return the executable for calls with such scalars, which were checked."""
        key = self.outcomes(scalars)
        executable = self._loaded.get(key)
        if executable is None:
            several = len(self._loaded) < _REMEMBERED and len(self._programs) < _EXECUTABLES
            compiled = settled(self._compiled, key) if key and several else self._compiled
            executable = self._programs.get(compiled.fingerprint)
            if executable is None:
                executable = compiled.artifact.load()
                executable = self._programs.setdefault(compiled.fingerprint, executable)
            if several:
                self._loaded[key] = executable
        return executable

    def __iter__(self) -> Iterator[Executable]:
        """Yield what is loaded."""
        yield from tuple(self._programs.values())

    def _found(self, key: tuple[object, ...]) -> Outcomes:
        given = zip(self._scalars, key, strict=True)
        values = {
            one.name: scalar_value(one, one.default if value is None else value)
            for one, value in given
        }
        return outcomes_of(self._conditions, values)
