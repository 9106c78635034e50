"""The page on column order says what the committed figures say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from halocline_engine.schedule.traversal.column_model import Reads, Work, working_set
from halocline_engine.schedule.traversal.pictures import Scene, draw_svg

DOCS = Path(__file__).parents[2] / "docs"
RESULT = Path(__file__).parents[2] / "benchmarks/results" / "2026-11-21-cpu-column-order.json"


def test_the_page_has_the_tables_of_the_figures() -> None:
    script = Path(__file__).with_name("cpu_column_order.py")
    command = [sys.executable, str(script), "--check", str(RESULT)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_columns_fetch_less_where_rows_do_not_fit() -> None:
    record = json.loads(RESULT.read_text("utf-8"))
    found = {(c["case"], c["order"]): c["level2"] for c in record["counts"]}
    for case in {case for case, _ in found}:
        assert found[case, "column"] < 0.7 * found[case, "row"]


def test_the_pictures_of_the_page_are_drawn_from_the_model() -> None:
    reads = Reads((1, 1), (1, 1))
    for name in ("row", "column", "zigzag"):
        scene = Scene(name, 6, 12, 4, reads, working_set(Work(1, reads), 4))
        assert (DOCS / "images" / f"walk-{name}.svg").read_text("utf-8") == draw_svg(scene)
