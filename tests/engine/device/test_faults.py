"""Units that ptxas is known to translate wrongly are recognised in their PTX."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ptx import ptx_of

from halocline_engine.device.compile import compiler
from halocline_engine.device.compile.compiler import OPTIONS, compile_source, compiler_version
from halocline_engine.device.compile.faults import loses_negations
from halocline_engine.errors import DeviceError

KERNEL = """
__device__ __forceinline__ int most(int a, int b) {
  int r;
  asm("max.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
__device__ __forceinline__ int least(int a, int b) {
  int r;
  asm("min.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
extern "C" __global__ void kernel(const int n, const int m, const int *a, int *o) {
  const int x = a[threadIdx.x], y = a[threadIdx.x + 64];
  o[threadIdx.x] = VALUE;
}
"""


@pytest.mark.parametrize(
    ("value", "lost"),
    [
        ("most(most(~x, -n), m)", True),
        ("most(most(x, n), ~m)", True),
        ("most(~m, most(x, n))", True),
        ("least(least(x, -n), m)", True),
        ("least(most(-n, x), least(m, y))", False),
        ("most(most(x, n), m) - n", False),
        ("-most(most(x, n), m)", False),
        ("most(-n, least(x, y))", False),
        ("most(x - n, most(y, m))", False),
    ],
)
def test_nested_extremes_with_a_negated_operand(value: str, lost: bool) -> None:
    assert loses_negations(ptx_of(KERNEL.replace("VALUE", value))) is lost


def test_integers_of_16_bits() -> None:
    text = """
extern "C" __global__ void kernel(const short *a, const short *b, short *o) {
  const short x = a[threadIdx.x], y = b[threadIdx.x], z = a[threadIdx.x + 64];
  const short minus_x = -x, minus_y = SIGNy;
  const short first = minus_x > minus_y ? minus_x : minus_y;
  o[threadIdx.x] = first > z ? first : z;
}
"""
    assert loses_negations(ptx_of(text.replace("SIGN", "-")))
    assert not loses_negations(ptx_of(text.replace("-x", "x").replace("SIGN", "")))


def test_extremes_of_different_kernels_are_apart() -> None:
    one = ".entry a(){\n\tneg.s32 \t%r1, %r9;\n\tmax.s32 \t%r2, %r1, %r3;\n}\n"
    other = ".entry b(){\n\tmax.s32 \t%r1, %r4, %r3;\n\tmax.s32 \t%r2, %r1, %r3;\n}\n"
    assert not loses_negations(one + other)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the requests to a compiler of CUDA 13.0 that makes this PTX of everything."""
    requests: list[Mapping[str, Any]] = []

    def run(request: Mapping[str, Any], _architecture: str, _limit: float) -> bytes:
        requests.append(request)
        if "source" not in request:
            return json.dumps([13, 0]).encode()
        source = str(request["source"])
        return source.encode() if request["output"] == "PTX" else b"\x7fELF"

    monkeypatch.setattr(compiler, "_run", run)
    compiler_version.cache_clear()
    yield requests
    compiler_version.cache_clear()


def test_only_such_units_are_not_optimised(asked: list[Mapping[str, Any]]) -> None:
    right = ".entry a(){\n\tmax.s32 \t%r2, %r1, %r3;\n}\n"
    wrong = (
        ".entry a(){\n\tneg.s32 \t%r1, %r9;\n\tmax.s32 \t%r2, %r1, %r3;\n"
        "\tmax.s32 \t%r4, %r2, %r5;\n}\n"
    )
    for source, option in ((right, []), (wrong, ["--ptxas-options=-O0"])):
        asked.clear()
        assert compile_source(source, "sm_90") == b"\x7fELF"
        assert asked[-1]["output"] == "CUBIN"
        assert list(asked[-1]["options"])[len(OPTIONS) + 1 :] == option


def test_old_compilers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> bytes:
        return b"[12, 6]"

    monkeypatch.setattr(compiler, "_run", run)
    monkeypatch.setattr(compiler, "find_nvrtc", lambda: "/opt/libnvrtc.so.12")
    with pytest.raises(DeviceError) as caught:
        compiler_version.__wrapped__()
    assert str(caught.value) == (
        "The CUDA compiler '/opt/libnvrtc.so.12' is of CUDA 12.6; kernels are tested with 12.9 and"
        " later. Install 'halocline[cuda13]', or 'halocline[cuda12]' for drivers of CUDA 12."
    )


def test_the_version_is_that_of_the_library() -> None:
    assert compiler_version() >= (12, 9)
