"""The passes in order; what they do stands in their own files."""

from __future__ import annotations

from collections.abc import Callable

from halocline_engine.ir.nodes import Program
from halocline_engine.passes.split_conditionals import split_conditionals
from halocline_engine.passes.visit_assigned_levels import visit_assigned_levels
from halocline_engine.passes.widen_planes import widen_planes

__all__ = ["PASSES"]

PASSES: tuple[Callable[[Program], Program], ...] = (
    widen_planes,
    visit_assigned_levels,
    split_conditionals,
)
