"""The passes in order; what they do stands in their own files."""

from __future__ import annotations

from collections.abc import Callable

from halocline_engine.ir.nodes import Program
from halocline_engine.passes.split_conditionals import split_conditionals

__all__ = ["PASSES"]

PASSES: tuple[Callable[[Program], Program], ...] = (split_conditionals,)
