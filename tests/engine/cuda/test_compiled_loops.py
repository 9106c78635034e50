"""Loops of kernels as NVIDIA's compiler translates them: none is lost, none has a wrong end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from differential import assert_same, front
from drawing_integers import integer_program
from drawing_loops import loop_program
from emulation.machine import EmulatedArtifact
from general_runs import given_arrays, judged, ran
from ptx import compilers, count_loops, ptx_of

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.device.compile.faults import loses_negations
from halocline_engine.schedule.plan import plan

DRAWN = range(40)
COMPILERS = compilers()
#: A loop that every version of NVRTC up to 13.5 turns into one iteration.
TWO_BOUNDS = """
extern "C" __global__ void search(const long long *lo, const long long *hi, const double *a,
                                  long long *o) {
  const long long first = (long long)((unsigned long long)lo[threadIdx.x] + 1ULL);
  const long long last = first > hi[threadIdx.x] ? first : hi[threadIdx.x];
  long long best = lo[threadIdx.x];
  double x = a[best];
  long long l = first;
  while (l >= first && l <= last) {
    if (a[l] < x) { x = a[l]; best = l; }
    l = (long long)((unsigned long long)l + 1ULL);
  }
  o[threadIdx.x] = best;
}
"""
LOOKED_UP = """
def looked_up(c: Field[np.float64], m: Field[np.int64], z: Field[np.float64], n: Field[np.int64],
              q: np.int64):
    with computation(BACKWARD):
        with interval(-1, None):
            n = m * q
        with interval(0, -1):
            z = 0.5 * z + c[0, 0, m % 3 - 1]
"""


def source(text: str, domain: tuple[int, int, int]) -> str:
    schedule = plan(*front(text))
    variant = usual_variant(schedule)
    return emit(schedule, variant, tiles_of(schedule, variant, domain))


def test_both_compilers_of_users_are_here() -> None:
    assert set(COMPILERS) == {"nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"}


@pytest.mark.parametrize("name", COMPILERS)
def test_a_compiler_loses_a_loop_that_it_sees_through(name: str) -> None:
    """The reason for `opaque`; where this fails, the compiler is right and needs it no more."""
    assert count_loops(ptx_of(TWO_BOUNDS, COMPILERS[name])) == 0


@pytest.mark.parametrize("number", DRAWN)
@pytest.mark.parametrize("name", COMPILERS)
def test_each_loop_of_a_drawn_program_is_compiled(name: str, number: int) -> None:
    code = source(loop_program(number), (37, 13, 12))
    assert "while (" in code
    assert count_loops(ptx_of(code, COMPILERS[name])) >= code.count("while (")


@pytest.mark.parametrize("number", range(0, 40, 5))
def test_drawn_loops_have_the_bits_of_the_reference(number: int, emulation_folder: Path) -> None:
    check(loop_program(number), number, emulation_folder)


@pytest.mark.parametrize("number", range(0, 40, 5))
def test_drawn_integers_have_the_bits_of_the_reference(number: int, emulation_folder: Path) -> None:
    check(integer_program(number), number, emulation_folder)


def check(text: str, number: int, folder: Path) -> None:
    meaning, facts = front(text)
    domain = (5, 3, 12)
    own = given_arrays(meaning, facts, domain, "along K" if number % 2 else "along I", number)
    with np.errstate(all="ignore"):
        expected = judged(meaning, facts, own, domain)
    kernels = EmulatedArtifact(plan(meaning, facts), folder)
    assert_same(ran(kernels, meaning, facts, own, domain).arrays, expected.arrays)


@pytest.mark.parametrize("domain", [(56, 16, 4), (56, 16, 33), (509, 487, 72)])
@pytest.mark.parametrize("name", COMPILERS)
def test_trip_counts_of_clipped_levels_negate_no_operand(
    name: str, domain: tuple[int, int, int]
) -> None:
    assert not loses_negations(ptx_of(source(LOOKED_UP, domain), COMPILERS[name]))
