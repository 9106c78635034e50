"""Regridding on a device: products by rows and in slices, beside SciPy's on the host."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from indirect_bench import Bench
from indirect_verdicts import USUAL, Figure

from halocline_engine.kernels.indirect.apply import PRODUCT_LEVELS
from halocline_engine.kernels.indirect.emit import Product, emit_product
from halocline_engine.kernels.indirect.sparse import Form, Sparse, sliced, sparse

__all__ = ["regrids"]


def conservative(fine: int, coarse: int) -> Sparse:
    """Return conservative weights between regular grids whose cells divide each other."""
    ratio = fine // coarse
    lat = np.diff(np.sin(np.radians(np.linspace(-90, 90, fine + 1))))
    rows: list[Any] = []
    for row in range(coarse):
        share = lat[row * ratio : (row + 1) * ratio]
        rows.append(share / share.sum() / ratio)
    weight = np.repeat(np.stack(rows)[:, None, :, None], 2 * coarse, axis=1)
    weight = np.repeat(weight, ratio, axis=3)
    j, i, a, b = np.ogrid[:coarse, : 2 * coarse, :ratio, :ratio]
    row = np.broadcast_to(j * 2 * coarse + i, weight.shape)
    column = (j * ratio + a) * 2 * fine + i * ratio + b
    cells = (2 * coarse * coarse, 2 * fine * fine)
    return sparse(row.ravel(), column.ravel(), weight.ravel(), *cells)


def regrids(bench: Bench) -> Iterator[Figure]:
    """0.25 degree to 1 degree with 100 levels."""
    cupy, small = bench.cupy, bench.bytes < 2**28
    matrix = conservative(24, 6) if small else conservative(720, 180)
    batch = 9 if small else 100
    parts = [cupy.asarray(a) for a in (matrix.starts, matrix.columns, matrix.weights)]
    for dtype in ("float32", "float64"):
        if not bench.time_for(f"regrid {dtype}"):
            continue
        field = cupy.random.uniform(200, 300, (batch, matrix.cells)).astype(dtype)
        out = cupy.zeros((batch, matrix.rows), dtype)
        moved = field.nbytes + out.nbytes + sum(part.nbytes for part in parts)
        wanted, seconds = of_scipy(matrix, cupy.asnumpy(field))
        shape = (matrix.rows, matrix.cells, batch)
        inside = sliced(matrix, 16 // field.itemsize)
        assert inside is not None
        own = Product(dtype, Form.PLAIN, False, 32, PRODUCT_LEVELS[dtype], block=inside.block)
        apart = (inside.offsets, inside.lengths, inside.columns, inside.weights)
        held = {0: parts, inside.block: [cupy.asarray(array) for array in apart]}
        shapes = [(0, 4, 128), (0, 16, 64)]
        shapes += [(inside.block, n, threads) for n in (2, 4, 8) for threads in (64, 128, 256)]
        products = [
            replace(own, renormalise=renormalise, levels=count, threads=threads, block=block)
            for block, count, threads in shapes
            for renormalise in (False, True)
        ]
        bench.compile([emit_product([one]) for one in products])
        for one in products:
            addresses = [array.data.ptr for array in (field, out, *held[one.block])]

            def work(
                one: Product = one,
                addresses: list[int] = addresses,
                shape: tuple[int, int, int] = shape,
            ) -> None:
                bench.movers.product(one, addresses, shape, 0.0)

            work()
            error = float(np.abs(cupy.asnumpy(out) - wanted).max() / 300)
            assert error < (1e-14 if dtype == "float64" else 1e-7), error
            how = f"block {one.block}, levels {one.levels}, threads {one.threads}"
            how += ", renormalised" if one.renormalise else ""
            how = f"{USUAL}, {how}" if replace(one, renormalise=False) == own else how
            yield Figure("regrid", dtype, how, *bench.share(moved, work))
        yield Figure("regrid", dtype, "SciPy on the host", seconds * 1e3, 0.0)
        del field, out, held
        bench.free()


def of_scipy(matrix: Sparse, field: Any) -> tuple[Any, float]:
    """Return SciPy's product and its best time of three."""
    scipy_sparse: Any = importlib.import_module("scipy.sparse")
    shape = (matrix.rows, matrix.cells)
    whole = scipy_sparse.csr_matrix((matrix.weights, matrix.columns, matrix.starts), shape)
    turned = np.ascontiguousarray(field.T)
    times: list[float] = []
    found: Any = None
    for _ in range(3):
        start = time.perf_counter()
        found = whole @ turned
        times.append(time.perf_counter() - start)
    return found.T, min(times)
