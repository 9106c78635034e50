"""Expressions on whole arrays mean what the programs of the corpus mean."""

from __future__ import annotations

import numpy as np
import pytest
from corpus.calls import LAYOUTS, CorpusCall, wrong
from corpus.cases import CorpusCase, corpus
from corpus.whole_arrays import in_memory_order, sample, whole_arrays

EVERY = sample(corpus(), 1000)
#: Every third one, which take seconds.


def test_a_sample_is_the_same_each_time() -> None:
    assert len(EVERY) >= 40
    assert [case.name for case in sample(corpus(), 10)] == [
        case.name for case in sample(corpus(), 10)
    ]


@pytest.mark.parametrize("case", EVERY[::3], ids=[case.name for case in EVERY[::3]])
def test_whole_arrays_give_what_the_reference_gives(case: CorpusCase) -> None:
    for layout in LAYOUTS:
        call = CorpusCall(case, "float64", layout, (7, 6, 9))
        given = call.arrays(np)
        got = {name: array.copy(order="K") for name, array in given.items()}
        with np.errstate(all="ignore"):
            whole_arrays(call, np)(in_memory_order(call, got))
        assert wrong(call, got, given) == ""
