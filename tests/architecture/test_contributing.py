"""What `CONTRIBUTING.md` says of files is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
TABLE = [line for line in TEXT.splitlines() if line.startswith("| a")]
#: Paths in the table may leave out the package of the path before them in their row.
PACKAGES = (
    "",
    "engine/halocline_engine/",
    "engine/halocline_engine/backends/cuda/",
    "engine/halocline_engine/distribute/",
    "engine/halocline_engine/distribute/executors/",
    "engine/halocline_engine/datasets/decoding/",
    "service/halocline_service/",
)


@pytest.mark.parametrize("line", TABLE, ids=lambda line: line.split("|")[1].strip())
def test_every_path_is_there(line: str) -> None:
    paths = [word for word in re.findall(r"`([\w./-]+)`", line) if "/" in word or ".py" in word]
    assert paths
    for path in paths:
        assert any((ROOT / package / path).exists() for package in PACKAGES), path


def test_ten_kinds_of_change_are_answered() -> None:
    assert len(TABLE) >= 10


def test_the_layers_are_where_it_says() -> None:
    assert "[tool.importlinter]" in (ROOT / "pyproject.toml").read_text()
    for design in ("engine/DESIGN.md", "service/DESIGN.md"):
        assert design in TEXT
        assert (ROOT / design).exists()
