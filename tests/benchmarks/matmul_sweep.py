"""float32 products of many sizes: the fast kernel with its usual cut beside cuBLAS without TF32.

Both are recorded into graphs, so that no launch waits for Python, and replayed in turns; shares are
medians of the rounds' ratios. The sizes are 65 given ones and 40 random ones, to which the costs of
cuts were fitted, and 40 random ones that are new to them, always the same. cuBLAS has a handle and
a workspace of its own, so that its graphs hold nothing but kernels. Before it is timed, each result
is compared with the order by rows: bit by bit where the cut adds up in that order, and otherwise
within the rounding of float32, and with the bits of a second call.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from column_formulas import order_width
from matmul_kernels.cuda import Ends, Multipliers, room_bytes
from matmul_kernels.cuts import VARIANTS, Variant, shares_of, usual_variant

__all__ = [
    "APART",
    "NEW",
    "RANDOM",
    "SIZES",
    "Bench",
    "Blas",
    "Operands",
    "Sweep",
    "figures",
    "lines",
    "sources",
    "sources_of",
]

_SIZES = """
512x512x512 512x512x2048 513x515x517 640x640x640 768x768x768 777x777x777 800x1200x600
1000x1000x1000 1023x1023x1023 1024x1024x1024 1024x1024x4096 1152x1100x1300 1280x1280x1280
1500x1501x999 1536x1536x1536 1537x1539x1541 777x3001x1234 3000x500x4000 640x8192x640
8192x640x640 512x8192x512 8191x513x2047 2000x2000x2000 2047x2047x2047 2048x2048x2048
2049x2049x2049 2048x4096x512 2304x2304x2304 2500x1700x3100 2560x2560x2560 2777x3333x1111
3000x3000x3000 3072x3072x3072 3333x2221x4097 3500x3500x700 4000x4000x4000 4096x4096x4096
4099x4097x4101 4200x4300x900 5000x5000x5000 5555x1234x3210 6000x5000x7001 6001x5002x7001
1000x8000x2000 8192x8192x8192 511x511x511 515x700x600 601x601x601 577x1025x513 700x701x702
900x901x899 1100x1101x1099 1301x1300x1299 1410x1411x500 2304x513x1000 600x3001x777
3001x3001x513 7000x700x700 8192x8191x600 5001x5003x4999 7777x6543x2100 513x513x4097
530x8000x3000 1800x600x8192 768x769x2049
"""
#: Rows, columns and inner elements: even and odd, square and not.
SIZES: Sequence[tuple[int, int, int]] = tuple(
    (int(m), int(n), int(k)) for m, n, k in (size.split("x") for size in _SIZES.split())
)
_SMALLEST, _LARGEST = 500, 4500


def _random(seed: int, count: int) -> Sequence[tuple[int, int, int]]:
    rng = np.random.default_rng(seed)
    drawn = np.exp(rng.uniform(log(_SMALLEST), log(_LARGEST), size=(count, 3)))
    return [(int(m), int(n), int(k)) for m, n, k in drawn]


RANDOM: Sequence[tuple[int, int, int]] = [(887, 546, 1024), *_random(36, 39)]
NEW: Sequence[tuple[int, int, int]] = _random(41, 40)
_SETS = {"given": SIZES, "random": RANDOM, "new": NEW}
_ROUNDS = 5
#: Seconds that a round of one kernel takes about, and the rate that tells how many calls that is.
_ROUND, _RATE, _LAUNCH = 6e-4, 4.5e13, 3e-6
_WORKSPACE = 32 << 20
#: More than rounding may make, as a share of the sum of the sizes of all terms.
APART = 1e-5


class Bench(Protocol):
    """What `gpu_matmul` has: the device, its kernels, and the time that is left."""

    cupy: Any
    machine: Any
    multipliers: Multipliers

    def compile(self, sources: Sequence[str]) -> None:
        """Compile side by side."""
        ...

    def left(self, case: str) -> bool:
        """Return whether there is time for a case."""
        ...


def sources() -> list[str]:
    """Return all that the cuts of the engine may ask to be compiled."""
    return sources_of(VARIANTS)


def sources_of(variants: Sequence[Variant]) -> list[str]:
    """Return all that cuts may ask to be compiled, each once."""
    return list(
        dict.fromkeys(
            variant.source(vector=vector, chained=chained)
            for variant in variants
            for vector in (True, False)
            for chained in ((True, False) if variant.slices == 1 else (False,))
        )
    )


def figures(bench: Bench) -> dict[str, Any]:
    """Return a figure for each size, under `sweep`, and a summary of each set of sizes."""
    bench.compile(sources())
    sweep = Sweep(bench.cupy, bench.machine, bench.multipliers)
    made = [
        {"set": name, **sweep.figure(size)}
        for name, sizes in _SETS.items()
        for size in sizes
        if bench.left(f"sweep {size}")
    ]
    return {"sweep": made, "sweep_summary": _summaries(made)} if made else {}


class Blas:
    """Products in single precision by cuBLAS on a stream."""

    def __init__(self, cupy: Any, stream: Any) -> None:
        assert cupy.cuda.Device().cublas_handle
        loaded = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
        self._library = ctypes.CDLL(next(path for path in loaded if "libcublas.so" in path))
        self._space = cupy.empty(_WORKSPACE, cupy.uint8)
        self._handle = ctypes.c_void_p()
        self._one, self._zero = ctypes.c_float(1), ctypes.c_float(0)
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream.ptr))
        space = ctypes.c_void_p(self._space.data.ptr)
        self._call("cublasSetWorkspace_v2", self._handle, space, ctypes.c_size_t(_WORKSPACE))

    def multiply(self, ends: Ends) -> None:
        """Queue a product; columns come first for cuBLAS, so it is given right and then left."""
        right, left, out = (ctypes.c_void_p(one) for one in (ends.right, ends.left, ends.out))
        m, n, k = ends.rows, ends.columns, ends.inner
        scale, keep = ctypes.byref(self._one), ctypes.byref(self._zero)
        sizes = (n, m, k)
        self._call(
            "cublasSgemm_v2", self._handle, 0, 0, *sizes, scale, right, n, left, k, keep, out, n
        )

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned {status}.")


@dataclass(frozen=True, slots=True)
class Operands:
    """Arrays of a product and the room of the fast kernel; `ends` are theirs but for the result."""

    arrays: Sequence[Any]
    ends: Ends

    def into(self, out: Any) -> Ends:
        """Return the ends for another place of the result."""
        one = self.ends
        return Ends(one.left, one.right, out.data.ptr, one.rows, one.columns, one.inner, one.room)


class Sweep:
    """The kernels and the stream on which they are timed."""

    def __init__(self, cupy: Any, machine: Any, multipliers: Multipliers) -> None:
        self._cupy, self._facts, self._multipliers = cupy, machine.facts, multipliers
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.blas = Blas(cupy, self.stream)

    def figure(self, size: tuple[int, int, int]) -> dict[str, Any]:
        """Return the figure for a size."""
        cupy, (m, n, k) = self._cupy, size
        variant = usual_variant(m, n, k, self._facts.multiprocessors)
        with self.stream:
            operands = self.operands(size, room_bytes(variant, *size, self._facts.multiprocessors))
            out, wanted, theirs = (cupy.full((m, n), cupy.nan, cupy.float32) for _ in range(3))
            width = self.width(variant, size)

            def own() -> None:
                self._multipliers.multiply(operands.into(out), variant, width)

            def blas() -> None:
                self.blas.multiply(operands.into(theirs))

            self._multipliers.in_order("rows", operands.into(wanted), "float32", n)
            blas()
            checked = self._checked(own, variant, operands, (out, wanted, theirs))
            flop = 2.0 * m * n * k
            calls = max(1, min(24, round(_ROUND / (flop / _RATE + _LAUNCH))))
            graphs = [self.graph(work, calls) for work in (own, blas)]
            times = [[self.seconds(one) / calls for one in graphs] for _ in range(_ROUNDS)]
        return {
            "shape": size,
            "cut": variant.name,
            "tflops": flop / median(own for own, _ in times) / 1e12,
            "cublas": flop / median(other for _, other in times) / 1e12,
            "share": median(other / own for own, other in times),
            **checked,
        }

    def operands(self, size: tuple[int, int, int], room: int) -> Operands:
        """Return random operands, and room with zeros."""
        cupy, (m, n, k) = self._cupy, size
        left = cupy.random.standard_normal((m, k), dtype=cupy.float32)
        right = cupy.random.standard_normal((k, n), dtype=cupy.float32)
        space = cupy.zeros(room, cupy.uint8)
        return Operands(
            (left, right, space), Ends(left.data.ptr, right.data.ptr, 0, m, n, k, space.data.ptr)
        )

    def width(self, variant: Variant, size: tuple[int, int, int]) -> int:
        """Return how many columns a cut goes down at a time."""
        active = self._facts.multiprocessors * variant.resident * variant.rows * variant.columns
        return order_width(4, size[2], size[1], active, self._facts.cache)

    def _checked(
        self, own: Callable[[], None], variant: Variant, operands: Operands, results: Sequence[Any]
    ) -> dict[str, Any]:
        """Return what tells whether a result is right: bits, and errors against rounding."""
        cupy, (out, wanted, theirs) = self._cupy, results
        left, right, _ = operands.arrays
        own()
        first = out.copy()
        out.fill(cupy.nan)
        own()
        exact = left[:64].astype(cupy.float64) @ right.astype(cupy.float64)
        scale = abs(left[:64]).astype(cupy.float64) @ abs(right).astype(cupy.float64)
        sizes = (left.shape[0], right.shape[1], left.shape[1])
        in_order = shares_of(variant, *sizes, self._facts.multiprocessors).chained
        apart = 0.0 if in_order else float((abs(out - wanted) / (abs(left) @ abs(right))).max())
        return {
            "in_order": in_order,
            "bits_of_rows": bool((out == wanted).all()),
            "bits_again": bool((out == first).all()),
            "apart": apart,
            "error": float((abs(out[:64] - exact) / scale).max()),
            "error_cublas": float((abs(theirs[:64] - exact) / scale).max()),
        }

    def graph(self, work: Callable[[], None], calls: int) -> Any:
        """Return a graph of some calls, which was run once."""
        self.stream.begin_capture()
        for _ in range(calls):
            work()
        graph = self.stream.end_capture()
        graph.launch(self.stream)
        return graph

    def seconds(self, graph: Any) -> float:
        """Return the seconds that a graph takes."""
        start, stop = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        start.record(self.stream)
        graph.launch(self.stream)
        stop.record(self.stream)
        stop.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(start, stop)) / 1e3


def _summaries(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sets = {name: [one for one in figures if one["set"] == name] for name in _SETS}
    return {name: _summary(those) for name, those in sets.items() if those}


def _summary(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the worst and the median share, and the sizes at which something is not right."""
    worst = min(figures, key=lambda one: one["share"])
    return {
        "sizes": len(figures),
        "worst": worst["share"],
        "worst_at": worst["shape"],
        "median": median(one["share"] for one in figures),
        "below_0.9": sum(one["share"] < 0.9 for one in figures),
        "wrong": [one["shape"] for one in figures if not _right(one)],
    }


def lines(figures: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each figure, and the summary."""
    made = [
        f"{'x'.join(map(str, one['shape'])):18} {one['cut']:46} {one['tflops']:6.2f} TFLOP/s"
        f" {one['share']:6.3f} of {one['cublas']:6.2f}{'' if _right(one) else '  WRONG'}"
        for one in figures
    ]
    return [*made, *(f"{name}: {one}" for name, one in _summaries(figures).items())]


def _right(one: dict[str, Any]) -> bool:
    same = one["bits_of_rows"] if one["in_order"] else one["apart"] < APART
    return one["bits_again"] and same and one["error"] < APART
