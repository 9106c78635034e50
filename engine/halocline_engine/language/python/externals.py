"""Programs and their externals as text and JSON, for services that have neither module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from halocline_engine.errors import ProgramError
from halocline_engine.language.gtscript import parse
from halocline_engine.language.python.sources import (
    ProgramLike,
    Source,
    nested_externals,
    program_source,
    used_externals,
    with_functions,
)

__all__ = ["with_externals"]


def with_externals(
    program: ProgramLike, externals: Mapping[str, Any], name: str | None
) -> tuple[Source, dict[str, Any]]:
    r"""Return the text of a program with its functions as externals, and the other values.

    Functions stand below the text, and ``{'function': name}`` in place of them. Objects become
    mappings of the attributes that the stencil reads. Raises SourceError where there is no text.

    >>> source, values = with_externals("def f(a):\n    a = K0\n", {"K0": 2, "other": 1}, None)
    >>> values
    {}
    """
    source = program_source(program)
    externals = nested_externals(externals)
    if externals:
        try:
            syntax = parse(source.text)
        except ProgramError:  # which is said once the program is checked
            return source, used_externals(source, externals, name)
        defined = {definition.name for definition in syntax.definitions}
        source = with_functions(source, program, externals, defined, syntax.foreign, name)
    return source, used_externals(source, externals, name)
