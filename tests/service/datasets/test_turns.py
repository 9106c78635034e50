"""When an upload was last touched, whatever lies in its place."""

from __future__ import annotations

from pathlib import Path

from halocline_service.datasets.turns import last_touched


def test_what_holds_no_objects_was_never_touched(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.parts"
    foreign.write_text("a file of others")
    assert last_touched(foreign) == 0.0
    assert last_touched(tmp_path / "nothing.parts") == 0.0
    assert last_touched(tmp_path) == max(tmp_path.stat().st_mtime, foreign.stat().st_mtime)
