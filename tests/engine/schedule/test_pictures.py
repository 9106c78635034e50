"""Pictures of walks: the text to the letter, the trace against the simulated cache, SVG as XML."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from column_formulas import counted_fetches
from lru import chunk_reads, misses

from halocline_engine.errors import InternalError
from halocline_engine.schedule.traversal.column_model import Reads, Work, working_set
from halocline_engine.schedule.traversal.pictures import Scene, draw_svg, draw_text, traced

NEAR = Reads((1, 1), (1, 1))
NAMES = ("row", "column", "zigzag")


def scene(name: str, *notes: str) -> Scene:
    return Scene(name, 4, 9, 4, NEAR, working_set(Work(1, NEAR), 4), notes)


def test_columns_as_text() -> None:
    assert draw_text(scene("column", "predicted 44")) == (
        "columns 4 wide, 4 rows of 9\n"
        "order of work                cache at step 10\n"
        "  0  1  2  3 16 17 18 19 32  - o o o o . . . .\n"
        "  4  5  6  7 20 21 22 23 33  o o o o o . . . .\n"
        "  8  9 10 11 24 25 26 27 34  o o # o o . . . .\n"
        " 12 13 14 15 28 29 30 31 35  o o o + . . . . .\n"
        "# in work  + fetched for it  o in the cache  - no longer  . not yet\n"
        "a cache of 18 cells: 40 fetched for 36 cells, 1.11 times each\n"
        "predicted 44\n"
    )


def test_rows_as_text() -> None:
    lines = draw_text(scene("row")).splitlines()
    assert lines[0] == "row order, 4 rows of 9"
    assert lines[2].startswith("  0  1  2  3  4  5  6  7  8  ")
    assert lines[-1] == "a cache of 18 cells: 82 fetched for 36 cells, 2.28 times each"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cache", [1, 9, 13, 18, 30, 36])
def test_a_trace_is_what_the_simulated_cache_does(name: str, cache: int) -> None:
    drawn = Scene(name, 5, 7, 3, NEAR, cache)
    trace = traced(drawn)
    uses = list(chunk_reads(drawn.order(), 5, 7, NEAR))
    if cache >= 9:
        assert len(trace.stays) == misses(uses, cache)
    assert all(stay.first <= stay.last for stay in trace.stays)
    most = max(cache, 9)
    for step, cells in enumerate(trace.read):
        assert len(trace.held(step)) <= most
        assert trace.fetched(step) <= set(cells)
        if cache >= 9:
            assert set(cells) <= trace.held(step)


def test_a_cache_of_the_model_fetches_what_the_model_says() -> None:
    drawn = Scene("column", 8, 16, 6, NEAR, working_set(Work(1, NEAR), 6))
    assert len(traced(drawn).stays) == counted_fetches(Work(1, NEAR), 8, 16, 6)


@pytest.mark.parametrize("name", NAMES)
def test_svg_is_well_formed_and_escaped(name: str) -> None:
    drawn = scene(name, "<script>alert('&')</script>")
    text = draw_svg(drawn)
    assert "<script" not in text
    root = ET.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    labels = [label.text for label in root.iter(f"{space}text")]
    assert "<script>alert('&')</script>" in labels
    marks = [r for r in root.iter(f"{space}rect") if r.get("width") == "3"]
    trace = traced(drawn)
    assert len(marks) == len(trace.stays) + len(trace.order)
    (_, _, width, height) = map(float, root.attrib["viewBox"].split())
    for rect in root.iter(f"{space}rect"):
        if rect.get("width") != "100%":
            assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width
            assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= height


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(InternalError) as caught:
        Scene("row", 30, 30, 4, NEAR, 9)
    assert str(caught.value) == (
        "A picture has 1 to 400 cells and columns of at least one, got 30 rows of 30 cells and"
        " columns of 4."
    )
