"""How the fast kernel is cut: every stage is somebody's, and the choice follows the sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matmul_kernels.cuts import (
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


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        # Large products, whose rows may begin anywhere.
        ((64_000, 64_000, 1000), "128x256x16-8x16-l8-s3-b1"),
        ((4099, 4097, 4101), "128x256x16-8x16-l8-s3-b1"),
        # One wave of tiles that is nearly full.
        ((512, 8192, 512), "128x256x16-8x16-l8-s3-b1-whole"),
        ((1000, 1000, 1000), "32x128x16-8x8-l4-s4-b2-2slices-direct-whole"),
        ((700, 701, 702), "64x64x32-8x8-l8-s3-b1-4slices-direct-whole"),
        ((512, 512, 512), "32x64x32-8x8-l4-s3-b2-4slices-direct-whole"),
        # Half as many tiles as places.
        ((512, 512, 2048), "32x64x32-8x8-l4-s3-b2-4slices-direct-2parts"),
        # Tiles that fill no number of waves.
        ((669, 561, 978), "64x64x32-8x8-l8-s3-b1-4slices-direct"),
        ((513, 515, 517), "32x64x32-8x8-l4-s3-b2-4slices-direct"),
        ((924, 773, 1448), "64x64x16-8x8-l8-s4-b4-direct"),
        ((768, 769, 2049), "128x64x16-8x8-l8-s4-b2-direct"),
        ((1500, 1501, 999), "128x256x16-8x16-l8-s3-b1"),
        # Rows of odd length that are better copied first.
        ((903, 2662, 3774), "64x128x16-8x8-l8-s4-b2"),
    ],
)
def test_the_usual_cut_fits_the_sizes(sizes: tuple[int, int, int], name: str) -> None:
    assert usual_variant(*sizes, 132).name == name


def test_there_is_a_cut_for_the_smallest_products() -> None:
    assert usual_variant(1, 1, 0, 132) in VARIANTS
    assert usual_variant(1, 1, 1, 1) in VARIANTS


def test_cuts_are_told_apart_by_their_names() -> None:
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)


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
