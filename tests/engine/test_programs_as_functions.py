"""Programs as Python functions and files, on arrays and datasets."""
# ruff: noqa: F841
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownVariableType=false, reportUnusedVariable=false

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline.gtscript import PARALLEL, Field, computation, function, interval

F = Field[np.float64]
GAIN = 2.5


@function
def scaled(q):  # noqa: ANN001, ANN201
    return GAIN * q


def amplify(a: F, b: F) -> None:
    with computation(PARALLEL), interval(...):
        b = scaled(a)


def neighbour(a: F) -> None:
    with computation(PARALLEL), interval(...):
        a = a[1, 0, 0]


def test_a_function_is_compiled_with_what_it_refers_to() -> None:
    compiled = he.stencil(amplify, target="reference")
    assert compiled.name == "amplify"
    a, b = np.ones((2, 2, 1)), np.zeros((2, 2, 1))
    compiled(a, b)
    assert (b == GAIN).all()


def test_a_function_runs_on_a_dataset() -> None:
    dataset = xr.Dataset({"a": (("y", "x"), [[1.0, 2.0]])})
    result = he.run(amplify, dataset, target="reference")
    assert result["b"].values.tolist() == [[2.5, 5.0]]


@pytest.mark.parametrize("as_text", [False, True])
def test_a_file_is_compiled(tmp_path: Path, as_text: bool) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        "def double(a: Field[float], b: Field[float]):\n"
        "    with computation(PARALLEL), interval(...):\n"
        "        b = 2.0 * a\n"
    )
    compiled = he.stencil(str(path) if as_text else path, target="reference")
    assert compiled.name == "double"


def test_an_error_shows_the_line_of_the_function() -> None:
    with pytest.raises(he.DependenceError) as caught:
        he.stencil(neighbour, target="reference")
    lines = Path(__file__).read_text().splitlines()
    place = f"{__file__}, line {lines.index('        a = a[1, 0, 0]') + 1}, column 9: "
    assert str(caught.value) == (
        f"{place}'a' is assigned from its own neighbour at the offset (1, 0, 0).\n"
        "        a = a[1, 0, 0]\n"
        "        ^\n"
        "Assign to another name, so that every point reads old values."
    )


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "missing.py",
            "The program 'missing.py' cannot be read: No such file or directory.",
        ),
        (
            "b = 2.0 * a",
            "A program must be text with line breaks, a '.py' file or a function, got"
            " 'b = 2.0 * a'.\nPass the text of a program, the path of a '.py' file that is here, or"
            " the function itself.",
        ),
        (
            len,
            "A program must be text, a '.py' file or a plain Python function, got"
            " 'builtin_function_or_method'.\nPass the function written with 'def', before it is"
            " compiled by another package.",
        ),
    ],
)
def test_what_is_no_program_is_refused(program: Any, message: str) -> None:
    with pytest.raises(he.SourceError) as caught:
        he.stencil(program, target="reference")
    assert str(caught.value) == message
    with pytest.raises(he.SourceError) as caught:
        he.run(program, xr.Dataset({"a": ("x", [1.0])}), target="reference")
    assert str(caught.value) == message


def test_a_missing_extra_is_named() -> None:
    script = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec

def without_dask(name, path=None, target=None):
    return None if name.partition(".")[0] == "dask" else find(name, path, target)

PathFinder.find_spec = without_dask
import halocline_engine as he
he.run
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: halocline_engine.run needs the package 'dask', which is not"
        " installed. Install the extra 'engine': pip install 'halocline[engine]'."
    )


def test_an_import_that_fails_within_an_installed_package_stays_as_it_is() -> None:
    script = """
import sys
sys.modules["xarray.coding"] = None  # as for a package that fits no other one
import halocline_engine as he
he.run
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    last = done.stderr.splitlines()[-1]
    assert "xarray.coding" in last
    assert "not installed" not in last
