"""From text to an artifact: the order of the stages, in one screen."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from halocline_engine import arguments
from halocline_engine.analysis.dependence import check
from halocline_engine.analysis.extents import analyse
from halocline_engine.analysis.warnings import unassigned_temporaries, unread_temporaries
from halocline_engine.backends.compiled import Compiled, retargeted
from halocline_engine.backends.registry import resolve
from halocline_engine.backends.targets import TARGETS
from halocline_engine.errors import ArgumentError, ProgramError
from halocline_engine.ir.lower.program import lower
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.verify import verify
from halocline_engine.language.gtscript import parse
from halocline_engine.language.limits import LIMITS, Limits
from halocline_engine.language.python.sources import (
    ProgramLike,
    nested_externals,
    program_source,
    with_functions,
    with_place,
)
from halocline_engine.language.source import Place, excerpt, locate
from halocline_engine.passes.choose_components import choose_components
from halocline_engine.passes.contract import contract
from halocline_engine.passes.pipeline import PASSES
from halocline_engine.program_warning import ProgramWarning
from halocline_engine.schedule.plan import plan

__all__ = ["Arithmetic", "compile_lowered", "compile_program"]

#: Compiled programs that are kept for further calls with the same text, and its longest one.
_KEPT_PROGRAMS = 32
_KEPT_TEXT = 1 << 16

#: Whether each operation is rounded by itself, or a * b + c once.
Arithmetic: TypeAlias = Literal["separate", "fused"]


def compile_program(
    program: ProgramLike,
    *,
    stencil_name: str | None = None,
    externals: Mapping[str, Any] | None = None,
    dtypes: Mapping[Any, Any] | None = None,
    literal_precision: int | Mapping[str, int] = 64,
    arithmetic: Arithmetic = "separate",
    limits: Limits | None = None,
    target: str = "auto",
) -> Compiled:
    """Compile a text, a file or a Python function for a target; the arguments are `stencil`'s.

    Raises `ProgramError` with an excerpt of the text.
    """
    if not (isinstance(program, Path) or callable(program)):
        arguments.text("program", program, "the text of a program, a file, a function or a stencil")
    source = program_source(program)
    if stencil_name is not None:
        arguments.text("stencil_name", stencil_name, "the name of a function of the text")
    given = nested_externals(arguments.by_name("externals", externals, "{'ORDER': 2}"))
    bits = arguments.literal_bits(literal_precision)
    example = "{'real': 'float32'}"
    types, (integer, floating) = arguments.types_by_name("dtypes", dtypes, example, bits)
    reading = _Reading(
        text=source.text,
        name=stencil_name or source.name,
        limits=_limits(limits),
        literal_int=integer,
        literal_float=floating,
        fused=_is_fused(arithmetic),
        target=resolve(target),
    )
    try:
        if not (given or types or source.renamed) and len(source.text) <= _KEPT_TEXT:
            return _compile_alone(reading)
        syntax = parse(source.text, limits=reading.limits)
        defined = {definition.name for definition in syntax.definitions}
        source = with_functions(source, program, given, defined, syntax.foreign, stencil_name)
        reading = replace(reading, text=source.text, name=stencil_name or source.name)
        return _compile_text(reading, given, types, source.renamed)
    except ProgramError as error:
        raise with_place(locate(error, source.text), source) from None


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text, and how it is read and compiled, but for values of the caller."""

    text: str
    name: str | None
    limits: Limits
    literal_int: int
    literal_float: int
    fused: bool
    target: str


@functools.lru_cache(maxsize=_KEPT_PROGRAMS)
def _compile_alone(reading: _Reading) -> Compiled:
    """Compile a text that takes no values of the caller: once, as many calls have the same one."""
    return _compile_text(reading, {}, {}, {})


def _compile_text(
    reading: _Reading,
    externals: Mapping[str, Any],
    dtypes: Mapping[str, Any],
    renamed: Mapping[object, str],
) -> Compiled:
    """Compile a text with the values that it imports; raises `ProgramError`."""
    meaning, warnings = lower(
        parse(reading.text, limits=reading.limits),
        name=reading.name,
        externals=externals,
        dtypes=dtypes,
        literal_int=reading.literal_int,
        literal_float=reading.literal_float,
        renamed=renamed,
    )
    passes = (*PASSES, contract) if reading.fused else PASSES
    compiled = compile_lowered(meaning, reading.target, passes)
    warnings += tuple(unassigned_temporaries(meaning))
    warnings += tuple(unread_temporaries(compiled.program, compiled.facts))
    return replace(compiled, warnings=_shown(warnings, reading.text))


def compile_lowered(
    program: Program, target: str, passes: Sequence[Callable[[Program], Program]] = PASSES
) -> Compiled:
    """Compile the meaning of a program, from whatever language, for a target that is not "auto".

    Raises ProgramError, without an excerpt.
    """
    verify(program)
    for rewrite in passes:
        program = rewrite(program)
        verify(program)
    check(program)
    facts = analyse(program)
    kernels = choose_components(program) if TARGETS[target].compiles else program
    if kernels is program:
        schedule = plan(program, facts, TARGETS[target].options())
    else:
        verify(kernels)
        schedule = plan(kernels, analyse(kernels), TARGETS[target].options())
    return retargeted(program, facts, schedule, target)


def _shown(warnings: Iterable[ProgramWarning], text: str) -> tuple[ProgramWarning, ...]:
    """Return warnings in the order of the text, each once, with excerpts."""
    found = {(each.line, each.column, each.message): each for each in warnings}
    for each in found.values():
        each.excerpt = excerpt(text, Place(each.line, each.column))
    return tuple(found[key] for key in sorted(found))


def _is_fused(given: object) -> bool:
    """Return whether sums with products are rounded once."""
    if given not in get_args(Arithmetic):
        raise ArgumentError(
            f"Argument 'arithmetic' must be 'separate' or 'fused', got {given!r}.",
            hint="'fused' rounds a * b + c once, 'separate' rounds each operation.",
        )
    return given == "fused"


def _limits(given: object) -> Limits:
    """Return the limits of programs that a caller gives, or the default ones."""
    if given is None:
        return LIMITS
    if not isinstance(given, Limits):
        raise ArgumentError(
            f"Argument 'limits' must be halocline_engine.Limits, got '{type(given).__name__}'.",
            hint="Write for example limits=halocline_engine.Limits(fields=512).",
        )
    return given
