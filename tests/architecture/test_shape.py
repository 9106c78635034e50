"""The size of modules and functions: small enough to be read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "engine/halocline_engine",
    "service/halocline_service",
    "clients/python/halocline",
)
MODULE_LINES = 500
FUNCTION_LINES = 60


def modules(root: Path = ROOT) -> list[Path]:
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def functions(source: str) -> Iterator[tuple[str, int]]:
    """Name and number of lines of every function, methods and inner functions among them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def long_modules(paths: list[Path], most: int = MODULE_LINES) -> list[str]:
    sizes = ((path, len(path.read_text().splitlines())) for path in paths)
    return [f"{path}: {size} lines" for path, size in sizes if size > most]


def long_functions(paths: list[Path], most: int = FUNCTION_LINES) -> list[str]:
    return [
        f"{path}: '{name}' has {size} lines"
        for path in paths
        for name, size in functions(path.read_text())
        if size > most
    ]


def test_every_package_is_measured() -> None:
    assert all((ROOT / package / "__init__.py").exists() for package in PACKAGES)


def test_no_module_is_longer_than_500_lines() -> None:
    assert long_modules(modules()) == []


def test_no_function_is_longer_than_60_lines() -> None:
    assert long_functions(modules()) == []


def test_typical_sizes_stay_small() -> None:
    """Half of the modules within 150 lines, nine of ten functions within 30."""
    module_sizes = [
        len(path.read_text().splitlines()) for path in modules() if path.name != "__init__.py"
    ]
    function_sizes = [size for path in modules() for _, size in functions(path.read_text())]
    typical_module = median(module_sizes)
    large_function = quantiles(function_sizes, n=10)[-1]
    print(
        f"\n{len(module_sizes)} modules, median {typical_module:.0f} lines, longest "
        f"{max(module_sizes)}; {len(function_sizes)} functions, median "
        f"{median(function_sizes):.0f}, 90th percentile {large_function:.0f}, longest "
        f"{max(function_sizes)}"
    )
    assert typical_module <= 150
    assert large_function <= 30


def test_a_long_function_and_a_long_module_are_found(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("def outer():\n    def inner():\n" + "        pass\n" * 70 + "    pass\n" * 500)
    assert long_modules([path]) == [f"{path}: 572 lines"]
    assert long_functions([path]) == [
        f"{path}: 'outer' has 572 lines",
        f"{path}: 'inner' has 71 lines",
    ]
