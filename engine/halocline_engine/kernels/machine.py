"""Machine of hand-written kernels: a CUDA device, or in tests the host.

Arrays on a machine are three-dimensional, indexed [inner, row, outer] with unit stride along the
first, dense: the same memory as a NumPy array [outer, row, inner] in C order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import AnyArray, of_device

__all__ = ["Arena", "Dim3", "Kernels", "Library", "Machine", "most_shared", "source_of"]

Dim3: TypeAlias = tuple[int, int, int]

#: Bytes of shared memory that a block may have, by compute capability; elsewhere that of any.
_SHARED: Mapping[str, int] = {
    "80": 163,
    "86": 99,
    "87": 163,
    "89": 99,
    "90": 227,
    "100": 227,
    "103": 227,
    "120": 99,
}
_ANY_SHARED = 48
_INCLUDE = re.compile(r'^#include "(.+)"\n', re.MULTILINE)


class Kernels(Protocol):
    """Compiled code that is loaded on a machine."""

    def launch(
        self, name: str, grid: Dim3, block: Dim3, arguments: tuple[np.generic, ...], shared: int = 0
    ) -> None:
        """Queue a kernel; each argument has the size and type of its parameter.

        `shared` is how many bytes of dynamic shared memory a block has.
        """
        ...

    def ready(
        self,
        name: str,
        grid: Dim3,
        block: Dim3,
        arguments: tuple[np.generic, ...],
        shared: int = 0,
        changing: Sequence[int] = (),
        *,
        follows: bool = False,
    ) -> Callable[..., None]:
        """Return what queues a kernel, given the arguments at the places `changing`, in order.

        The others, and the types of all, are those of `arguments`. Any thread may call it. With
        `follows`, the kernel waits by itself for the one before it.
        """
        ...


class Machine(Protocol):
    """A machine that runs kernels."""

    def allocate(
        self,
        size: int,
        start: Callable[[int], int],
        shape: Dim3,
        dtype: np.dtype[Any],
        strides: Dim3,
    ) -> Any:
        """Return an array in newly allocated memory; sizes and strides are in bytes.

        It begins `start(address)` bytes behind the address of the `size` bytes that are allocated.
        Contents are not defined. Raises `CapacityError` where the memory does not fit.
        """
        ...

    def address(self, array: Any) -> int:
        """Return the address of an array's element of index zero."""
        ...

    def upload(self, host: AnyArray, into: Any, threads: int = 1) -> None:
        """Copy a host array into an array of the same shape and type, with so many threads."""
        ...

    def download(self, array: Any, into: AnyArray | None = None, threads: int = 1) -> Any:
        """Return the contents in host memory, complete: a new array, or `into`."""
        ...

    @property
    def compiler(self) -> str:
        """Everything but the source that compiled code depends on: the compiler and its options."""
        ...

    def compile(self, source: str) -> bytes:
        """Compile a translation unit; raises `DeviceError` if that fails or takes too long."""
        ...

    def load(self, code: bytes) -> Kernels:
        """Load compiled code; raises `DeviceError` if the machine does not take it."""
        ...


class Arena:
    """Arrays on a machine that live as long as this, such as those of one call.

    So many `threads` copy them from and to the host.
    """

    def __init__(self, machine: Machine, threads: int = 1) -> None:
        self._machine, self._threads = machine, threads
        self._held: list[Any] = []

    def new(self, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> Any:
        """Return an array indexed as a host array [outer, row, inner]; contents not defined."""
        outer, rows, inner = shape
        item = dtype.itemsize
        made = self._machine.allocate(
            max(1, outer * rows * inner) * item,
            _at_start,
            (inner, rows, outer),
            dtype,
            (item, inner * item, rows * inner * item),
        )
        self._held.append(made)
        return made

    def put(self, host: NDArray[Any]) -> np.uint64:
        """Return the address of a copy of a host array; it may have fewer dimensions than three.

        A dense array of the device is used itself.
        """
        if of_device(host):
            self._held.append(host)
            return np.uint64(cast(Any, host).data.ptr)
        return self.address(self._copy(host))

    def brought(self, host: NDArray[Any]) -> Any:
        """Return a copy of a host array [outer, row, inner], indexed so too."""
        return self._copy(host).transpose(2, 1, 0)

    def _copy(self, host: NDArray[Any]) -> Any:
        shape = (1,) * (3 - host.ndim) + host.shape
        made = self.new((shape[0], shape[1], shape[2]), host.dtype)
        batch = np.ascontiguousarray(host).reshape(shape).transpose(2, 1, 0)
        self._machine.upload(batch, made, self._threads)
        return made

    def address(self, array: Any) -> np.uint64:
        """Return an address as kernels take it."""
        return np.uint64(self._machine.address(array))

    def get(self, array: Any) -> NDArray[Any]:
        """Return the contents as a host array [outer, row, inner]."""
        found = self._machine.download(array, None, self._threads)
        return np.ascontiguousarray(found.transpose(2, 1, 0))

    def like(self, given: NDArray[Any], array: Any) -> NDArray[Any]:
        """Return an array [outer, row, inner] where another one lies: on the host, or here."""
        return array.transpose(2, 1, 0) if of_device(given) else self.get(array)


class Library:
    """Loaded translation units of a machine by their source; `keep` may look code up on disk.

    `keep` is called with what names the code and with what makes it.
    """

    def __init__(
        self,
        machine: Machine,
        keep: Callable[[tuple[str, str], Callable[[], bytes]], bytes] | None = None,
    ) -> None:
        self._machine = machine
        self._keep = keep
        self._loaded: dict[str, Kernels] = {}
        self._files: dict[tuple[Path, tuple[tuple[str, int | str], ...]], Kernels] = {}

    def file(self, file: Path, constants: Mapping[str, int | str]) -> Kernels:
        """Return the kernels of a file with constants defined in front of it; it is read once."""
        name = (file, tuple(constants.items()))
        found = self._files.get(name)
        if found is None:
            found = self.kernels(source_of(file, **constants))
            self._files[name] = found
        return found

    def kernels(self, source: str) -> Kernels:
        """Return the kernels of a source; they are compiled when they are first asked for."""
        found = self._loaded.get(source)
        if found is None:
            found = self._machine.load(self._code(source))
            self._loaded[source] = found
        return found

    def _code(self, source: str) -> bytes:
        if self._keep is None:
            return self._machine.compile(source)
        name = (source, self._machine.compiler)
        return self._keep(name, lambda: self._machine.compile(source))


def source_of(file: Path, **constants: int | str) -> str:
    """Return a CUDA source with constants defined in front of it, and with what it includes.

    Compiled code is kept by its source, so the constants and the files beside it that it includes
    are part of its name.
    """
    lines = [f"#define {name} {value}" for name, value in constants.items()]
    text = _INCLUDE.sub(lambda found: file.with_name(found[1]).read_text(), file.read_text())
    return "\n".join((*lines, text))


def most_shared(capability: str) -> int:
    """Return the bytes of shared memory that a block may have.

    >>> most_shared("90"), most_shared("75")
    (232448, 49152)
    """
    return _SHARED.get(capability, _ANY_SHARED) * 1024


def _at_start(address: int) -> int:  # noqa: ARG001 - CUDA's allocations are aligned as they come
    return 0
