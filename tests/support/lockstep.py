"""A machine that runs kernels with barriers and shuffles on the host; see `lockstep.h`."""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ABSENT", "LockstepKernels", "LockstepMachine", "compiler"]

HEADER = Path(__file__).with_name("lockstep.h")
OPTIONS = (
    "-std=c++17",
    "-O0",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-x",
    "c++",
    "-Wall",
    "-Werror",
    "-Wno-unknown-pragmas",
)
ABSENT = "g++ is not installed, and emulated CUDA is compiled with it"

_KERNEL = re.compile(r"__launch_bounds__\(\w+\)\s+(\w+)\(")

Triple = tuple[int, int, int]


def compiler() -> str | None:
    """Return where g++ is, or None."""
    return shutil.which("g++")


class LockstepKernels:
    """A shared library of kernels; the most shared memory is that of the largest devices."""

    most_shared = 227 * 1024

    def __init__(self, path: Path, *, descending: bool) -> None:
        self._library = ctypes.CDLL(str(path))
        self._descending = descending
        self.launched: list[tuple[str, Triple, Triple, int]] = []

    def launch(
        self,
        name: str,
        grid: Triple,
        block: Triple,
        arguments: tuple[np.generic, ...],
        shared: int = 0,
    ) -> None:
        assert shared <= self.most_shared
        sizes = (ctypes.c_uint * 64)()
        count = self._library[f"sizes_{name}"](sizes)
        assert [a.dtype.itemsize for a in arguments] == list(sizes[:count]), name
        assert all(0 < n <= most for n, most in zip(grid, (2**31 - 1, 65535, 65535), strict=True))
        values = [np.array(argument) for argument in arguments]
        places = [value.__array_interface__["data"][0] for value in values]
        pointers = (ctypes.c_void_p * len(places))(*places)
        ctypes.c_int.in_dll(self._library, "lockstep_descending").value = int(self._descending)
        triple = ctypes.c_uint * 3
        self._library[f"launch_{name}"](triple(*grid), triple(*block), pointers)
        self.launched.append((name, grid, block, shared))


class LockstepMachine:
    """`kernels.machine.Machine` on the host; libraries lie in `folder` and are made once."""

    def __init__(self, folder: Path, *, descending: bool = False) -> None:
        self._folder = folder
        self._descending = descending
        self.loaded: list[LockstepKernels] = []

    def allocate(
        self,
        size: int,
        start: Callable[[int], int],
        shape: Triple,
        dtype: np.dtype[Any],
        strides: Triple,
    ) -> NDArray[Any]:
        """Return an array of set bits, which are NaN where they are floats."""
        room = np.full(size, 0xFF, np.uint8)
        return np.ndarray(shape, dtype, room.data, start(self.address(room)), strides)

    def address(self, array: NDArray[Any]) -> int:
        return int(array.__array_interface__["data"][0])

    def upload(self, host: NDArray[Any], into: NDArray[Any]) -> None:
        np.copyto(into, host, casting="no")

    def download(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy(order="F")

    @property
    def compiler(self) -> str:
        return "\n".join((*OPTIONS, HEADER.read_text()))

    def compile(self, source: str) -> bytes:
        entries = "".join(f"LOCKSTEP_ENTRY({name})\n" for name in _KERNEL.findall(source))
        text = f'#include "{HEADER}"\n{source}\n{entries}'
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.made.so"
        if not path.exists():
            command = [compiler() or "g++", *OPTIONS, "-", "-o", str(path)]
            done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return path.read_bytes()

    def load(self, code: bytes) -> LockstepKernels:
        path = self._folder / f"{hashlib.sha256(code).hexdigest()[:24]}.so"
        if not path.exists():
            path.write_bytes(code)
        kernels = LockstepKernels(path, descending=self._descending)
        self.loaded.append(kernels)
        return kernels
