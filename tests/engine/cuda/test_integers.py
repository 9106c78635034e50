"""Integers of 64 bits that are computed in 32: the bits of the reference, and which they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from corpus.calls import CorpusCall, wrong
from corpus.cases import CorpusCase, corpus
from emulation.machine import EmulatedArtifact
from nvidia import compiled_everywhere

import halocline_engine as he
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.errors import ArgumentError
from halocline_engine.ir.integers import MOST_LEVELS
from halocline_engine.schedule.plan import plan

#: Loops of every shape, and integers that 32 bits do not hold.
TURNS = """
def turns(a: Field[real], b: Field[real], out: Field[real], last: int, far: int):
    with computation(PARALLEL), interval(0, -1):
        x = a
        n = K
        while n > 0 and a.at(K=n - 1) < a + 0.3 and x < 9.0:
            n = n - 2
            x = x + b.at(K=n) * a.at(K=n + 1) + b.at(K=last)
        m = 0
        while m < 5 and b[0, 0, m] < 1.4:
            inner = last
            while inner > m and x < 20.0:
                x = x + a.at(K=inner)
                inner -= 1
            if x > 4.0:
                x = x - b.at(K=m)
            m += 1
        large = far + n
        while large < far + 3:
            large = large + 1
            x = x + 0.125 * m
        whole = int64(a * 5000000000.0)
        out = x + 0.5 * n + (1.0 if large > 4000000000 else 0.0) + whole * 0.001
    with computation(PARALLEL), interval(-1, None):
        out = a.at(K=K - last)
"""
MANY = CorpusCase("turns", "", (11, 5, 9), {}, {"last": 8, "far": 4_000_000_000}, TURNS)
#: Searches that halve what is left, and what a loop with few turns counts beside its turns.
HALVES = """
def halves(a: Field[real], out: Field[real], first: int, last: int):
    with computation(PARALLEL), interval(...):
        low = first
        high = last
        turn = 0
        while turn < 9 and high - low > 1:
            middle = low + int64(floor(0.5 * (high - low)))
            if a.at(K=middle) < 1.0:
                low = middle
            else:
                high = middle
            turn += 1
        begin = first
        end = K
        turn = 0
        while turn < 9 and begin < end:
            half = int64(0.5 * (begin + end))
            if a.at(K=half) < a:
                begin = half + 1
            else:
                end = half
            turn += 1
        n = K
        turn = 0
        while turn < 4 and n <= last:
            n = n + 2 if a > 1.0 else n - 1
            turn += 1
        out = low + 0.5 * high + 0.25 * begin + 0.125 * n + a.at(K=n)
"""
FAR = 3_000_000_000_000
SEARCH = CorpusCase("halves", "", (11, 5, 9), {}, {"first": 0, "last": 8}, HALVES)
BEYOND = CorpusCase("halves", "", (11, 5, 9), {}, {"first": -FAR, "last": FAR}, HALVES)
#: Sums that go beyond 64 bits begin again at their other end, below every bound.
AROUND = """
def around(a: Field[real], out: Field[real], far: int):
    with computation(PARALLEL), interval(...):
        n = min(max(far, 0) + 1, 5)
        m = max(min(-far, 0) - 2, 3)
        k = min(max(far, 2) * 2, 7)
        out = a.at(K=n) + 2.0 * a.at(K=m) + 4.0 * a.at(K=k)
"""
ENDS = [CorpusCase("around", "", (11, 5, 9), {}, {"far": far}, AROUND) for far in (3, 2**63 - 1)]
CASES = [
    *(case for case in corpus() if "while" in case.source or "at(K=" in case.source),
    MANY,
    SEARCH,
    BEYOND,
    *ENDS,
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.parametrize("layout", ["KJI", "IJK"])
def test_results_are_those_of_the_reference(
    case: CorpusCase, layout: str, emulation_folder: Path
) -> None:
    call = CorpusCall(case, "float64", layout, (11, 5, case.domain[2]))
    made, given = call.compiled, call.arrays(np)
    kernels = EmulatedArtifact(plan(made.program, made.facts), emulation_folder)
    artifact = with_made_fields(kernels, made.program, made.facts)
    got = {name: array.copy(order="K") for name, array in given.items()}
    call.run(he.Stencil(replace(made, artifact=artifact)), got)
    assert wrong(call, got, given) == ""


def source(case: CorpusCase, *, wide: bool) -> str:
    made = CorpusCall(case, "float64", "KJI", case.domain).compiled
    schedule = plan(made.program, made.facts)
    variant = replace(usual_variant(schedule), wide=wide)
    return emit(schedule, variant, tiles_of(schedule, variant, case.domain))


def test_integers_that_fit_have_32_bits() -> None:
    """Those that count from a scalar are narrow where it is small; a number may be any."""
    assert source(MANY, wide=True).count("long long r") == 5
    small, other = source(MANY, wide=False).split("} else {\n    const int i1")
    assert (small.count("long long r"), other.count("long long r")) == (2, 3)


def test_what_a_search_halves_stays_between_its_ends() -> None:
    small, other = source(SEARCH, wide=False).split("} else {\n    const int")
    assert (small.count("long long r"), other.count("long long r")) == (0, 6)


def test_nvidias_compiler_takes_them_for_each_device() -> None:
    sources = [source(case, wide=False) for case in CASES]
    for needs in compiled_everywhere(sources).values():
        assert all(one.stack <= 8 and one.registers <= 128 for one in needs.values())


def test_a_column_whose_indices_do_not_fit_is_refused() -> None:
    text = "def f(a: Field[float64], k: Field[K, float64]):\n"
    text += "    with computation(PARALLEL), interval(...):\n        a = k + K\n"
    levels = MOST_LEVELS + 1
    k = np.broadcast_to(np.zeros(1), (levels,))
    a = np.zeros((1, 1, 1))
    a = np.lib.stride_tricks.as_strided(a, (1, 1, levels), (8, 8, 0))
    with pytest.raises(ArgumentError, match="A program that uses K as a value takes up to"):
        he.stencil(text, target="reference")(a, k)
