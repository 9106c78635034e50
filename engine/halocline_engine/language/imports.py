"""Meaning of the imports of a program's text; nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

__all__ = ["foreign_names", "imported_names", "is_externals", "without_module"]

_MODULES = (
    "gt4py",
    "halocline",
    "math",
    "numpy",
    "typing",
    "typing_extensions",
    "__future__",
    "__gtscript__",
)

#: What modules of GT4Py and NumPy are called inside the language.
_PREFIXES: Mapping[str, str] = {
    "gt4py": "gt4py",
    "gt4py.cartesian": "gt4py.cartesian",
    "gt4py.cartesian.gtscript": "",
    "gt4py.gtscript": "",
    "halocline.gtscript": "",
    "math": "math",
    "ndsl.dsl.gt4py": "",
    "numpy": "np",
}

#: Names that the language had once.
_RENAMED: Mapping[str, str] = {"THIS_K": "K"}
_EXTERNALS = ("__externals__", "gt4py.__externals__", "gt4py.cartesian.__externals__")


def is_externals(node: ast.AST) -> bool:
    """Say whether a statement imports externals, as GT4Py spells it or once did."""
    return isinstance(node, ast.ImportFrom) and node.module in _EXTERNALS


def foreign_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a text imports from modules which are not read."""
    for node in _imports(tree.body):
        match node:
            case ast.Import(names):
                for alias in names:
                    if not _is_known(alias.name):
                        yield alias.asname or alias.name.partition(".")[0]
            case ast.ImportFrom(module, names):
                if not _is_known(module or ""):
                    yield from (alias.asname or alias.name for alias in names)


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Return what imported names stand for, `gtscript` and `numpy` also without an import."""
    aliases = {"gtscript": "", "numpy": "np", "THIS_K": "K"}
    for node in _imports(tree.body):
        match node:
            case ast.Import(names):
                for alias in names:
                    if alias.asname and _is_known(alias.name):
                        aliases[alias.asname] = _PREFIXES.get(alias.name, alias.name)
            case ast.ImportFrom(module, names):
                for alias in names:
                    aliases |= _imported(module or "", alias)
    return aliases


def without_module(name: str) -> str:
    """Return a name as the language has it, without a module of GT4Py in full.

    >>> without_module("gt4py.cartesian.gtscript.Field"), without_module("grid.DX")
    ('Field', 'grid.DX')
    """
    module, _, last = name.rpartition(".")
    return last if _PREFIXES.get(module) == "" else name


def _imports(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of a module, those that it tries or makes on a condition among them."""
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield node
            case ast.If(body=inner, orelse=other) | ast.Try(body=inner, orelse=other):
                yield from _imports((*inner, *other))
            case _:
                pass


def _is_known(module: str) -> bool:
    return module in _PREFIXES or module.partition(".")[0] in _MODULES


def _imported(module: str, alias: ast.alias) -> dict[str, str]:
    """Return what one name of a `from ... import` stands for."""
    prefix = _PREFIXES.get(module)
    full = f"{module}.{alias.name}"
    if full in _PREFIXES:
        return {alias.asname or alias.name: _PREFIXES[full]}
    if prefix is None or alias.name == "*":
        return {}
    name = f"{prefix}.{alias.name}" if prefix else _RENAMED.get(alias.name, alias.name)
    return {alias.asname or alias.name: name}
