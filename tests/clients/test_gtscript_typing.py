"""A user's file with every word of the language: type checkers and compilers take it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import halocline
import halocline_engine as he
from halocline import gtscript

MODEL = Path(__file__).parents[1] / "data" / "user" / "model.py"
#: Words that are classes of what annotations and places give, which programs do not spell, and a
#: function that is given as an external.
CLASSES = {"Axis", "AxisIndex", "FieldType", "ShiftedAxis", "TableType", "sign"}


def test_the_file_has_every_word() -> None:
    tree = ast.parse(MODEL.read_text())
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert set(gtscript.__all__) - CLASSES - used == set()


@pytest.mark.timeout(300)
def test_pyright_finds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL.read_text())
    settings = {
        "include": ["model.py"],
        "extraPaths": [str(Path(halocline.__file__).parents[1])],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", str(tmp_path)]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    told = [
        f"{one['range']['start']['line'] + 1}: {one['message']}"
        for one in found["generalDiagnostics"]
    ]
    assert told == []


@pytest.mark.parametrize("name", ["model", "mesh"])
@pytest.mark.parametrize("order", [1, 2])
def test_the_file_is_a_program(name: str, order: int) -> None:
    for target in ("reference", "cpu"):
        stencil = he.stencil(MODEL, stencil_name=name, externals={"ORDER": order}, target=target)
        assert stencil.warnings == ()
