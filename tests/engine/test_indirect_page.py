"""The examples of docs/indirect.md run as they stand."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/indirect.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "text", EXAMPLES, ids=["gather and scatter", "plans", "tiles", "regrid", "neighbours", "loops"]
)
def test_an_example(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    (tmp_path / "example.py").write_text(text)
    runpy.run_path("example.py")
    drawn = re.findall(r'savefig\("(.*)"\)', text)
    assert all((tmp_path / name).stat().st_size > 1000 for name in drawn)
