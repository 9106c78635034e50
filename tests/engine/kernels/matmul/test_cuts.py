"""How the fast kernel is cut: every stage is somebody's, and the choice follows the sizes."""

from __future__ import annotations

import numpy as np

from halocline_engine.kernels.matmul.cuts import VARIANTS, shares_of, usual_variant


def test_shares_are_even_and_complete() -> None:
    rng = np.random.default_rng(3)
    for rows, columns, inner, count in rng.integers(1, [9000, 9000, 9000, 150], size=(200, 4)):
        for variant in VARIANTS:
            shares = shares_of(variant, int(rows), int(columns), int(inner), int(count))
            tiles = -(-int(rows) // variant.rows) * -(-int(columns) // variant.columns)
            assert shares.waves * shares.blocks + shares.split == tiles
            assert 1 <= shares.blocks <= count * variant.resident
            assert shares.stages * variant.depth >= inner
            # A block that goes on with sums of another must not wait for them.
            assert not (shares.chained and 0 < shares.split < shares.blocks)
            assert abs(shares.load * shares.blocks - tiles * shares.stages) < 1


def test_the_usual_cut_fits_the_sizes() -> None:
    large, odd = usual_variant(64_000, 64_000, 1000, 132), usual_variant(4099, 4097, 4101, 132)
    assert (large, odd) == (VARIANTS[0], VARIANTS[0])
    assert usual_variant(1280, 1280, 1280, 132) == VARIANTS[1]
    assert usual_variant(512, 512, 512, 132) == VARIANTS[-1]
    assert usual_variant(1, 1, 0, 132) in VARIANTS


def test_no_place_is_left_idle_at_1500_x_1501() -> None:
    usual = usual_variant(1500, 1501, 999, 132)
    shares = shares_of(usual, 1500, 1501, 999, 132)
    assert shares.blocks == 132 * usual.resident
    assert shares.split
