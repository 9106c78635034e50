"""The program that a text means, without the warnings of its types."""

from __future__ import annotations

from typing import Any

from halocline_engine.ir.lower import program
from halocline_engine.ir.nodes import Program
from halocline_engine.language.syntax import Syntax

__all__ = ["lower"]


def lower(syntax: Syntax, **options: Any) -> Program:
    """Return what `ir.lower.program.lower` makes, less its warnings."""
    return program.lower(syntax, **options)[0]
