"""Time Devito, in an interpreter of its own: it wants other versions of what the project uses.

    python devito_worker.py CASE DTYPE NI NJ NK

Prints "ready", or why not; then, for each line it reads, the seconds of one step: those of its own
profile, without Python. Needs Devito and NumPy, and OMP_NUM_THREADS.
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ.update(DEVITO_LANGUAGE="openmp", DEVITO_LOGGING="ERROR")
_STEPS = 4


def tuned(made: Any) -> dict[str, int]:
    """Return what Devito's tuner finds before it runs; it forgets that after a call.

    There is nothing to tune in 2-D.
    """
    made.apply(time_m=0, time_M=_STEPS - 1, autotune=("aggressive", "preemptive"))
    found: Any = made._state.get("autotuning")
    return dict(found[-1].get("tuned", {})) if found else {}


def operator(dtype: str, shape: tuple[int, ...]) -> Any:
    """Return an operator that makes some steps, as Devito's users write it."""
    import devito  # pyright: ignore[reportMissingImports] # not the project's
    import numpy as np

    library: Any = devito
    grid = library.Grid(shape=shape, dtype=np.dtype(dtype).type)
    u = library.TimeFunction(name="u", grid=grid, space_order=2, time_order=1)
    near = u
    for dimension in grid.dimensions:
        near = near + u.subs(dimension, dimension - dimension.spacing)
        near = near + u.subs(dimension, dimension + dimension.spacing)
    weight = library.Constant(name="w", dtype=np.dtype(dtype).type, value=1 / (1 + 2 * len(shape)))
    u.data[:] = np.random.default_rng(1).random(shape)
    return library.Operator([library.Eq(u.forward, weight * near)], subs=grid.spacing_map)


def main(arguments: list[str]) -> int:
    name, dtype, *sizes = arguments
    if name not in ("2d5pt", "3d7pt"):
        print("it was not asked to choose between values or to solve along columns", flush=True)
        return 1
    try:
        ni, nj, nk = map(int, sizes)
        made = operator(dtype, (nj, ni) if nk == 1 else (nk, nj, ni))
        blocks = tuned(made)
    except Exception as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0], flush=True)
        return 1
    print("ready", flush=True)
    for _ in sys.stdin:
        summary = made.apply(time_m=0, time_M=_STEPS - 1, autotune=False, **blocks)
        print(sum(entry.time for entry in summary.values()) / _STEPS, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
