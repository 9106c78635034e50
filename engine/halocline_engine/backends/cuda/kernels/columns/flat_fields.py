"""Fields without levels that a column assigns: it has its element in a variable.

Every level would otherwise wait for what the level before stored. The element is loaded before the
first level and stored behind the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import indent, offsets
from halocline_engine.backends.cuda.text.statements import HERE, Scope, element
from halocline_engine.schedule.nodes import Kernel

__all__ = ["flat_fields", "flat_loads", "flat_stores", "with_flat_fields"]


def flat_fields(kernel: Kernel) -> frozenset[str]:
    """Return the names of the fields of which a column has its element in a variable.

    No other column looks at what this one assigns.
    """
    return kernel.flat - kernel.irregular


def with_flat_fields(scope: Scope, names: frozenset[str]) -> Scope:
    """Return the scope of a kernel whose columns have elements of these names in variables."""
    found = {name: f"flat_{text}" for name, text in scope.arrays.items() if name in names}
    return replace(scope, outputs={**scope.outputs, **found})


def flat_loads(scope: Scope, names: frozenset[str]) -> list[str]:
    """Return the declarations of the variables, with what is in memory before the first level."""
    arrays = [name for name in scope.arrays if name in names]
    loads = [f"{scope.outputs[name]} = {element(scope, name, HERE)};" for name in arrays]
    variables = [f"{TYPES[scope.dtypes[name]]} {scope.outputs[name]};" for name in arrays]
    return [*variables, *_block(scope, arrays, loads)]


def flat_stores(scope: Scope, names: frozenset[str]) -> list[str]:
    """Return the stores behind the last level."""
    arrays = [name for name in scope.arrays if name in names]
    stores = [f"{element(scope, name, HERE)} = {scope.outputs[name]};" for name in arrays]
    return _block(scope, arrays, stores)


def _block(scope: Scope, arrays: Sequence[str], lines: list[str]) -> list[str]:
    return ["{", *indent([*offsets(arrays, scope), *lines]), "}"] if lines else []
