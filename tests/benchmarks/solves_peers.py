"""What else solves batches of tridiagonal systems on a device: cuSPARSE and JAX."""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from solves_figures import PEER, Figure

from halocline_engine.kernels.tridiagonal.launching import Layout

__all__ = ["Timer", "cusparse_solves", "jax_solves"]

#: Thomas's algorithm without pivoting, as the engine does it.
_THOMAS = 0


class Timer(Protocol):
    """What times; `gpu_solves.Bench` is one."""

    cupy: Any

    def share(
        self,
        moved: int,
        dtype: str,
        work: Callable[[], object],
        restore: Callable[[], object] | None = None,
    ) -> tuple[float, float]:
        """Return milliseconds and the share of the copy bandwidth."""
        ...

    def check(self, bands: Sequence[Any], x: Any, dtype: str) -> None:
        """Raise `AssertionError` where solutions miss their equations."""
        ...


def cusparse_solves(
    bench: Timer, layout: Layout, bands: Sequence[Any], *, interleaved: bool
) -> Iterator[Figure]:
    """Yield how fast cuSPARSE is, and what restoring the inputs that it destroys costs."""
    part = "interleaved" if interleaved else "contiguous"
    case = f"{layout.rows} rows {layout.dtype}"
    library = _cusparse(bench.cupy)
    if library is None:
        print("cuSPARSE is not found")
        return
    given = [band.copy() for band in bands]
    # The elements outside of the matrix must be zero.
    bands[0][:, 0] = 0
    bands[2][:, -1] = 0

    def restore() -> None:
        for copy, band in zip(given, bands, strict=True):
            bench.cupy.copyto(copy, band)

    work = _call(library, bench.cupy, layout, given, interleaved=interleaved)
    restore()
    work()
    bench.check(bands, given[3], layout.dtype)
    moved = 5 * bands[3].nbytes
    name = "gtsvInterleavedBatch" if interleaved else "gtsv2StridedBatch"
    figures = bench.share(moved, layout.dtype, work, restore)
    yield Figure(part, case, f"{PEER} cuSPARSE {name}", *figures)
    copies = bench.share(8 * bands[3].nbytes, layout.dtype, restore)
    yield Figure(part, case, "restoring cuSPARSE's inputs (not counted)", *copies)


def _cusparse(cupy: Any) -> ctypes.CDLL | None:
    """Return the library that CuPy has loaded or that stands beside NumPy or CUDA."""
    packages = Path(np.__file__).parent.parent
    folders = (packages / "nvidia", *Path("/usr/local").glob("cuda*"))
    paths = [path for folder in folders for path in sorted(folder.rglob("libcusparse.so*"))]
    version = cupy.cuda.runtime.runtimeGetVersion() // 1000
    for name in (*map(str, paths), "libcusparse.so.12", "libcusparse.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    print(f"no libcusparse for CUDA {version}")
    return None


def _call(
    library: ctypes.CDLL, cupy: Any, layout: Layout, arrays: Sequence[Any], *, interleaved: bool
) -> Callable[[], None]:
    """Return what solves `arrays` in their place."""
    handle = ctypes.c_void_p()
    _well(library.cusparseCreate(ctypes.byref(handle)))
    _well(library.cusparseSetStream(handle, ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)))
    letter = "D" if layout.dtype == "float64" else "S"
    name = "gtsvInterleavedBatch" if interleaved else "gtsv2StridedBatch"
    size_of = library[f"cusparse{letter}{name}_bufferSizeExt"]
    solve = library[f"cusparse{letter}{name}"]
    rows, systems = ctypes.c_int(layout.rows), ctypes.c_int(layout.systems)
    places = [ctypes.c_void_p(array.data.ptr) for array in arrays]
    before = (ctypes.c_int(_THOMAS), rows) if interleaved else (rows,)
    behind = (systems,) if interleaved else (systems, rows)
    size = ctypes.c_size_t()
    _well(size_of(handle, *before, *places, *behind, ctypes.byref(size)))
    buffer = cupy.empty(max(size.value, 128), np.uint8)

    def work() -> None:
        _well(solve(handle, *before, *places, *behind, ctypes.c_void_p(buffer.data.ptr)))

    return work


def _well(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"cuSPARSE failed with status {status}.")


def jax_solves(bench: Timer, layout: Layout, bands: Sequence[Any]) -> Iterator[Figure]:
    """Yield how fast JAX is on a quarter of the batch, where it is installed."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        jax: Any = importlib.import_module("jax")
    except ImportError:
        print("JAX is not installed")
        return
    jax.config.update("jax_enable_x64", True)
    quarter = max(1, layout.outer // 4)
    arrays = [jax.dlpack.from_dlpack(band[:quarter, :, 0]) for band in bands]
    arrays[3] = arrays[3][..., None]
    solve = jax.jit(jax.lax.linalg.tridiagonal_solve)

    def work() -> None:
        solve(*arrays).block_until_ready()

    x = bench.cupy.from_dlpack(solve(*arrays))
    bench.check([band[:quarter] for band in bands], x, layout.dtype)
    moved = 5 * bands[3][:quarter].nbytes
    figures = bench.share(moved, layout.dtype, work)
    case = f"{layout.rows} rows {layout.dtype}"
    yield Figure("contiguous", case, f"{PEER} JAX, a quarter of the batch", *figures)
