"""A call like one before costs the host a look-up and a launch; the bits are those of any call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedMachine
from programs import COLUMNS, SCALED, Box, drawn, scheduled

from conftest import Loader
from halocline_engine.backends.base import prepare
from halocline_engine.backends.cuda.model.entries import entries_of
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.cuda.runtime import executable as run
from halocline_engine.backends.cuda.runtime.tile_cache import TileCache

DOMAIN: Box = (37, 13, 9)
ORIGINS = {"a": (1, 1, 1), "b": (1, 1, 1)}


def fields() -> dict[str, Any]:
    return {"a": drawn((40, 16, 11), 1), "b": np.full((40, 16, 11), np.nan)}


def test_calls_that_are_prepared_have_the_bits_of_others(load: Loader) -> None:
    executable = load(scheduled(SCALED))
    called, prepared = fields(), fields()
    there = prepare(executable, prepared, {"c": 0.3}, ORIGINS, DOMAIN)
    back = {"a": prepared["b"], "b": prepared["a"]}
    again = prepare(executable.turned(), back, {"c": 0.7}, ORIGINS, DOMAIN)
    for _ in range(2):
        executable(called, {"c": 0.3}, ORIGINS, DOMAIN)
        executable({"a": called["b"], "b": called["a"]}, {"c": 0.7}, ORIGINS, DOMAIN)
        there()
        again()
        for name, array in called.items():
            np.testing.assert_array_equal(prepared[name], array)


def test_a_prepared_call_has_memory_for_what_kernels_hand_on(load: Loader) -> None:
    executable = load(scheduled(COLUMNS))
    names = ["a", "up", "down"]
    origins: dict[str, Box] = dict.fromkeys(names, (0, 0, 0))
    called = {name: drawn(DOMAIN, n) for n, name in enumerate(names)}
    prepared = {name: array.copy(order="K") for name, array in called.items()}
    executable(called, {}, origins, DOMAIN)
    prepare(executable, prepared, {}, origins, DOMAIN)()
    for name, array in called.items():
        np.testing.assert_array_equal(prepared[name], array)


def test_what_is_known_is_not_found_out_again(
    load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kinds of calls: of a domain, of arrays at other addresses, shared, or behind each other."""
    executable, made = load(scheduled(SCALED)), counted(monkeypatch)
    given = fields()
    for _ in range(3):
        executable(given, {"c": 0.3}, ORIGINS, DOMAIN)
        executable(fields(), {"c": 0.4}, ORIGINS, DOMAIN)
    assert made == [DOMAIN]
    one = drawn((40, 16, 11), 3)
    executable({"a": one, "b": one}, {"c": 0.3}, ORIGINS, (37, 13, 8))
    executable(given, {"c": 0.3}, ORIGINS, (37, 13, 8))
    assert made == [DOMAIN, (37, 13, 8), (37, 13, 8)]
    executable.forget()
    executable(given, {"c": 0.3}, ORIGINS, DOMAIN)
    assert made[3:] == [DOMAIN]


def test_steps_that_shrink_are_cut_and_loaded_once(
    machine: EmulatedMachine, load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable, made = load(scheduled(SCALED)), counted(monkeypatch)
    shape = (84, 104, 3)
    given = {"a": drawn(shape, 1), "b": np.full(shape, np.nan)}
    chosen: list[Box] = []
    tiles_of: Callable[..., Any] = vars(run)["tiles_of"]

    def choose(*arguments: Any) -> Any:
        chosen.append(arguments[2])
        return tiles_of(*arguments)

    monkeypatch.setattr(run, "tiles_of", choose)
    loads = len(machine.loaded)
    for step in range(6):
        domain = (82 - step, 102 - 2 * step, 1)
        given["b"][...] = np.nan
        executable(given, {"c": 0.3}, ORIGINS, domain)
        expected = {"a": given["a"], "b": np.full(shape, np.nan)}
        load(scheduled(SCALED))(expected, {"c": 0.3}, ORIGINS, domain)
        np.testing.assert_array_equal(given["b"], expected["b"])
    assert made[::2] == [(82 - step, 102 - 2 * step, 1) for step in range(6)]
    # Each other executable had to choose and load for itself.
    assert chosen[1:] == [(82 - step, 102 - 2 * step, 1) for step in range(6)]
    assert len(machine.loaded) - loads == 1 + 6


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Box]:
    """Return a list that grows with the domain of each kind of call that is made."""
    made: list[Box] = []
    queue_of: Callable[..., Any] = vars(run)["queue_of"]

    def queue(*arguments: Any, **named: Any) -> Any:
        made.append(arguments[2].domain)
        return queue_of(*arguments, **named)

    monkeypatch.setattr(run, "queue_of", queue)
    return made


@pytest.mark.parametrize(
    ("first", "then", "tile", "times"),
    [
        ((1000, 500, 1), (990, 480, 1), Tile((32, 4)), 1),
        ((1000, 500, 1), (1000, 500, 2), Tile((32, 4)), 2),
        ((1000, 500, 1), (1000, 430, 1), Tile((32, 4)), 2),
        ((1000, 16, 1), (1000, 17, 1), Tile((32, 4)), 2),
        ((1000, 16, 1), (990, 16, 1), Tile((32, 4)), 1),
        ((1000, 500, 1), (990, 480, 1), Tile((32, 4), along=1), 2),
    ],
)
def test_domains_that_are_near_are_cut_alike(first: Box, then: Box, tile: Tile, times: int) -> None:
    schedule, made = scheduled(SCALED), list[Box]()
    tile_cache, variant = TileCache(tuple(entries_of(schedule))), usual_variant(schedule)
    for domain in (first, then):

        def choose(domain: Box = domain) -> dict[str, Tile]:
            made.append(domain)
            return {"kernel0": tile}

        assert tile_cache.tiles(variant, domain, choose) == {"kernel0": tile}
    assert len(made) == times
