"""The text of generated CUDA, and that NVIDIA's compiler takes it for every device."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from cubin import Resources, resources
from programs import COLUMNS, DIFFUSION, MASKED, SCALED, levels_schedule, scheduled

from halocline_engine.backends.cuda.build import CudaArtifact, CudaBackend
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.entries import Stride, Variant, arrays_of
from halocline_engine.backends.cuda.views import usual_variant
from halocline_engine.device.compiler import compile_source
from halocline_engine.ir.nodes import FUNCTIONS
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
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

extern "C" __global__ void __launch_bounds__(256) kernel0(
    const int ni, const int nj, const int nk, const int row, const int level, const index_t
    s0j, const index_t s0k, const double* __restrict__ f0, double* __restrict__ f1, const
    double p0) {
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  const int first = row + (int)(blockIdx.y * blockDim.y + threadIdx.y) * 4;
  const int k = level + (int)blockIdx.z;
  const int end = nj;
  if (i >= ni) return;
  if (first + 4 <= end) {
    const int j = first;
    const index_t o0 = (index_t)i + (index_t)j * s0j + (index_t)k * s0k;
    const double l0 = f0[o0 + 1];
    const double l1 = f0[o0 - s0j];
    const double l2 = f0[o0 + 1 + s0j];
    const double l3 = f0[o0];
    const double l4 = f0[o0 + 1 + 2 * s0j];
    const double l5 = f0[o0 + s0j];
    const double l6 = f0[o0 + 1 + 3 * s0j];
    const double l7 = f0[o0 + 2 * s0j];
    {
      f1[o0] = ((p0 * l0) - l1);
    }
    {
      f1[o0 + s0j] = ((p0 * l2) - l3);
    }
    {
      f1[o0 + 2 * s0j] = ((p0 * l4) - l5);
    }
    {
      f1[o0 + 3 * s0j] = ((p0 * l6) - l7);
    }
  } else {
    for (int j = first; j < end; ++j) {
      const index_t o0 = (index_t)i + (index_t)j * s0j + (index_t)k * s0k;
      f1[o0] = ((p0 * f0[o0 + 1]) - f0[o0 - s0j]);
    }
  }
}
"""


def variants(schedule: Schedule) -> dict[str, Variant]:
    usual = usual_variant(schedule)
    one = len(arrays_of(schedule)) * (0,)
    return {
        "usual": usual,
        "wide": Variant(usual.arrays, usual.kinds, wide=True, disjoint=True),
        "shared": Variant(usual.arrays, usual.kinds, wide=False, disjoint=False),
        "any": Variant(one, ((Stride.ANY, Stride.ANY, Stride.ANY),), wide=True, disjoint=False),
    }


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
    assert copy.kernels == ("kernel0",)
    assert artifact.source == emit(artifact.schedule, usual_variant(artifact.schedule))


def test_the_same_program_gives_the_same_text_in_every_process() -> None:
    code = (
        "from programs import *\n"
        "from halocline_engine.backends.cuda.build import CudaBackend\n"
        "print(*(CudaBackend().build(scheduled(t)).source for t in (DIFFUSION, COLUMNS, MASKED)))"
    )
    folder = os.path.dirname(os.path.abspath(__file__))
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": folder},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert "kernel0" in texts.pop()


@pytest.mark.parametrize(
    ("name", "architecture"),
    # Library functions take seconds to compile, and are the same on every device.
    [(n, a) for n in PROGRAMS for a in ARCHITECTURES if a == "sm_90" or n[:5] != "every"],
)
def test_nvidias_compiler_takes_every_kernel(name: str, architecture: str) -> None:
    artifact = CudaBackend().build(scheduled(PROGRAMS[name]))
    found = resources(compile_source(artifact.source, architecture))
    assert set(found) == set(artifact.kernels)
    for kernel, used in found.items():
        assert used.registers <= 128, (kernel, used)
        if not name.startswith("everything"):
            assert used == Resources(used.registers, stack=0), kernel


@pytest.mark.parametrize("kind", ["wide", "shared", "any"])
def test_nvidias_compiler_takes_every_variant(kind: str) -> None:
    for schedule in (scheduled(MASKED), scheduled(COLUMNS), levels_schedule(Order.FORWARD)):
        assert compile_source(emit(schedule, variants(schedule)[kind]), "sm_90")
