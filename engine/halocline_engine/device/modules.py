"""Compiled code that is loaded on the current device."""

from __future__ import annotations

import numpy as np

from halocline_engine.device.door import Function, cupy
from halocline_engine.errors import DeviceError

__all__ = ["DeviceKernels"]

#: Bytes of dynamic shared memory that a kernel may have unasked.
_USUAL_SHARED = 48 * 1024
#: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES of the CUDA driver API.
_MAX_DYNAMIC_SHARED = 8


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
        self._driver = cuda.driver
        self._functions: dict[str, Function] = {}
        self._shared: dict[str, int] = {}

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: tuple[np.generic, ...],
        shared: int = 0,
    ) -> None:
        """Queue a kernel on the current stream; raises `DeviceError` if that fails.

        `shared` is how many bytes of dynamic shared memory a block has.
        """
        try:
            function = self._functions.get(name)
            if function is None:
                function = self._module.get_function(name)
                self._functions[name] = function
            if shared > self._shared.get(name, _USUAL_SHARED):
                self._driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED, shared)
                self._shared[name] = shared
            function(grid, block, arguments, shared)
        except self._failure as error:
            raise DeviceError(f"Kernel '{name}' could not be launched: {error}.") from error
