"""`__all__` says exactly what a module defines for others, and packages hold a docstring only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    ROOT / "engine/halocline_engine",
    ROOT / "service/halocline_service",
    ROOT / "clients/python/halocline",
)
# The users' doors gather names from the modules that define them.
PUBLIC = {
    ROOT / "engine/halocline_engine/__init__.py",
    ROOT / "clients/python/halocline/__init__.py",
    ROOT / "service/halocline_service/__init__.py",
}
# Alembic finds these by file and by name; nobody imports from them.
SCRIPTS = ROOT / "service/halocline_service/store/sql/migrations"

FILES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
MODULES = [path for path in FILES if path.name != "__init__.py" and SCRIPTS not in path.parents]
INITS = [path for path in FILES if path.name == "__init__.py" and path not in PUBLIC]


#: Modules that offer what another package defines, so that there is one of it.
SHARING = {"clients/python/halocline/errors.py"}


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the module is imported, those inside `if` and `try` among them."""
    for statement in body:
        yield statement
        for inner in ("body", "orelse", "finalbody", "handlers"):
            if isinstance(statement, ast.If | ast.Try | ast.ExceptHandler | ast.With):
                yield from statements(getattr(statement, inner, []))


def targets(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.Assign(targets=found):
            return found
        case ast.AnnAssign(target=found):
            return [found]
        case _:
            return []


def registered(statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Say whether a route or a command, as in `@router.get(...)`: reached by its object."""
    return any(
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and isinstance(decorator.func.value, ast.Name)
        and decorator.func.value.id in {"app", "router", "keys", "uploads"}
        for decorator in statement.decorator_list
    )


def defined(tree: ast.Module) -> set[str]:
    """Public names that the module makes for others; imported names are not among them."""
    names: set[str] = set()
    for statement in statements(tree.body):
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.update(() if registered(statement) else (statement.name,))
            case _:
                pass
        for target in targets(statement):
            names.update(node.id for node in ast.walk(target) if isinstance(node, ast.Name))
    return {name for name in names if not name.startswith("_")}


def imported(tree: ast.Module) -> set[str]:
    return {
        alias.asname or alias.name
        for node in statements(tree.body)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def exported(tree: ast.Module) -> list[str] | None:
    """Read what `__all__` lists; None where it is missing or not a plain list of strings."""
    for statement in tree.body:
        for target in targets(statement):
            if isinstance(target, ast.Name) and target.id == "__all__":
                value = statement.value if isinstance(statement, ast.Assign) else None
                return None if value is None else ast.literal_eval(value)
    return None


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_all_is_exactly_the_public_names(path: Path) -> None:
    tree = ast.parse(path.read_text())
    listed = exported(tree)
    assert listed is not None, "The module has no '__all__'."
    shared = imported(tree) if label(path) in SHARING else set[str]()
    assert set(listed) - shared == defined(tree)
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("path", INITS, ids=label)
def test_a_package_holds_a_docstring_only(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "The package says nothing about itself."
    assert len(tree.body) == 1, "Import from the defining module instead."


@pytest.mark.parametrize("path", sorted(PUBLIC), ids=label)
def test_a_public_package_exports_what_it_imports(path: Path) -> None:
    tree = ast.parse(path.read_text())
    listed = exported(tree)
    assert listed is not None, "The package has no '__all__'."
    gathered = {name for name in imported(tree) if not name.startswith("_")} - {"annotations"}
    assert set(listed) - {"__version__"} == gathered | defined(tree)


def test_a_name_that_is_not_listed_is_found() -> None:
    tree = ast.parse(
        "from math import pi\n__all__ = ['f']\n_x = 1\ntry:\n    A, B = 1, 2\nexcept E:\n"
        "    C: int = 3\nif A:\n    def f(): inner = 1\nelse:\n    class G: h = 1\n"
        "@router.get('/')\ndef route(): ...\n@lru_cache(3)\ndef cached(): ...\n"
    )
    assert exported(tree) == ["f"]
    assert defined(tree) == {"A", "B", "C", "f", "G", "cached"}
    assert imported(tree) == {"pi"}
