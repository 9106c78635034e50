"""Edges that are computed and sent while what is inside is computed: the same bits.

The transport is one of the test's own: threads hand over the cells that devices would store into
each other's memory. Both orders of edges and inner cells are tried, as on a device.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from handed_over import hand_over
from hypothesis import given
from hypothesis import strategies as st
from stepped_programs import BOUNDARIES, stepped

import halocline_engine as he
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.grid.partition import Box, Span
from halocline_engine.distribute.grid.split import split
from halocline_engine.distribute.resident import fields
from halocline_engine.distribute.tasks.events import Event, StepsFinished


@pytest.mark.parametrize("edges_first", [True, False])
@pytest.mark.parametrize("boundary", BOUNDARIES, ids=str)
@pytest.mark.parametrize("name", ["wave", "star"])
def test_overlapped_steps_make_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, name: str, boundary: dict[str, Any], edges_first: bool
) -> None:
    text, data, how = stepped(name, "float64", (4, 57, 64))
    how |= {"boundary": boundary, "steps": 23, "target": "cpu"}
    expected = he.run(text, data, mode="streamed", **how)
    overlapped: list[int] = []

    def queued(inside: Sequence[Callable[[], None]], beside: Sequence[Callable[[], None]]) -> None:
        overlapped.append(len(inside))
        for act in (*beside, *inside) if edges_first else (*inside, *beside):
            act()

    hand_over(monkeypatch, "cpu")
    plain = fields.executable_of

    def overlap_of(_: object) -> object:
        return queued

    def overlapping(code: Any) -> Any:
        executable = plain(code)
        monkeypatch.setattr(type(executable), "overlap", overlap_of, raising=False)
        return executable

    monkeypatch.setattr(fields, "executable_of", overlapping)
    for ranks, chunks, steps in ((2, {"y": 30}, 1), (3, {"y": 23, "x": 22}, 1), (2, {"y": 30}, 3)):
        overlapped.clear()
        events: list[Event] = []
        with patch(
            "halocline_engine.distribute.executors.select.local_pool",
            return_value=LocalPool(workers=ranks),
        ):
            found = he.run(
                text,
                data,
                mode="resident",
                chunks=chunks,
                options=he.Options(steps_per_pass=steps),
                on_event=events.append,
                **how,
            )
        assert overlapped
        assert min(overlapped) > 0
        assert {e.transport for e in events if isinstance(e, StepsFinished)} == {"peer memory"}
        for one in expected.data_vars:
            np.testing.assert_array_equal(found[one].values, expected[one].values)


SPANS = st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda s: Span(s[0], s[0] + s[1]))
BOXES = st.tuples(SPANS, SPANS, st.just(Span(0, 2)))


def cells(box: Box) -> set[tuple[int, ...]]:
    return set(itertools.product(*(range(span.start, span.stop) for span in box)))


@given(BOXES, st.lists(BOXES, max_size=4))
def test_parts_have_each_cell_once_and_edges_all_that_are_sent(
    domain: Box, sent: list[Box]
) -> None:
    found = split(domain, sent)
    awaited = set[tuple[int, ...]]().union(*map(cells, sent)) & cells(domain)
    if found is None:
        return
    parts = [cells(found.inner), *map(cells, found.edges)]
    assert sum(map(len, parts)) == len(cells(domain))
    assert set[tuple[int, ...]]().union(*parts) == cells(domain)
    assert not awaited & parts[0]
    assert all(parts)


@given(st.integers(5, 9), st.integers(5, 9), st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_halos_thinner_than_half_a_block_leave_cells_inside(
    ni: int, nj: int, depths: list[int]
) -> None:
    west, east, south, north = depths
    flat, along_i, along_j = Span(0, 1), Span(0, ni), Span(0, nj)
    sent: list[Box] = [
        (Span(0, west), along_j, flat),
        (Span(ni - east, ni), along_j, flat),
        (along_i, Span(0, south), flat),
        (along_i, Span(nj - north, nj), flat),
    ]
    found = split((along_i, along_j, flat), sent)
    if not any(depths):
        assert found is None
    else:
        assert found is not None
        assert found.inner == (Span(west, ni - east), Span(south, nj - north), flat)
