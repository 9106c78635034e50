"""NVIDIA's compiler takes every kind of kernel for every device, and nothing spills."""

from __future__ import annotations

import pytest
from cubin import resources
from kept import device_code

from halocline_engine.errors import InternalError
from halocline_engine.kernels.indirect.cuda import Ends, blocks_for, variant_for
from halocline_engine.kernels.indirect.emit import (
    Combination,
    Passes,
    Product,
    Variant,
    combination_name,
    emit,
    emit_combination,
    emit_passes,
    emit_product,
    kernel_name,
    passes_names,
    product_name,
)
from halocline_engine.kernels.indirect.problem import Direction, Duplicates, Transfer
from halocline_engine.kernels.indirect.sparse import Form

VARIANTS = (
    Variant(4, 1, take=True, put=False, flight=8),
    Variant(16, 3, take=True, put=True, index_bits=64, wide=True, masked=True),
    Variant(2, 1, take=False, put=True),
    Variant(8, 3, take=True, put=True, flight=1, threads=512),
    Variant(4, 1, take=False, put=True, flight=2, index_bits=64, wide=True, masked=True),
    Variant(16, 16, take=True, put=False, flight=2, kept=True),
    Variant(4, 1, take=True, put=False, masked=True, kept=True),
    Variant(8, 1, take=True, put=False, index_bits=64, wide=True),
)
PASSES = (
    Passes(4, 1),
    Passes(8, 1, wide=True, past=True),
    Passes(4, 3),
    Passes(1, 1),
    Passes(16, 1, past=True),
)
COMBINATIONS = tuple(
    Combination(value, rule, bits)
    for value, rule, bits in (
        ("float32", Duplicates.SUM, 32),
        ("int64", Duplicates.SUM, 64),
        ("float64", Duplicates.MIN, 32),
        ("int32", Duplicates.LAST, 32),
    )
)
PRODUCTS = (
    Product("float32", Form.PLAIN, renormalise=True),
    Product("float64", Form.DEPARTURE, renormalise=False, index_bits=64),
    Product("float32", Form.PLAIN, renormalise=True, block=4),
    Product("float64", Form.RELATIVE, renormalise=False, levels=4, block=2),
    Product("float64", Form.PLAIN, renormalise=True, index_bits=64, levels=4, block=1),
    Product("float32", Form.PLAIN, renormalise=True, levels=4, balanced=True),
    Product("float32", Form.PLAIN, renormalise=True, levels=4, block=4, balanced=True),
    Product("float64", Form.DEPARTURE, renormalise=True, levels=4, block=2, balanced=True),
)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_every_kernel_compiles_without_spilling(architecture: str) -> None:
    parts = (emit(VARIANTS), emit_combination(COMBINATIONS), emit_product(PRODUCTS))
    parts = (*parts, emit_passes(PASSES))
    names = [
        *map(kernel_name, VARIANTS),
        *map(combination_name, COMBINATIONS),
        *map(product_name, PRODUCTS),
        *(name for one in PASSES for name in passes_names(one)),
    ]
    found = resources(device_code("\n".join(parts), architecture))
    assert sorted(found) == sorted(names)
    assert all(one.stack == 0 for one in found.values())
    assert all(one.registers <= 128 for one in found.values())


def test_members_are_noted_only_where_weights_add_up_to_0() -> None:
    ordinary, noted = PRODUCTS[2], PRODUCTS[6]
    assert "product_sliced<float, int, PLAIN, true, false, 8, 4>" in emit_product([ordinary])
    assert "product_sliced<float, int, PLAIN, true, true, 4, 4>" in emit_product([noted])
    assert product_name(noted).startswith("product_plain_renormalised_balanced_float32_")


def test_words_are_counted_with_64_bits_where_they_must() -> None:
    transfer = Transfer(Direction.GATHER, 16, 64, 1000)

    def wide(source: int) -> bool:
        return variant_for(transfer, Ends(0, 0, source, 1000, take=1)).wide

    assert not wide(2**28)
    assert wide(2**29)


def test_blocks_cover_all_pieces() -> None:
    transfer = Transfer(Direction.GATHER, 4, 12, 1001)
    one = Variant(4, 3, take=True, put=False, threads=128)
    assert blocks_for(one, transfer) == 6


def test_what_no_device_could_run_is_refused() -> None:
    with pytest.raises(InternalError) as caught:
        Variant(2, 1, take=True, put=False, kept=True)
    assert str(caught.value) == "Words of 4, 8 or 16 bytes are kept."
