"""Kernels that store halos into the memory of other ranks, on the host.

There is one thread here, so ranks take turns: each kernel is launched when what it waits for is
there, and one that would wait in vain says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation.machine import ABSENT, EmulatedMachine, compiler
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halocline_engine.kernels.halo.cuda import HaloKernels
from halocline_engine.kernels.halo.problem import (
    STATE_WORDS,
    Box,
    Link,
    packed_boxes,
    packed_links,
    widened,
)
from halocline_engine.kernels.machine import Library

pytestmark = pytest.mark.skipif(compiler() is None, reason=ABSENT)

TYPES = ("float64", "float32", "int16", "bool")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("halo")


@dataclass
class Rank:
    """One end of a link: arrays, counters, a buffer of two halves."""

    arrays: list[NDArray[Any]]
    counters: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(4, np.uint64))
    states: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(2 * STATE_WORDS, np.uint64))
    buffer: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    ended: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(1, np.uint64))
    held: list[Any] = field(default_factory=list[Any])

    def address(self, values: NDArray[Any]) -> int:
        self.held.append(values)
        return values.ctypes.data


def boxes_of(
    rank: Rank, parts: list[tuple[slice, ...]], buffer: int, *, numbered: bool
) -> list[Box]:
    found: list[Box] = []
    at = buffer
    for array, part in zip(rank.arrays, parts, strict=True):
        view = array[part]
        i, j, k = view.shape
        di, dj, dk = view.strides
        box = Box(0, view.itemsize, rank.address(view), at, (i, j, k), (di, dj, dk))
        found.append(widened(box, numbered=numbered))
        at += -(-view.nbytes // 16) * 16 * (1 + numbered)
    return found


def half_of(parts: list[NDArray[Any]]) -> int:
    return sum(-(-part.nbytes // 16) * 16 for part in parts)


class Pair:
    """A rank that sends and one that receives."""

    def __init__(
        self,
        machine: Any,
        sender: Rank,
        receiver: Rank,
        parts: Any,
        limit: int,
        *,
        numbered: bool = False,
    ) -> None:
        self.kernels = HaloKernels(Library(machine), limit)
        self.sender, self.receiver = sender, receiver
        sent, into = parts
        half = half_of([a[p] for a, p in zip(sender.arrays, sent, strict=True)]) * (1 + numbered)
        receiver.buffer = np.full(2 * half, 255, np.uint8)
        base = receiver.buffer.ctypes.data
        self.sent = boxes_of(sender, sent, base, numbered=numbered)
        self.received = boxes_of(receiver, into, base, numbered=numbered)
        words = sender.counters.ctypes.data, receiver.counters.ctypes.data
        count = len(self.sent)
        # Counters: 0 arrived, 1 consumed, 2 done when sending, 3 done when receiving.
        out, into = (words[0] + 8, words[1], words[0] + 16), (words[1], words[0] + 8, words[1] + 24)
        self.out = packed_links([Link(*out, half, count, numbered)])
        self.into = packed_links([Link(*into, half, count, numbered)])

    def send(self) -> None:
        table = self.sender.address(packed_boxes(self.sent))
        states, ended = self.sender.states.ctypes.data, self.sender.ended.ctypes.data
        self.kernels.exchange(self.sent, (), (table, self.out.ctypes.data, states, ended))()

    def receive(self) -> None:
        table = self.receiver.address(packed_boxes(self.received))
        states, ended = self.receiver.states.ctypes.data, self.receiver.ended.ctypes.data
        self.kernels.exchange((), self.received, (table, self.into.ctypes.data, states, ended))()

    @property
    def failed(self) -> tuple[bool, bool]:
        return bool(self.sender.states[2]), bool(self.receiver.states[STATE_WORDS + 2])


def drawn(rng: np.random.Generator, shape: tuple[int, int, int], dtype: str) -> NDArray[Any]:
    """Return an array with gaps between its rows, in the order of device arrays."""
    i, j, k = shape
    wide = (rng.random((k, j, i + 3)) * 200).astype(dtype)
    return wide.transpose(2, 1, 0)[:i]


@st.composite
def cases(
    draw: st.DrawFn,
) -> tuple[Sequence[str], tuple[int, int, int], tuple[int, int, int], int, bool]:
    size = draw(st.tuples(st.integers(1, 16), st.integers(1, 6), st.integers(1, 4)))
    more = draw(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)))
    numbered = draw(st.booleans())
    types = st.sampled_from(TYPES[:2] if numbered else TYPES)
    some = draw(st.lists(types, min_size=1, max_size=3))
    return some, size, more, draw(st.integers(0, 2**20)), numbered


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cases())
def test_exchanges_move_all_cells_and_nothing_else(folder: Path, case: Any) -> None:
    types, size, more, seed, numbered = case
    rng = np.random.default_rng(seed)
    shape = (size[0] + more[0], size[1] + more[1], size[2] + more[2])
    sender = Rank([drawn(rng, shape, one) for one in types])
    receiver = Rank([drawn(rng, shape, one) for one in types])
    first = tuple(slice(0, length) for length in size)
    last = tuple(slice(m, m + length) for m, length in zip(more, size, strict=True))
    machine = EmulatedMachine(folder, shuffled=seed % 7)
    parts = ([first] * len(types), [last] * len(types))
    pair = Pair(machine, sender, receiver, parts, 50, numbered=numbered)
    for number in range(1, 6):
        for array in sender.arrays:
            array[...] = (rng.random(array.shape) * 200).astype(array.dtype)
        before = [array.copy() for array in receiver.arrays]
        pair.send()
        pair.receive()
        for got, old, new in zip(receiver.arrays, before, sender.arrays, strict=True):
            old[last] = new[first]
            np.testing.assert_array_equal(got, old)
        counted = 0 if numbered else number
        assert (sender.counters[1], receiver.counters[0]) == (counted, counted)
    assert pair.failed == (False, False)


@pytest.mark.parametrize("dtype", TYPES[:2])
def test_threads_move_more_numbered_words_than_at_once(folder: Path, dtype: str) -> None:
    rng = np.random.default_rng(3)
    shape, part = (257, 271, 1), [(slice(None),) * 3]
    sender, receiver = (Rank([drawn(rng, shape, dtype)]) for _ in range(2))
    pair = Pair(EmulatedMachine(folder), sender, receiver, (part, part), 50, numbered=True)
    assert math.prod(pair.sent[0].size) > 16 * 16 * 256, "two rounds of eight for some threads"
    pair.send()
    pair.receive()
    np.testing.assert_array_equal(receiver.arrays[0], sender.arrays[0])
    assert pair.failed == (False, False)


def test_a_sender_is_two_exchanges_ahead_at_most(folder: Path) -> None:
    rng = np.random.default_rng(1)
    sender, receiver = (Rank([drawn(rng, (3, 2, 1), "float64")]) for _ in range(2))
    part = [(slice(None),) * 3]
    pair = Pair(EmulatedMachine(folder), sender, receiver, (part, part), 50)
    values: list[NDArray[Any]] = []
    for _ in range(2):
        sender.arrays[0][...] = rng.random((3, 2, 1))
        values.append(sender.arrays[0].copy())
        pair.send()
    assert pair.failed == (False, False)
    for one in values:
        pair.receive()
        np.testing.assert_array_equal(receiver.arrays[0], one)
    for _ in range(3):
        pair.send()
    assert pair.failed == (True, False)


@pytest.mark.parametrize("numbered", [False, True])
def test_a_wait_in_vain_ends_and_changes_nothing(folder: Path, numbered: bool) -> None:
    rng = np.random.default_rng(2)
    sender, receiver = (Rank([drawn(rng, (3, 2, 1), "float32")]) for _ in range(2))
    part = [(slice(None),) * 3]
    pair = Pair(EmulatedMachine(folder), sender, receiver, (part, part), 50, numbered=numbered)
    before = receiver.arrays[0].copy()
    pair.receive()
    assert pair.failed == (False, True)
    np.testing.assert_array_equal(receiver.arrays[0], before)
    machine, alone = EmulatedMachine(folder), Rank([before.copy()])
    other = Pair(machine, sender, alone, (part, part), 10**15, numbered=numbered)
    other.receiver.ended[0] = 1
    other.receive()
    assert other.failed[1]
