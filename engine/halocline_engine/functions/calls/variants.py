"""Executables of a stencil, specialised on the outcomes of conditions on scalars."""

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

#: Whether each condition holds; empty for a program without such conditions.
Outcomes: TypeAlias = tuple[bool, ...]

#: Maximum number of cached values of scalars with their outcomes, and of executables; several
#: outcomes may lead to the same program.
_REMEMBERED, _EXECUTABLES = 256, 16


class Variants:
    """The executables of a program on its target.

    Each is compiled upon its first call. After many different outcomes, further ones use the
    general executable, which tests the conditions itself.
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
        """Return the outcomes for the scalars of a call; None if a scalar is invalid."""
        if not self._conditions:
            return ()
        key = tuple(values.get(scalar.name) for scalar in self._scalars)
        try:
            outcomes = self._known.get(key)
            if outcomes is None:
                outcomes = self._evaluate(key)
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[key] = outcomes
        except (ArgumentError, TypeError):
            return None
        return outcomes

    def load(self, scalars: Mapping[str, object]) -> Executable:
        """Return the executable for checked scalars."""
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
        """Yield the loaded executables."""
        yield from tuple(self._programs.values())

    def _evaluate(self, key: tuple[object, ...]) -> Outcomes:
        given = zip(self._scalars, key, strict=True)
        values = {
            one.name: scalar_value(one, one.default if value is None else value)
            for one, value in given
        }
        return outcomes_of(self._conditions, values)
