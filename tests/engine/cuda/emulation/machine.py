"""A machine that runs generated CUDA on the host, compiled by g++ against a small header.

Everything but the device itself is the real thing: the text, the packing of arguments, the launch
geometry and the layout of memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.cuda.build import CudaBackend
from halocline_engine.backends.cuda.launch import Dim3
from halocline_engine.backends.cuda.run import CudaExecutable
from halocline_engine.cache import Cache
from halocline_engine.schedule.nodes import Schedule

__all__ = ["ABSENT", "EmulatedArtifact", "EmulatedKernels", "EmulatedMachine", "compiler"]

HEADER = Path(__file__).with_name("cuda_emulation.h")
#: -fwrapv is not set: the code may not depend on it. Nothing contracts to fused operations.
OPTIONS = (
    "-std=c++17",
    "-O1",
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

_KERNEL = re.compile(r"__launch_bounds__\(\d+\) (\w+)\(")


def compiler() -> str | None:
    """Return where g++ is, or None."""
    return shutil.which("g++")


class EmulatedKernels:
    """A shared library of kernels; `descending` runs the threads from the last to the first."""

    def __init__(self, path: Path, *, descending: bool) -> None:
        self._library = ctypes.CDLL(str(path))
        self._descending = descending
        self.launched: list[tuple[str, Dim3, Dim3]] = []

    def launch(self, name: str, grid: Dim3, block: Dim3, arguments: tuple[np.generic, ...]) -> None:
        sizes = (ctypes.c_uint * 1024)()
        count = self._library[f"sizes_{name}"](sizes)
        assert [a.dtype.itemsize for a in arguments] == list(sizes[:count]), name
        assert all(0 < n <= most for n, most in zip(grid, (2**31 - 1, 65535, 65535), strict=True))
        values = [np.array(argument) for argument in arguments]
        places = [value.__array_interface__["data"][0] for value in values]
        pointers = (ctypes.c_void_p * len(places))(*places)
        ctypes.c_int.in_dll(self._library, "emulation_order").value = int(self._descending)
        triple = ctypes.c_uint * 3
        self._library[f"launch_{name}"](triple(*grid), triple(*block), pointers)
        self.launched.append((name, grid, block))


@dataclass(frozen=True, slots=True)
class EmulatedArtifact:
    """`backends.base.Artifact` of a schedule, for a Stencil whose target is one of the host's.

    Code is kept in `folder`, which tests of one run share.
    """

    schedule: Schedule
    folder: Path
    descending: bool = False

    @property
    def source(self) -> str:
        return CudaBackend().build(self.schedule).source

    def load(self) -> CudaExecutable:
        machine = EmulatedMachine(self.folder / "loaded", descending=self.descending)
        return CudaExecutable(self.schedule, machine, Cache(self.folder / "compiled"))


class EmulatedMachine:
    """`backends.cuda.machine.Machine` on the host; loaded libraries lie in `folder`."""

    def __init__(self, folder: Path, *, descending: bool = False) -> None:
        self._folder = folder
        self._descending = descending
        self.sources: list[str] = []
        self.loaded: list[EmulatedKernels] = []

    def allocate(
        self,
        size: int,
        start: Callable[[int], int],
        shape: tuple[int, int, int],
        dtype: np.dtype[Any],
        strides: tuple[int, int, int],
    ) -> NDArray[Any]:
        """Return an array of set bits, which are NaN where they are floats."""
        room = np.full(size, 0xFF, np.uint8)
        return np.ndarray(shape, dtype, room.data, start(self.address(room)), strides)

    def address(self, array: NDArray[Any]) -> int:
        return int(array.__array_interface__["data"][0])

    def upload(self, host: NDArray[Any], into: NDArray[Any]) -> None:
        np.copyto(into, host, casting="no")

    def download(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy()

    @property
    def compiler(self) -> str:
        return "\n".join((*OPTIONS, HEADER.read_text()))

    def compile(self, source: str) -> bytes:
        """Return a shared library; the text that it was made from is kept in `sources`."""
        self.sources.append(source)
        entries = "".join(f"EMULATION_ENTRY({name})\n" for name in _KERNEL.findall(source))
        return _build(f'#include "{HEADER}"\n{source}\n{entries}')

    def load(self, code: bytes) -> EmulatedKernels:
        path = self._folder / f"{hashlib.sha256(code).hexdigest()[:24]}.so"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(code)
        kernels = EmulatedKernels(path, descending=self._descending)
        self.loaded.append(kernels)
        return kernels


def _build(text: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.so"
        command = [compiler() or "g++", *OPTIONS, "-", "-o", str(path)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{text}"
        return path.read_bytes()
