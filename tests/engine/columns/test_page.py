"""The examples of the page about columns, `docs/columns.md`."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from halocline_engine.ir.columns_table import CONDITIONS, OPERATORS

PAGE = (Path(__file__).parents[3] / "docs/columns.md").read_text("utf-8")


def test_the_example_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    fast = text.replace("options = {", 'options = {"target": "reference", ')
    (tmp_path / "example.py").write_text(fast.replace("rhs=", 'target="reference", rhs='))
    runpy.run_path(str(tmp_path / "example.py"))
    printed = capsys.readouterr().out
    assert f"It prints {printed.strip()}." in PAGE


def test_every_operator_and_condition_is_there() -> None:
    for name in (*OPERATORS, *CONDITIONS):
        twin = name.replace("F2C", "C2F").replace("F2F", "C2C")
        assert name in PAGE or twin in PAGE, name
    for operator in OPERATORS.values():
        for word in operator.words:
            assert word in PAGE, word
