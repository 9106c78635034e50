"""The size of modules and functions: small enough to be read at once."""

from __future__ import annotations

import ast
from collections import Counter
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
FUNCTION_LINES = 58
CLASS_LINES = 150
FOLDER_MODULES = 12
#: Classes that have more, and how many lines at most: a number may fall, and none may be added.
LARGE_CLASSES = {
    "halocline_engine/backends/cuda/kernels/columns/sweep.py:ColumnSweep": 295,
    "halocline_engine/backends/cuda/kernels/levels/text.py:_Code": 256,
    "halocline_engine/backends/cuda/kernels/points/section.py:TileBody": 182,
    "halocline_engine/backends/cuda/kernels/rolling/text.py:_RollingLoop": 247,
    "halocline_engine/backends/cuda/kernels/staged/text.py:_Code": 151,
    "halocline_engine/backends/cuda/runtime/executable.py:CudaExecutable": 261,
    "halocline_engine/device/panels.py:DeviceWorkspace": 159,
    "halocline_engine/distribute/pipeline/stages.py:PipelineStages": 167,
    "halocline_engine/distribute/products/work.py:_Run": 286,
    "halocline_engine/distribute/transports/device_decode.py:DeviceDecoding": 271,
    "halocline_engine/ir/columns/check.py:_Checker": 230,
    "halocline_engine/ir/columns/lower.py:Lowering": 189,
    "halocline_engine/ir/lower/inline.py:Inliner": 305,
    "halocline_engine/ir/lower/terms.py:Terms": 222,
    "halocline_engine/kernels/tree/cuda.py:CudaTree": 208,
    "halocline_engine/kernels/tridiagonal/cuda.py:CudaTridiagonal": 178,
    "halocline_engine/language/terms.py:Reader": 163,
    "halocline_service/dispatcher/loop.py:Dispatcher": 161,
    "halocline_service/settings.py:Settings": 205,
    "halocline_service/store/memory/jobs.py:MemoryJobs": 299,
    "halocline_service/store/sql/jobs.py:SqlJobs": 272,
}


def modules(root: Path = ROOT) -> list[Path]:
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def functions(source: str) -> Iterator[tuple[str, int]]:
    """Name and number of lines of every function, methods and inner functions among them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, lines(node)


def lines(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of code; what users read in docstrings is as long as it must be."""
    whole = (node.end_lineno or node.lineno) - node.lineno + 1
    for inner in ast.walk(node):
        if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = inner.body[0]
            if ast.get_docstring(inner) is not None:
                whole -= (first.end_lineno or first.lineno) - first.lineno + 1
    return whole


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


def large_classes(root: Path = ROOT) -> dict[str, int]:
    """Return the lines of each class that has more than it should, by its file and name."""
    return {
        f"{path.relative_to((root / package).parent)}:{node.name}": size
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and (size := lines(node)) > CLASS_LINES
    }


def full_folders(root: Path = ROOT) -> dict[str, int]:
    """Return how many modules each folder has that has more than it should."""
    several = Counter(
        str(path.parent.relative_to(root)) for path in modules(root) if path.name != "__init__.py"
    )
    return {folder: count for folder, count in several.items() if count > FOLDER_MODULES}


def test_no_class_is_longer_than_150_lines_but_those_that_were() -> None:
    found = large_classes()
    assert found.keys() == LARGE_CLASSES.keys()
    assert all(size <= LARGE_CLASSES[name] for name, size in found.items())


def test_no_folder_has_more_than_twelve_modules() -> None:
    assert full_folders() == {}


def test_every_package_is_measured() -> None:
    assert all((ROOT / package / "__init__.py").exists() for package in PACKAGES)


def test_no_module_is_longer_than_500_lines() -> None:
    assert long_modules(modules()) == []


def test_no_function_is_longer_than_58_lines() -> None:
    assert long_functions(modules()) == []


def test_typical_sizes_stay_small() -> None:
    """Half of the modules within 140 lines, nine of ten functions within 20."""
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
    assert typical_module <= 140
    assert large_function <= 20


def test_a_long_function_and_a_long_module_are_found(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("def outer():\n    def inner():\n" + "        pass\n" * 70 + "    pass\n" * 500)
    assert long_modules([path]) == [f"{path}: 572 lines"]
    assert long_functions([path]) == [
        f"{path}: 'outer' has 572 lines",
        f"{path}: 'inner' has 71 lines",
    ]
