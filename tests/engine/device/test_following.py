"""What the driver is told of a launch that may overlap the end of the work before it."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from halocline_engine.device.launch import dependent
from halocline_engine.device.launch.dependent import Following

GEOMETRY = (4, 2, 1, 32, 8, 1, 1000)


class Failure(Exception):
    pass


def check(status: int) -> None:
    raise Failure(status)


def test_a_launch_says_where_and_how(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []

    def launch(_config: Any, function: int, places: int, extra: None) -> int:
        one = launches.config
        words = (ctypes.c_int * 3).from_address(ctypes.addressof(one.attributes.contents))
        geometry = (*one.grid, *one.block, one.shared)
        seen.append((function, places, extra, geometry, one.stream, one.count, tuple(words)))
        return 0 if one.stream != 9 else 701

    monkeypatch.setattr(dependent, "_launcher", lambda: launch)
    launches = Following(11, GEOMETRY, 99, check)
    for stream in (7, 8):
        launches.launch(stream)
    assert seen == [(11, 99, None, GEOMETRY, stream, 1, (6, 0, 1)) for stream in (7, 8)]
    with pytest.raises(Failure) as caught:
        launches.launch(9)
    assert caught.value.args == (701,)


def test_sizes_are_those_of_the_driver() -> None:
    """CUlaunchConfig, and CUlaunchAttribute, whose value is a union of 64 bytes."""
    launches = Following(11, GEOMETRY, 99, check)
    assert ctypes.sizeof(launches.config) == 56
    assert ctypes.sizeof(launches.config.attributes.contents) == 72
