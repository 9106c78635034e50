"""The examples of docs/arrays.md run, one after the other."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/arrays.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(EXAMPLES) == 3
    (tmp_path / "example.py").write_text("\n".join(EXAMPLES))
    runpy.run_path(str(tmp_path / "example.py"))
    assert "schedule smooth" in capsys.readouterr().out
