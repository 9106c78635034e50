"""The examples of the page about columns, `docs/columns.md`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from halocline_engine.ir.columns.table import CONDITIONS, OPERATORS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/columns.md").read_text("utf-8")
FAMILIES = {path.stem: path.read_text("utf-8") for path in (ROOT / "docs/columns").glob("*.md")}


def test_every_operator_and_condition_is_there() -> None:
    pages = "\n".join(FAMILIES.values())
    for name in (*OPERATORS, *CONDITIONS):
        twin = name.replace("F2C", "C2F").replace("F2F", "C2C")
        assert name in pages or twin in pages, name
    for operator in OPERATORS.values():
        assert operator.name in PAGE
        for word in operator.words:
            assert word in pages, word


def test_pages_and_pictures_are_what_the_cases_give() -> None:
    assert all(f"columns/{name}.md" in PAGE for name in FAMILIES)
    script = ROOT / "tests/benchmarks/column_pages.py"
    done = subprocess.run([sys.executable, str(script), "--check", "--fast"], check=False)
    assert done.returncode == 0, "Run 'python tests/benchmarks/column_pages.py'."
