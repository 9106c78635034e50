"""The example of docs/many-steps.md runs and prints what the page shows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/many-steps.md").read_text("utf-8")


def test_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = pattern.search(PAGE)
    assert found is not None
    text, shown = found.groups()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.py").write_text(text)
    runpy.run_path("example.py")
    assert capsys.readouterr().out == shown
