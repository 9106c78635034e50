"""Exact sums and extremes on the targets that users name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.targets import HOST_TARGET
from halocline_engine.kernels.reduce import cpu, reference
from halocline_engine.kernels.reduce.states import States

__all__ = ["Reducer", "reducer_on"]


@dataclass(frozen=True, slots=True)
class Reducer:
    """Kernels of a target; see `kernels.reduce.reference`."""

    add_up: Callable[..., States]
    find_extremes: Callable[..., States]
    round_sums: Callable[[States], NDArray[np.float64]]


def reducer_on(target: str) -> Reducer:
    """Return the kernels of a target; arrays of the host are reduced on its cores."""
    if target != HOST_TARGET:
        return Reducer(reference.add_up, reference.find_extremes, reference.round_sums)
    threads = int(cast("Any", numba).get_num_threads())
    add_up = partial(cpu.add_up, threads=threads)
    return Reducer(add_up, partial(cpu.find_extremes, threads=threads), cpu.round_sums)
