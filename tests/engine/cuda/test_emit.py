"""The text of generated CUDA, and that NVIDIA's compiler takes it for every device."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest
from cubin import Resources
from nvidia import ARCHITECTURES, compiled
from programs import (
    CHOSEN,
    COLUMNS,
    DIFFUSION,
    MASKED,
    NEVER_WRITTEN,
    SCALED,
    levels_schedule,
    scheduled,
)

from halocline_engine.backends.cuda.build import CudaArtifact, CudaBackend
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.entries import Stride, Variant, arrays_of, entries_of
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.ir.functions import FUNCTIONS
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

EVERYTHING = (
    """
def everything(x: Field[{dtype}], n: Field[int32], m: Field[int8], out: Field[{dtype}], s: {dtype},
               flag: bool):
    with computation(PARALLEL), interval(...):
        out = x ** 2 + x ** 3 - x ** 4 + x ** s + x % s + float32(n % 3) + n ** 2 + m * 2
        if flag and not x > s:
            out = out + 1
"""
    + "".join(
        f"        out = out + {name}({', '.join(['x', 's'][:count])})\n"
        for name, count in FUNCTIONS.items()
        if name not in ("pow", "isnan", "isinf", "isfinite")
    )
    + "        out = out if isnan(x) or isinf(x) or isfinite(x) else 0\n"
)
PROGRAMS = {
    "scaled": SCALED,
    "diffusion": DIFFUSION,
    "columns": COLUMNS,
    "masked": MASKED,
    "everything64": EVERYTHING.format(dtype="float64"),
    "everything32": EVERYTHING.format(dtype="float32"),
}
SCALED_CODE = """\
typedef int index_t;

template <int N, class T> struct alignas(N * sizeof(T)) LoadPack { T v[N]; };
template <int N, class T> __device__ __forceinline__ void load(T *to, const T *from) {
  const LoadPack<N, T> pack = *reinterpret_cast<const LoadPack<N, T> *>(from);
  #pragma unroll
  for (int n = 0; n < N; ++n) to[n] = pack.v[n];
}
template <int N, class T> struct alignas(N * sizeof(T)) StorePack { T v[N]; };
template <int N, class T> __device__ __forceinline__ void store(T *to, const T *from) {
  StorePack<N, T> pack;
  #pragma unroll
  for (int n = 0; n < N; ++n) pack.v[n] = from[n];
  *reinterpret_cast<StorePack<N, T> *>(to) = pack;
}

extern "C" __global__ void __launch_bounds__(128) kernel0(
    const int ni, const int nj, const int nk, const int row, const int level, const int top,
    const index_t s0j, const index_t s0k, const double* __restrict__ f0, double*
    __restrict__ f1, const double p0) {
  const int i1 = ni, j1 = nj;
  const int k0 = level + (int)blockIdx.z;
  const int t = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  const int j_ = row + (int)(blockIdx.y * blockDim.y + threadIdx.y) * 2;
  if (j_ >= j1) return;
  const int j0 = min(j_, max(j1 - 2, row));
  const int wholes = max(i1, 0) / 2;
  if (t < wholes) {
    const int i0 = t * 2;
    if (j0 + 2 <= j1) {
      const int i = i0, j = j0;
      const int k = k0;
      const index_t o0 = (index_t)i + (index_t)j * s0j + (index_t)k * s0k;
      double f0_here[3][3];
      double f1_new[2][2];
      load<2>(&f0_here[0][0], &f0[o0 - s0j]);
      load<2>(&f0_here[1][0], &f0[o0]);
      f0_here[1][2] = f0[o0 + 2];
      f0_here[2][1] = f0[o0 + 1 + s0j];
      f0_here[2][2] = f0[o0 + 2 + s0j];
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        #pragma unroll
        for (int e = 0; e < 2; ++e) {
          f1_new[r][e] = ((p0 * f0_here[r + 1][e + 1]) - f0_here[r][e]);
        }
      }
      store<2>(&f1[o0], &f1_new[0][0]);
      store<2>(&f1[o0 + s0j], &f1_new[1][0]);
    } else {
      for (int j = j0; j < j1; ++j)
      for (int i = i0; i < i0 + 2; ++i) {
        const int k = k0;
        const index_t o0 = (index_t)i + (index_t)j * s0j + (index_t)k * s0k;
        f1[o0] = ((p0 * f0[o0 + 1]) - f0[o0 - s0j]);
      }
    }
  } else {
    const int left = i1 - wholes * 2, p = t - wholes;
    if (p >= left * 2) return;
    const int i = p % left + wholes * 2;
    const int j = j0 + p / left;
    if (j >= j1) return;
    const int k = k0;
    const index_t o0 = (index_t)i + (index_t)j * s0j + (index_t)k * s0k;
    f1[o0] = ((p0 * f0[o0 + 1]) - f0[o0 - s0j]);
  }
}
"""


def variants(schedule: Schedule) -> dict[str, Variant]:
    usual = usual_variant(schedule)
    one = len(arrays_of(schedule)) * (0,)
    crooked = (False,) * len(one)
    anywhere = ((Stride.ANY, Stride.ANY, Stride.ANY),)
    return {
        "usual": usual,
        "wide": replace(usual, wide=True),
        "shared": replace(usual, disjoint=False),
        "crooked": replace(usual, aligned=crooked),
        "any": Variant(one, anywhere, wide=True, disjoint=False, aligned=crooked),
    }


def emitted(schedule: Schedule, variant: Variant) -> str:
    return emit(schedule, variant, tiles_of(schedule, variant, (1024, 1024, 128)))


def test_the_text_of_a_small_program() -> None:
    assert CudaBackend().build(scheduled(SCALED)).source == SCALED_CODE


def test_names_of_users_stay_outside() -> None:
    text = "def nasty(typedef: Field[float64], asm: Field[float64], printf: float64):\n"
    text += "    with computation(PARALLEL), interval(...):\n"
    text += "        __restrict__ = typedef * printf\n        asm = __restrict__ + typedef\n"
    source = CudaBackend().build(scheduled(text)).source
    for name in ("nasty", "asm", "printf"):
        assert name not in source
    assert source.count("typedef") == 1


def test_an_artifact_travels_and_stays_equal() -> None:
    artifact = CudaBackend().build(scheduled(MASKED))
    copy = pickle.loads(pickle.dumps(artifact))
    assert copy == artifact
    assert isinstance(copy, CudaArtifact)
    assert copy.source == artifact.source
    assert artifact.source == emitted(artifact.schedule, usual_variant(artifact.schedule))


def test_the_same_program_gives_the_same_text_in_every_process() -> None:
    code = (
        "from programs import *\n"
        "from halocline_engine.backends.cuda.build import CudaBackend\n"
        "print(*(CudaBackend().build(scheduled(t)).source for t in (DIFFUSION, COLUMNS, MASKED)))"
    )
    # This process has another seed; test_determinism compares more of them.
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2"
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)),
        },
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    own = (CudaBackend().build(scheduled(text)).source for text in (DIFFUSION, COLUMNS, MASKED))
    assert other == " ".join(own) + "\n"
    assert "kernel0" in other


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvidias_compiler_takes_every_kernel(architecture: str) -> None:
    # Library functions take seconds to compile, and are the same on every device.
    names = [n for n in PROGRAMS if architecture == "sm_90" or not n.startswith("everything")]
    artifacts = [CudaBackend().build(scheduled(PROGRAMS[name])) for name in names]
    found = compiled([artifact.source for artifact in artifacts], architecture)
    kernels = [entries_of(one.schedule) for one in artifacts]
    assert set(found) == {(n, k.name) for n, several in enumerate(kernels) for k in several}
    for (number, kernel), used in found.items():
        # Columns have rings of registers; test_columns says how many of them run at once.
        most = 168 if names[number] == "columns" else 128
        assert used.registers <= most, (names[number], kernel, used)
        if not names[number].startswith("everything"):
            assert used == Resources(used.registers, stack=0), (names[number], kernel)


def test_nvidias_compiler_takes_every_variant() -> None:
    schedules = (scheduled(MASKED), scheduled(COLUMNS), levels_schedule(Order.FORWARD))
    kinds = ("wide", "shared", "crooked", "any")
    sources = [emitted(one, variants(one)[kind]) for one in schedules for kind in kinds]
    assert {number for number, _ in compiled(sources, "sm_90")} == set(range(len(sources)))


def test_what_is_read_back_is_never_taken_for_constant() -> None:
    """NVCC merges loads of both choices; of a constant array, it moves them before the store."""
    code = _one_line(scheduled(CHOSEN))
    assert "double* __restrict__ f0" in code
    assert "const double* f1" in code
    assert "const int* f2" in code


def test_what_is_written_under_conditions_is_never_taken_for_constant() -> None:
    """NVCC finds that two of the components are never written, so they would count as constant."""
    code = _one_line(scheduled(NEVER_WRITTEN))
    assert "double* __restrict__ f0, const int* f1, double* f2, double* f3, double* f4," in code


def _one_line(schedule: Schedule) -> str:
    variant = usual_variant(schedule)
    return " ".join(emit(schedule, variant, tiles_of(schedule, variant, (32, 4, 9))).split())
