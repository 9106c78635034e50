"""Generated CUDA on the host against the reference, bit for bit."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedMachine
from programs import (
    COLUMNS,
    DIFFUSION,
    FILLED,
    LEVELS,
    MASKED,
    SCALED,
    Box,
    drawn,
    levels_schedule,
    reference,
    scheduled,
)
from tile_choices import changed

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.model.tile import Block, Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.errors import FieldError
from halocline_engine.ir.types import Order

DOMAIN: Box = (37, 13, 9)
BLOCKS: tuple[Block, ...] = ((1, 1), (32, 4), (64, 2), (7, 3), (256, 1))
TILES = [(1, 1, 1), (2, 1, 1), (4, 2, 1), (1, 4, 3), (2, 3, 2), (2, 2, 16)]

#: Text, fields with the shape around the domain that they need, what is written, scalars.
CASES: dict[str, tuple[str, dict[str, tuple[Box, Box]], tuple[str, ...], dict[str, float]]] = {
    "scaled": (
        SCALED,
        {"a": ((0, 1, 0), (1, 0, 0)), "b": ((0, 0, 0), (0, 0, 0))},
        ("b",),
        {"c": 0.3},
    ),
    "diffusion": (
        DIFFUSION,
        {
            "inp": ((2, 2, 0), (2, 2, 0)),
            "coeff": ((0, 0, 0), (0, 0, 0)),
            "out": ((0, 0, 0), (0, 0, 0)),
        },
        ("out",),
        {},
    ),
    "columns": (
        COLUMNS,
        dict.fromkeys(("a", "up", "down"), ((0, 0, 0), (0, 0, 0))),
        ("up", "down"),
        {},
    ),
    "levels": (
        LEVELS,
        {"a": ((1, 0, 1), (0, 1, 2)), "b": ((0, 0, 0), (0, 0, 0)), "c": ((0, 0, 0), (0, 0, 0))},
        ("b",),
        {},
    ),
    "masked": (
        MASKED,
        {
            "a": ((0, 0, 0), (0, 0, 0)),
            "k": ((0, 0, 0), (0, 0, 0)),
            "p": ((0, 0, 0), (1, 0, 0)),
            "b": ((0, 0, 0), (0, 0, 0)),
        },
        ("b",),
        {"limit": 0.2},
    ),
    "filled": (
        FILLED,
        dict.fromkeys(("a", "b", "c"), ((0, 0, 0), (0, 0, 0))),
        (),
        {"limit": 0.2},
    ),
}
AXES = {"k": (0, 0, 1), "p": (1, 1, 0)}


def prepared(name: str, room: int = 1) -> tuple[dict[str, Any], dict[str, Box]]:
    """Return fields with `room` more points around them than they need, and their origins."""
    _, needs, written, _ = CASES[name]
    fields: dict[str, Any] = {}
    origins: dict[str, Box] = {}
    for seed, (field, (before, after)) in enumerate(needs.items()):
        present = AXES.get(field, (1, 1, 1))
        shape = tuple(
            p * (n + b + a + 2 * room - 1) + 1
            for n, b, a, p in zip(DOMAIN, before, after, present, strict=True)
        )
        i, j, k = (p * (b + room) for b, p in zip(before, present, strict=True))
        fields[field] = drawn((shape[0], shape[1], shape[2]), seed)
        origins[field] = (i, j, k)
        if field in written:
            fields[field][...] = np.nan
    return fields, origins


def check(executable: CudaExecutable, name: str, fields: Any, origins: Any) -> None:
    schedule = scheduled(CASES[name][0])
    scalars: dict[str, Any] = dict(CASES[name][3])
    expected = reference(schedule, fields, scalars, origins, DOMAIN)
    executable(fields, scalars, origins, DOMAIN)
    for field, array in expected.items():
        np.testing.assert_array_equal(fields[field], array, err_msg=field)
    for field in CASES[name][2]:
        inner = tuple(slice(o, o + n) for o, n in zip(origins[field], DOMAIN, strict=True))
        assert not np.isnan(fields[field][inner]).any(), field


def in_rows(
    executable: CudaExecutable, fields: dict[str, Any], origins: dict[str, Box]
) -> dict[str, Any]:
    """Return the fields in memory of the target's own, aligned rows along I."""
    found: dict[str, Any] = {}
    for name, array in fields.items():
        found[name] = executable.memory.empty(array.shape, array.dtype, origins[name])
        executable.memory.upload(array, found[name])
    return found


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_reference(load: Any, name: str) -> None:
    check(load(scheduled(CASES[name][0])), name, *prepared(name))


@pytest.mark.parametrize("name", CASES)
def test_threads_may_run_in_any_order(load: Any, emulation_folder: Path, name: str) -> None:
    backwards = EmulatedMachine(emulation_folder / "loaded", descending=True)
    check(load(scheduled(CASES[name][0]), backwards), name, *prepared(name))


def test_what_no_point_of_a_row_assigns_is_not_stored() -> None:
    """Stores under conditions that seldom hold would move as many bytes as the loads."""
    schedule = scheduled(FILLED)
    source = emit(
        schedule,
        usual_variant(schedule),
        {"kernel0": Tile((32, 1), width=2, rows=2)},
    )
    found = re.findall(r"if \((f\d_assigned\[\d\])\) store<2>", source)
    assert sorted(found) == [f"{field}_assigned[{row}]" for field in ("f0", "f1") for row in (0, 1)]
    assert len(re.findall(r"^ *store<2>\(&f2", source, re.MULTILINE)) == 2


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_of_threads_may_have_any_shape(load: Any, block: Block) -> None:
    for name in ("diffusion", "columns"):
        executable = load(scheduled(CASES[name][0]), tiles=changed(block=block))
        check(executable, name, *prepared(name))


@pytest.mark.parametrize(("width", "rows", "depth"), TILES)
@pytest.mark.parametrize("name", ["diffusion", "masked", "levels", "filled"])
def test_threads_may_compute_any_tile(
    load: Any, name: str, width: int, rows: int, depth: int
) -> None:
    tiles = changed(block=(8, 2), width=width, rows=rows, depth=depth)
    executable = load(scheduled(CASES[name][0]), tiles=tiles)
    fields, origins = prepared(name)
    check(executable, name, fields, origins)
    fields, origins = prepared(name)
    check(executable, name, in_rows(executable, fields, origins), origins)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_strides_may_be_any(
    load: Any, machine: EmulatedMachine, order: tuple[int, int, int]
) -> None:
    fields, origins = prepared("scaled")
    back = np.argsort(order)
    fields = {
        name: np.ascontiguousarray(array.transpose(order)).transpose(back)
        for name, array in fields.items()
    }
    check(load(scheduled(SCALED), cold=True), "scaled", fields, origins)
    unit = order[2] == 0
    assert ("s0i" in machine.sources[-1]) != unit


def test_strides_may_be_negative_or_skip_elements(load: Any) -> None:
    fields, origins = prepared("scaled")
    wide = np.full([2 * n for n in fields["a"].shape], np.nan)
    view = wide[::-2, ::2, ::-2]
    view[...] = fields["a"]
    fields["a"] = view
    check(load(scheduled(SCALED)), "scaled", fields, origins)


def test_memory_of_the_target_is_aligned_where_the_domain_begins(
    load: Any, machine: EmulatedMachine
) -> None:
    executable = load(scheduled(SCALED), cold=True)
    fields, origins = prepared("scaled")
    for name, array in fields.items():
        own = executable.memory.empty(array.shape, array.dtype, origins[name])
        assert own.strides[0] == 8
        assert own.strides[1] % 128 == own.strides[2] % 128 == 0
        i, j, k = origins[name]
        for row in range(j, j + 3):
            address = machine.address(own) + i * 8 + row * own.strides[1] + k * own.strides[2]
            assert address % 128 == 0
        executable.memory.upload(array, own)
        np.testing.assert_array_equal(executable.memory.download(own), array)
        fields[name] = own
    check(executable, "scaled", fields, origins)
    assert "s1j" in machine.sources[-1]


def test_equal_strides_are_passed_once(load: Any, machine: EmulatedMachine) -> None:
    text = "def twice(a: Field[float64], b: Field[float64]):\n"
    text += "    with computation(PARALLEL), interval(...):\n        b = 2.0 * a[0, 0, 0]\n"
    executable = load(scheduled(text), cold=True)
    a, b = drawn((5, 4, 3)), np.full((5, 4, 3), np.nan)
    executable({"a": a, "b": b}, {}, dict.fromkeys("ab", (0, 0, 0)), (5, 4, 3))
    np.testing.assert_array_equal(b, 2 * a)
    assert "s0k" in machine.sources[-1]
    assert "s1" not in machine.sources[-1]


def test_variants_are_compiled_once(load: Any, machine: EmulatedMachine) -> None:
    executable = load(scheduled(SCALED))
    for _ in range(2):
        check(executable, "scaled", *prepared("scaled"))
    assert len(machine.loaded) == 1
    fields, origins = prepared("scaled")
    fields["a"] = np.asfortranarray(fields["a"])
    check(executable, "scaled", fields, origins)
    assert len(machine.loaded) == 2


def test_what_was_compiled_before_is_not_compiled_again(load: Any, emulation_folder: Path) -> None:
    check(load(scheduled(SCALED)), "scaled", *prepared("scaled"))
    other = EmulatedMachine(emulation_folder / "loaded")
    check(load(scheduled(SCALED), other), "scaled", *prepared("scaled"))
    assert not other.sources
    assert len(other.loaded) == 1


def test_one_array_may_be_input_and_output_at_the_centre(
    load: Any, machine: EmulatedMachine
) -> None:
    text = "def double(a: Field[float64], b: Field[float64]):\n"
    text += "    with computation(PARALLEL), interval(...):\n        b = a + a\n"
    executable = load(scheduled(text), cold=True)
    a = drawn((9, 8, 7))
    expected = 2 * a
    executable({"a": a, "b": a}, {}, dict.fromkeys("ab", (0, 0, 0)), (9, 8, 7))
    np.testing.assert_array_equal(a, expected)
    assert "__restrict__" not in machine.sources[-1]


def test_an_axis_that_a_field_lacks_has_no_stride_whatever_its_array_says(load: Any) -> None:
    fields, origins = prepared("masked")
    store = drawn((fields["k"].shape[2], 5, 1))
    store[:, 0, 0] = fields["k"][0, 0]
    fields["k"] = np.lib.stride_tricks.as_strided(
        store, (1, 1, store.shape[0]), (8, 8, store.strides[0])
    )
    check(load(scheduled(MASKED)), "masked", fields, origins)


def test_an_empty_domain_launches_nothing(load: Any, machine: EmulatedMachine) -> None:
    executable = load(scheduled(SCALED))
    empty = np.empty((0, 4, 3))
    executable({"a": empty, "b": empty}, {"c": 1.0}, dict.fromkeys("ab", (0, 0, 0)), (0, 4, 3))
    assert not machine.loaded


def test_a_stride_that_is_no_multiple_of_the_element_is_refused(load: Any) -> None:
    executable = load(scheduled(SCALED))
    records = np.zeros((4, 4, 4), np.dtype([("value", "f8"), ("flag", "i4")]))
    values = records["value"]
    assert values.strides == (192, 48, 12)
    fields = {"a": values, "b": np.empty((2, 2, 4))}
    with pytest.raises(FieldError) as caught:
        executable(fields, {"c": 1.0}, {"a": (1, 1, 0), "b": (0, 0, 0)}, (2, 2, 4))
    assert str(caught.value) == (
        "Field 'a' has a stride of 12 bytes along 'K', which is not a multiple of its element size"
        " of 8 bytes. Pass a copy of the array."
    )


@pytest.mark.parametrize("order", [Order.FORWARD, Order.BACKWARD])
@pytest.mark.parametrize("descending", [False, True])
def test_levels_run_one_after_the_other(
    load: Any, emulation_folder: Path, order: Order, descending: bool
) -> None:
    machine = EmulatedMachine(emulation_folder / "loaded", descending=descending)
    executable = load(levels_schedule(order), machine)
    a, b = drawn((12, 5, 6)), np.full((11, 5, 6), np.nan)
    executable({"a": a, "b": b}, {}, dict.fromkeys("ab", (0, 0, 0)), (11, 5, 6))
    t = a.copy()
    step = 1 if order is Order.FORWARD else -1
    for k in list(range(6))[::step][1:]:
        t[:, :, k] = 0.5 * t[:, :, k - step] + a[:, :, k]
    np.testing.assert_array_equal(b, t[1:])
    assert len(machine.loaded[0].launched) == 12
