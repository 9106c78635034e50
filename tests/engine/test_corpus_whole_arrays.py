"""Expressions on whole arrays mean what the programs of the corpus mean."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from corpus.calls import LAYOUTS, CorpusCall, wrong
from corpus.cases import CorpusCase, corpus
from corpus.whole_arrays import in_memory_order, sample, whole_arrays

#: Programs are compiled to see which can be sampled, so this is not done as tests are collected.
PARTS = 4


@cache
def every() -> tuple[CorpusCase, ...]:
    return tuple(sample(corpus(), 1000))


def test_a_sample_is_the_same_each_time() -> None:
    assert len(every()) >= 40
    assert [case.name for case in sample(corpus(), 10)] == [
        case.name for case in sample(corpus(), 10)
    ]


@pytest.mark.parametrize("part", range(PARTS))
def test_whole_arrays_give_what_the_reference_gives(part: int) -> None:
    """Every third one, as all of them take seconds."""
    for case in every()[::3][part::PARTS]:
        for layout in LAYOUTS:
            call = CorpusCall(case, "float64", layout, (7, 6, 9))
            given = call.arrays(np)
            got = {name: array.copy(order="K") for name, array in given.items()}
            with np.errstate(all="ignore"):
                whole_arrays(call, np)(in_memory_order(call, got))
            assert wrong(call, got, given) == "", case.name
