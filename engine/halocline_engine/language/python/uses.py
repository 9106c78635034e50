"""Names from outside that functions of a text use, whatever else a module has beside them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

from halocline_engine.language.imports import is_externals
from halocline_engine.language.parsing import parsed

__all__ = [
    "Reference",
    "Uses",
    "all_uses",
    "chains",
    "locals_of",
    "outside",
    "references_of",
    "stencil_uses",
]

#: A name and the attributes that follow it.
Reference: TypeAlias = tuple[str, tuple[str, ...]]
_Position: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Uses:
    """Names that functions use, attributes of them and those they call, and imported externals."""

    names: frozenset[str] = frozenset()
    attributes: frozenset[Reference] = frozenset()
    calls: frozenset[Reference] = frozenset()
    imported: frozenset[str] = frozenset()

    def __or__(self, other: Uses) -> Uses:
        """Return the uses of both."""
        return Uses(
            self.names | other.names,
            self.attributes | other.attributes,
            self.calls | other.calls,
            self.imported | other.imported,
        )


def all_uses(text: str) -> Uses:
    """Return what the functions of a text use."""
    tree = _tree(text)
    return _united(_uses(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def stencil_uses(text: str, name: str | None) -> Uses:
    """Return what a stencil of a text uses, or all of them, with the functions that they call.

    What a constant is made of is used where the constant is; what it calls is not, as nothing is
    executed.
    """
    tree = _tree(text)
    functions: dict[str, list[ast.FunctionDef]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            functions.setdefault(node.name, []).append(node)
    stencils = [one for one, nodes in functions.items() if any(map(_is_stencil, nodes))]
    constants = dict(_constants(tree))
    todo, seen, uses = [name] if name in functions else stencils, set[str](), Uses()
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        own = _united(_uses(node) for node in functions.get(one, ()))
        own |= Uses(frozenset(constants.get(one, ())))
        uses |= own
        todo += own.names
    return uses


def _tree(text: str) -> ast.Module:
    """Return the tree of a text, empty where it has none: the language tells what is wrong."""
    try:
        return parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _united(several: Iterable[Uses]) -> Uses:
    whole = Uses()
    for one in several:
        whole |= one
    return whole


def _uses(node: ast.FunctionDef) -> Uses:
    """Return what a function uses itself."""
    imports = [each for each in ast.walk(node) if isinstance(each, ast.ImportFrom)]
    imported = {
        alias.asname or alias.name for each in imports if is_externals(each) for alias in each.names
    }
    own = locals_of(node) - imported
    parts = outside(node)
    read = {each[:2] for part in parts for each in chains(part) if each[0] not in own}
    called = [inner for part in parts for inner in ast.walk(part) if isinstance(inner, ast.Call)]
    calls = {each[:2] for inner in called for each in chains(inner.func)}
    return Uses(
        frozenset(root for root, _ in read),
        frozenset(each for each in read if each[1]),
        frozenset(call for call in calls if call[0] not in own),
        frozenset(imported),
    )


def _constants(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Yield the constants of a module, each with the names that its value has."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        called = [each.func for each in ast.walk(node.value) if isinstance(each, ast.Call)]
        callees = {each for one in called for each in ast.walk(one)}
        names = {
            each.id
            for each in ast.walk(node.value)
            if isinstance(each, ast.Name) and each not in callees
        }
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            for each in ast.walk(target):
                if isinstance(each, ast.Name):
                    yield each.id, names


def _is_stencil(node: ast.FunctionDef) -> bool:
    """Whether a function has computations, at its top or in a choice made there."""
    inner = [each for step in node.body if isinstance(step, ast.If) for each in ast.walk(step)]
    blocks = [step for step in (*node.body, *inner) if isinstance(step, ast.With)]
    return any("computation(" in ast.unparse(block.items[0]) for block in blocks)


def references_of(node: ast.FunctionDef) -> Iterator[Reference]:
    """Yield the names from outside that a function reads, in text order, with their attributes."""
    local = locals_of(node)
    found = (each[:2] for part in outside(node) for each in chains(part))
    yield from dict.fromkeys(each for each in found if each[0] not in local)


def outside(node: ast.FunctionDef) -> list[ast.AST]:
    """Return the parts of a function that may refer to something outside."""
    return [*ast.iter_child_nodes(node.args), *node.body]


def chains(node: ast.AST) -> Iterator[tuple[str, tuple[str, ...], _Position, _Position]]:
    """Yield `name.attribute...` chains below a node, in text order, with start and end."""
    path: list[str] = []
    root = node
    while isinstance(root, ast.Attribute):
        path.insert(0, root.attr)
        root = root.value
    if isinstance(root, ast.Name):
        whole = cast("ast.expr", node)
        end = (whole.end_lineno or whole.lineno, whole.end_col_offset or 0)
        yield (root.id, tuple(path), (root.lineno, root.col_offset), end)
        return
    for child in ast.iter_child_nodes(node):
        yield from chains(child)


def locals_of(node: ast.FunctionDef) -> frozenset[str]:
    """Return the names that belong to the function: parameters, targets and imports."""
    names = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                names |= {alias.asname or alias.name for alias in aliases}
            case _:
                pass
    return frozenset(names)
