"""How the fast kernel is cut: every stage is somebody's, and the choice follows the sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from halocline_engine.kernels.matmul.cuts import (
    VARIANTS,
    Costs,
    Shares,
    Variant,
    duration,
    shares_of,
    usual_variant,
)


def test_shares_are_even_and_complete() -> None:
    rng = np.random.default_rng(3)
    for rows, columns, inner, count in rng.integers(1, [9000, 9000, 9000, 150], size=(200, 4)):
        for variant in VARIANTS:
            shares = shares_of(variant, int(rows), int(columns), int(inner), int(count))
            places = int(count) * variant.resident
            tiles = -(-int(rows) // variant.rows) * -(-int(columns) // variant.columns)
            assert shares.waves * shares.blocks + shares.split == tiles
            assert 1 <= shares.blocks <= (tiles if variant.parts == 1 else places)
            assert shares.stages * variant.depth >= inner
            # A block that goes on with sums of another must not wait for them.
            assert not (shares.chained and 0 < shares.split < shares.blocks)
            assert abs(shares.load * shares.blocks - tiles * shares.stages) < 1


def test_the_usual_cut_fits_the_sizes() -> None:
    large, odd = usual_variant(64_000, 64_000, 1000, 132), usual_variant(4099, 4097, 4101, 132)
    assert (large, odd) == (VARIANTS[0], VARIANTS[0])
    assert usual_variant(1280, 1280, 1280, 132) == VARIANTS[2]
    assert usual_variant(512, 512, 512, 132) == VARIANTS[-1]
    assert usual_variant(1, 1, 0, 132) in VARIANTS


def test_no_place_is_left_idle_at_1500_x_1501() -> None:
    usual = usual_variant(1500, 1501, 999, 132)
    shares = shares_of(usual, 1500, 1501, 999, 132)
    assert shares.blocks == 132 * usual.resident
    assert shares.split


def test_tiles_have_as_many_blocks_as_parts() -> None:
    cut = Variant(32, 64, 16, 8, 8, 4, 4, 2, slices=4)
    sizes = (511, 511, 511, 132)
    assert shares_of(replace(cut, parts=1), *sizes) == Shares(128, 1, 0, 32, chained=False)
    assert shares_of(replace(cut, parts=2), *sizes) == Shares(256, 0, 128, 32, chained=False)
    assert shares_of(cut, *sizes).blocks == 264
    handed = [shares_of(replace(cut, parts=parts), *sizes).handed for parts in (1, 2, 0)]
    assert handed == [0, 1, 4]
    # Without parts of tiles no block goes on with another's sums, however many tiles there are.
    many = shares_of(Variant(64, 128, 16, 8, 8, 8, 4, 2, parts=1), 2000, 2000, 16, 132)
    assert many == Shares(512, 1, 0, 1, chained=True)


def test_a_cut_takes_what_its_busiest_multiprocessor_does() -> None:
    costs = Costs(start=3, stage=2, alone=1.5, left=5, more=1, odd=1.1)
    cut = Variant(64, 64, 16, 8, 8, 8, 4, 2, parts=1, direct=True, costs=costs)
    assert duration(cut, 64, 64, 160, 2) == 3 + 10 * 1.5
    assert duration(cut, 64, 192, 160, 2) == 3 + 10 * 2
    assert duration(cut, 64, 320, 160, 2) == 2 * 3 + 10 * (2 + 1.5)
    assert duration(cut, 64, 63, 160, 2) == 3 + 10 * 1.5 * 1.1
    assert duration(replace(cut, parts=2), 64, 64, 160, 2) == 3 + 5 + 5 * 1.5
    assert duration(replace(cut, parts=4), 64, 64, 320, 2) == 3 + 5 + 2 * 1 + 5 * 2
    padded = duration(replace(cut, direct=False), 64, 63, 160, 2)
    assert 3 + 10 * 1.5 + 2 < padded < 3 + 10 * 1.5 + 3
