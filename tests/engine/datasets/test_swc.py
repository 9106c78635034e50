"""Morphologies in SWC files: what editors put before them, and numbers that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

import halocline_engine as he
from halocline_engine.datasets.formats.swc import read_swc

TEXT = "# a cell\n1 1 0 0 0 5 -1\n2 3 10 0 0 1 1\n3 3 20 0 0 1 2\n"


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "cell.swc"
    path.write_text(text, encoding)
    return path


@pytest.mark.parametrize("text", [TEXT, TEXT.split("\n", 1)[1]])
def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path, text: str) -> None:
    plain = read_swc(written(tmp_path, text))
    marked = read_swc(written(tmp_path, text, "utf-8-sig"))
    assert plain.equals(marked)
    assert plain.sizes["node"] == 3


def test_radii_are_not_negative(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT.replace("20 0 0 1 2", "20 0 0 -0.5 2"))
    with pytest.raises(he.DatasetError) as caught:
        read_swc(path)
    assert str(caught.value) == (
        f"SWC file '{path}', line 4: the radius must be at least 0, got -0.5. A radius that is not"
        " known may be 0."
    )
