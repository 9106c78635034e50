"""Compiled code that is loaded on the current device."""

from __future__ import annotations

import numpy as np

from halocline_engine.device.door import Function, cupy
from halocline_engine.errors import DeviceError

__all__ = ["DeviceKernels"]


class DeviceKernels:
    """The kernels of one translation unit, loaded on the device that was current at its making."""

    def __init__(self, cubin: bytes) -> None:
        cuda = cupy().cuda
        self._failure = cuda.driver.CUDADriverError
        self._module = cuda.function.Module()
        try:
            self._module.load(cubin)
        except self._failure as error:
            raise DeviceError(f"The device did not load compiled code: {error}.") from error
        self._functions: dict[str, Function] = {}

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: tuple[np.generic, ...],
    ) -> None:
        """Queue a kernel on the current stream; raises `DeviceError` if that fails."""
        try:
            function = self._functions.get(name)
            if function is None:
                function = self._module.get_function(name)
                self._functions[name] = function
            function(grid, block, arguments)
        except self._failure as error:
            raise DeviceError(f"Kernel '{name}' could not be launched: {error}.") from error
