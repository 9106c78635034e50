"""Time solves of the `cpu` target beside SciPy's; prints one table.

    python tests/benchmarks/cpu_solves.py [--result RESULT.json] [--commit COMMIT]
        [--rows 2000000] [--cells 200] [--rounds 7]

SciPy is used as its authors advise: a batch of tridiagonal systems is one call of `solve_banded`,
with zeros between one system and the next, and inputs that it may overwrite are copied outside of
the clock; where systems lie side by side, its user must put them in order first, and back. Trees
are one sparse matrix, children before parents, so that eliminating fills nothing in, and are
factored and solved by SuperLU. Halocline uses as many threads as NUMBA_NUM_THREADS says, SciPy one,
and Halocline looks for systems without a solution besides. All take turns; the median counts.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from processors import processor, threads
from solves_trees import MORPHOLOGIES, ROOT, batch_of

from halocline_engine.kernels.tree import cpu as trees
from halocline_engine.kernels.tree.topology import Forest
from halocline_engine.kernels.tridiagonal import cpu as tridiagonal

Array = NDArray[np.float64]
#: Something that is timed, and what is done before it outside of the clock.
Contender = tuple[Callable[[], object], Callable[[], Any]]

_linalg: Any = importlib.import_module("scipy.linalg")
_sparse: Any = importlib.import_module("scipy.sparse")
_superlu: Any = importlib.import_module("scipy.sparse.linalg")
ROWS = (20, 80, 512)
CLOSE = 1e-12
SCIPY = importlib.metadata.version("scipy")


@dataclass(frozen=True)
class SolveFigure:
    """Milliseconds of both, and how many times as long SciPy takes."""

    case: str
    ours: float
    scipy: float
    times: float


def banded(rows: int, total: int, *, side_by_side: bool, rounds: int) -> SolveFigure:
    """Solve a batch of dominant systems, whose rows or whose systems are neighbours in memory."""
    rng = np.random.default_rng(rows)
    shape = (1, rows, total // rows) if side_by_side else (total // rows, rows, 1)
    lower, upper, rhs = (rng.uniform(-1, 1, shape) for _ in range(3))
    diagonal = 3 + rng.random(shape)
    found: list[Array] = [np.full(shape, np.nan)]

    def ours() -> None:
        found[0] = tridiagonal.solve(lower, diagonal, upper, rhs).solution

    bands = np.zeros((3, rhs.size))
    right = np.empty(rhs.size)
    theirs: list[Array] = [right]

    def ordered(source: Array) -> Array:
        return np.moveaxis(source, 1, 2).reshape(-1, rows)

    def fill() -> None:
        above, below = bands[0].reshape(-1, rows), bands[2].reshape(-1, rows)
        above[:, 1:] = ordered(upper)[:, :-1]
        bands[1] = ordered(diagonal).reshape(-1)
        below[:, :-1] = ordered(lower)[:, 1:]
        right[:] = ordered(rhs).reshape(-1)

    def scipys() -> None:
        if side_by_side:
            fill()
        solution = _linalg.solve_banded(
            (1, 1), bands, right, overwrite_ab=True, overwrite_b=True, check_finite=False
        )
        theirs[0] = (
            np.ascontiguousarray(solution.reshape(-1, rows).T).reshape(shape)
            if side_by_side
            else solution.reshape(shape)
        )

    before: Callable[[], Any] = nothing if side_by_side else fill
    seconds = in_turns({"ours": (ours, nothing), "scipy": (scipys, before)}, rounds)
    np.testing.assert_allclose(found[0], theirs[0], rtol=CLOSE, atol=CLOSE)
    lies = "side by side" if side_by_side else "one behind the other"
    return figure(f"{shape[0] * shape[2]} systems of {rows} rows, {lies}", seconds)


def cells(files: Sequence[Path], count: int, rounds: int) -> SolveFigure:
    """Solve the systems of real morphologies, one behind the other until there are enough."""
    forest, (diagonal, upper, rhs) = batch_of(files, count)
    layout = forest.layout
    absolute = layout.offsets[layout.owners()] + forest.parents
    found = np.full_like(rhs, np.nan)

    def ours() -> None:
        trees.strided(layout.offsets[:-1], 1, layout.sizes, absolute, (diagonal, upper, rhs), found)

    matrix = symmetric(forest, absolute, diagonal, upper)
    theirs: list[Array] = [found]

    def scipys() -> None:
        factors = _superlu.splu(
            matrix,
            permc_spec="NATURAL",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True, "Equil": False},
        )
        theirs[0] = factors.solve(rhs[::-1])[::-1]

    seconds = in_turns({"ours": (ours, nothing), "scipy": (scipys, nothing)}, rounds)
    np.testing.assert_allclose(found, theirs[0], rtol=CLOSE, atol=CLOSE)
    return figure(f"{count} cells, {layout.total} nodes", seconds)


def symmetric(forest: Forest, absolute: NDArray[np.int64], diagonal: Array, upper: Array) -> Any:
    """Return the matrix of all cells with the last node first: children before parents."""
    size = forest.layout.total
    inner = np.flatnonzero(forest.layout.local() > 0)
    rows = size - 1 - np.concatenate([np.arange(size), inner, absolute[inner]])
    columns = size - 1 - np.concatenate([np.arange(size), absolute[inner], inner])
    values = np.concatenate([diagonal, upper[inner], upper[inner]])
    return _sparse.csc_matrix((values, (rows, columns)), (size, size))


def nothing() -> None:
    """Do nothing before the clock starts."""


def in_turns(runs: dict[str, Contender], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each round; the first, in which code is compiled, does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, (work, before) in runs.items():
            before()
            began = perf_counter()
            work()
            if number:
                seconds[name].append(perf_counter() - began)
    return seconds


def figure(case: str, seconds: dict[str, list[float]]) -> SolveFigure:
    """Return the medians."""
    pairs = zip(seconds["scipy"], seconds["ours"], strict=True)
    own, other = (median(seconds[name]) * 1e3 for name in ("ours", "scipy"))
    return SolveFigure(case, own, other, median(theirs / ours for theirs, ours in pairs))


def figures(total: int, count: int, rounds: int) -> Iterator[SolveFigure]:
    """Yield all cases."""
    for rows in ROWS:
        for side_by_side in (False, True):
            yield banded(rows, total, side_by_side=side_by_side, rounds=rounds)
    folder = next((ROOT / name for name in MORPHOLOGIES if (ROOT / name).is_dir()), None)
    if folder is None:
        print("the morphologies are not here")
        return
    yield cells(sorted(folder.glob("*.swc")), count, rounds)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Time solves of the cpu target beside SciPy's.")
    parser.add_argument("--result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of all systems together")
    parser.add_argument("--cells", type=int, default=200, help="cells of the ragged batch")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    print(f"{processor()}, {threads()} threads, SciPy {SCIPY}")
    print(f"{'case':48}{'ours, ms':>10}{'SciPy, ms':>11}{'times':>7}")
    found: list[SolveFigure] = []
    for one in figures(options.rows, options.cells, options.rounds):
        found.append(one)
        print(f"{one.case:48}{one.ours:10.2f}{one.scipy:11.2f}{one.times:7.2f}", flush=True)
    if options.result:
        record = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": options.commit,
            "processor": processor(),
            "threads": threads(),
            "versions": {"scipy": SCIPY, "numba": numba.__version__},
            "figures": [asdict(one) for one in found],
        }
        options.result.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
