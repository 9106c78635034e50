"""Short kernels may be brought to the processors before the one in front of them is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedMachine
from nvidia import ARCHITECTURES, compiled
from programs import COLUMNS, DIFFUSION, SCALED, Box, drawn, scheduled

from conftest import Loader
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.entries import entries_of
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.cuda.runtime.dependent_launch import (
    dependent_tile,
    may_launch_dependently,
)

DOMAIN: Box = (37, 13, 9)
SHAPE: Box = (40, 16, 11)
WAIT = "griddepcontrol.wait;"


def following(text: str, domain: Box = DOMAIN) -> str:
    schedule = scheduled(text)
    variant = usual_variant(schedule)
    return emit(schedule, variant, tiles_of(schedule, variant, domain), follows=True)


@pytest.mark.parametrize("text", [SCALED, DIFFUSION])
def test_a_kernel_waits_before_it_touches_memory(text: str) -> None:
    """What is read only is not said to be so: the compiler may load that before it waits."""
    code = following(text)
    for kernel in code.split("__global__")[1:]:
        first = kernel[kernel.index("{") + 1 :].strip().splitlines()
        assert first[0].startswith("#if ")
        assert WAIT in first[1]
        assert "volatile" in first[1]
        assert first[2] == "#endif"
    assert code.count(WAIT) == code.count("__global__") > 0
    assert "__restrict__" not in code
    assert "asm(" not in code
    for architecture in ARCHITECTURES:
        compiled([code], architecture)


def fields() -> dict[str, Any]:
    return {"a": np.asfortranarray(drawn(SHAPE, 1)), "b": np.full(SHAPE, np.nan, order="F")}


def test_bits_are_the_same(emulation_folder: Path, load: Loader) -> None:
    found: list[Any] = []
    for follows in (False, True):
        machine = EmulatedMachine(emulation_folder / "loaded", follows=follows)
        given, origins = fields(), {"a": (1, 1, 1), "b": (1, 1, 1)}
        load(scheduled(SCALED), machine, cold=follows)(given, {"c": 0.3}, origins, DOMAIN)
        found.append(given["b"])
        assert any(WAIT in source for source in machine.sources) is follows
    np.testing.assert_array_equal(*found)


def test_other_tiles_do_not_wait() -> None:
    (entry,) = entries_of(scheduled(SCALED))
    assert may_launch_dependently(entry, Tile((32, 4), rows=2, width=2, depth=3))
    for tile in (Tile((32, 4), planes=2), Tile((32, 4), along=1), Tile((32, 4), share=3)):
        assert not may_launch_dependently(entry, tile)
    blocks = [dependent_tile(Tile(block)).block for block in ((32, 4), (64, 4), (32, 8), (7, 3))]
    assert blocks == [(32, 8), (64, 4), (32, 8), (7, 6)]


@pytest.mark.parametrize(
    ("text", "domain", "follows"),
    [(SCALED, (64, 64, 4), True), (SCALED, (4096, 4096, 4), False), (COLUMNS, (64, 64, 4), False)],
)
def test_which_kernels_wait(
    tmp_path: Path, load: Loader, text: str, domain: Box, follows: bool
) -> None:
    machine = EmulatedMachine(tmp_path, follows=True)
    executable = load(scheduled(text), machine)
    variant = usual_variant(scheduled(text))
    tiles = tiles_of(scheduled(text), variant, domain)
    assert executable.follows(domain, tiles) is follows
    machine.follows = False
    assert not executable.follows(domain, tiles)
