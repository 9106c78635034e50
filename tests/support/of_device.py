"""What arrays of CuPy are to xarray and NumPy, on the host; and the emulated machine with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from emulation.machine import EmulatedMachine
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

__all__ = ["MachineOfDevice", "OfDevice"]


class OfDevice(NDArrayOperatorsMixin):
    """No array of the host unless `get` is called, and none that others may be mixed with."""

    def __init__(self, values: NDArray[Any], gets: list[int] | None = None) -> None:
        self.held = values
        self.gets: list[int] = [] if gets is None else gets

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.held.shape, "typestr": self.held.dtype.str, "version": 3}

    @property
    def data(self) -> SimpleNamespace:
        return SimpleNamespace(ptr=int(self.held.__array_interface__["data"][0]))

    @property
    def flags(self) -> Any:
        return self.held.flags

    @property
    def shape(self) -> tuple[int, ...]:
        return self.held.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.held.strides

    @property
    def ndim(self) -> int:
        return self.held.ndim

    @property
    def nbytes(self) -> int:
        return self.held.nbytes

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.held.dtype

    def get(self) -> NDArray[Any]:
        self.gets.append(self.held.nbytes)
        return self.held.copy()

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_function__(self, function: Any, _: Any, given: Any, named: Any) -> Any:
        return self._like(function(*_bare(given), **_bare(named)))

    def __array_ufunc__(self, function: Any, how: str, *given: Any, **named: Any) -> Any:
        out = named.get("out")
        made = getattr(function, how)(*_bare(given), **_bare(named))
        return self._like(made) if out is None else out[0]

    def __getitem__(self, index: Any) -> OfDevice:
        return self._like(self.held[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.held[_bare(index)] = _bare(value)

    def __len__(self) -> int:
        return len(self.held)

    def __getattr__(self, name: str) -> Any:
        """Return a method of arrays that makes one of them."""
        if name not in ("all", "any", "astype", "copy", "max", "reshape", "squeeze", "transpose"):
            raise AttributeError(name)
        method = getattr(self.held, name)

        def made(*given: Any, **named: Any) -> Any:
            return self._like(method(*given, **named))

        return made

    def _like(self, values: Any) -> Any:
        of_host = isinstance(values, (np.ndarray, np.generic))
        return OfDevice(np.asarray(cast(Any, values)), self.gets) if of_host else values


class MachineOfDevice(EmulatedMachine):
    """The emulated machine, whose arrays are of this kind."""

    def allocate(self, size: int, start: Any, shape: Any, dtype: Any, strides: Any) -> Any:
        return OfDevice(super().allocate(size, start, shape, dtype, strides))

    def address(self, array: Any) -> int:
        return super().address(_bare_one(array))

    def upload(self, host: Any, into: Any, threads: int = 1) -> None:
        super().upload(host, _bare_one(into), threads)

    def download(self, array: Any, into: Any = None, threads: int = 1) -> Any:
        return super().download(_bare_one(array), into, threads)


def _bare_one(array: Any) -> Any:
    return array.held if isinstance(array, OfDevice) else array


def _bare(given: Any) -> Any:
    if type(given) in (list, tuple):
        return type(given)([_bare(one) for one in given])
    if type(given) is dict:
        return {name: _bare(one) for name, one in cast("dict[str, Any]", given).items()}
    if isinstance(given, OfDevice):
        return given.held
    if isinstance(given, np.ndarray) and cast("NDArray[Any]", given).ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>.")
    return cast(Any, given)
