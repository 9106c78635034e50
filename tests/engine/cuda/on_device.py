"""Stencils on a real device that take NumPy arrays, so that tests of all targets run there too."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from halocline_engine.device.cupy_types import cupy
from halocline_engine.functions.stencil import Stencil

__all__ = ["OnDevice"]


class OnDevice:
    """A stencil of the target 'cuda': arrays are copied to the device and back after each call."""

    def __init__(self, stencil: Stencil) -> None:
        self._stencil = stencil
        self._cupy: Any = cupy()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        copies: list[tuple[NDArray[Any], Any]] = []

        def moved(value: Any) -> Any:
            if not isinstance(value, np.ndarray):
                return value
            array = cast("NDArray[Any]", value)
            for host, device in copies:
                if host is array:
                    return device
            copies.append((array, self._cupy.array(array, order="K")))
            return copies[-1][1]

        self._stencil(*map(moved, args), **{name: moved(v) for name, v in kwargs.items()})
        for host, device in copies:
            if host.flags.writeable:
                host[...] = self._cupy.asnumpy(device)
