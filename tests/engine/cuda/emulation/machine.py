"""A machine that runs CUDA on the host, compiled by g++ against two small headers.

Everything but the device itself is the real thing: the text, the packing of arguments, the launch
geometry and the layout of memory.

Generated code runs through `EmulatedMachine` as `backends.cuda.runtime.machine.Machine`. A source
of one's own, with templates and `extern "C"` kernels, runs through `run`, on NumPy arrays in place:

    machine = EmulatedMachine(emulation_folder, descending=True)
    machine.run(text, "kernel", (2, 1, 1), (64, 1, 1), array, np.int32(7), shared=1024)

An array is passed as its address; every other argument is a NumPy scalar with the type of its
parameter. A run raises `EmulationError` where the kernel does what no device lets through: a
barrier that not all threads of a block reach, lanes of a mask that do not come, a copy that nobody
waited for, a write behind dynamic shared memory, a vector access at a wrong address. What two
threads do without a barrier between them shows as wrong values in some order of threads, so such
kernels are run in all three: ascending, `descending=True`, and mixed up by a number,
`shuffled=1`.

What there is: static `__shared__` arrays inside functions and one `extern __shared__` array, all
NaN when a block begins; `__syncthreads` (also `_count`, `_or`, `_and`), `__syncwarp`, shuffles,
ballots; loads and stores with cache hints, vector types, atomics, fences. Beyond CUDA's own names
there are those of `backends.cuda.text.async_copies`: `copy_async4/8/16(shared, global)` and their
`copy_async_commit()`, `copy_async_wait<N>()`, `copy_async_wait_all()`; barriers of some warps,
`named_sync(number, threads)` and `named_arrive(number, threads)`. A wrong index into static arrays
is not seen.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from kept import kept
from numpy.typing import NDArray

from halocline_engine.backends.base import Overlap, Repetition
from halocline_engine.backends.cuda.build import CudaBackend
from halocline_engine.backends.cuda.kernels.choose import tile_for
from halocline_engine.backends.cuda.model.entries import H200_CACHE, Entry, Variant
from halocline_engine.backends.cuda.model.launch import Dim3
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.cache import Cache, key_of
from halocline_engine.copies import AnyArray, copy_slabs
from halocline_engine.schedule.nodes import Schedule

__all__ = [
    "ABSENT",
    "EmulatedArtifact",
    "EmulatedKernels",
    "EmulatedMachine",
    "EmulationError",
    "compiler",
]

HEADERS = tuple(Path(__file__).with_name(n) for n in ("cuda_emulation.h", "cooperation.h"))
#: -fwrapv is not set: the code may not depend on it. Nothing contracts to fused operations.
#: Fibers jump between stacks, which a checked `longjmp` takes for a mistake.
OPTIONS = (
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-U_FORTIFY_SOURCE",
    "-x",
    "c++",
    "-Wall",
    "-Werror",
    "-Wno-unknown-pragmas",
    "-Wno-unused-but-set-variable",
    "-Wno-unused-function",
    "-Wno-maybe-uninitialized",
    "-Wno-tautological-compare",
)
ABSENT = "g++ is not installed, and emulated CUDA is compiled with it"
#: The most dynamic shared memory of a block.
SHARED_LIMIT = 227 * 1024

_BOUNDS = r"(?:__launch_bounds__\s*\([^()]*\)\s*)?"
_KERNEL = re.compile(rf"__global__\s+{_BOUNDS}void\s+{_BOUNDS}(\w+)\s*\(")
#: What only threads that work together use.
_TOGETHER = re.compile(
    r"__shared__|__sync|_sync\s*\(|copy_async|__activemask|named_(sync|arrive)|barrier_"
)
_ALIGNED = r"(?:(?:__align__|alignas)\s*\([^()]*\)\s*)?"
_DYNAMIC = re.compile(
    rf"extern\s+({_ALIGNED})__shared__\s+({_ALIGNED})([^;]+?)\b(\w+)\s*\[\s*\]\s*;"
)
#: A place that is read or written as something of another type.
_CAST = re.compile(r"reinterpret_cast<((?:const )?\w+Pack<[^>]*>) \*>\(")
_STATIC = re.compile(rf"__shared__\s+({_ALIGNED})([^;]+);")


class EmulationError(AssertionError):
    """A kernel did what no device lets through."""


def compiler() -> str | None:
    """Return where g++ is, or None."""
    return shutil.which("g++")


class EmulatedKernels:
    """A shared library of kernels; `order` is that of the threads, as the header has it."""

    def __init__(self, path: Path, order: int) -> None:
        self._library = ctypes.CDLL(str(path))
        self._order = order
        self.launched: list[tuple[str, Dim3, Dim3]] = []

    def launch(
        self,
        name: str,
        grid: Dim3,
        block: Dim3,
        arguments: tuple[np.generic, ...],
        shared: int = 0,
    ) -> None:
        sizes = (ctypes.c_uint * 1024)()
        count = self._library[f"sizes_{name}"](sizes)
        assert [a.dtype.itemsize for a in arguments] == list(sizes[:count]), name
        assert all(0 < n <= most for n, most in zip(grid, (2**31 - 1, 65535, 65535), strict=True))
        assert all(0 < n <= most for n, most in zip(block, (1024, 1024, 64), strict=True))
        assert block[0] * block[1] * block[2] <= 1024, block
        assert 0 <= shared <= SHARED_LIMIT, shared
        values = [np.array(argument) for argument in arguments]
        places = [value.__array_interface__["data"][0] for value in values]
        pointers = (ctypes.c_void_p * len(places))(*places)
        ctypes.c_int.in_dll(self._library, "emulation_order").value = self._order
        triple = ctypes.c_uint * 3
        launch = self._library[f"launch_{name}"]
        launch.restype = ctypes.c_char_p
        wrong = launch(triple(*grid), triple(*block), pointers, ctypes.c_uint(shared))
        if wrong:
            raise EmulationError(f"Kernel '{name}': {wrong.decode()}")
        self.launched.append((name, grid, block))

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
        def launch(*values: Any) -> None:
            given = list(arguments)
            for place, value in zip(changing, values, strict=True):
                given[place] = arguments[place].dtype.type(value)
            self.launch(name, grid, block, tuple(given), shared)

        return launch


@dataclass(frozen=True, slots=True)
class EmulatedArtifact:
    """`backends.base.Artifact` of a schedule, for a Stencil whose target is one of the host's.

    Code is kept in `folder`, which tests of one run share. With `usual`, kernels have the tiles
    that they have on a domain of that size.
    """

    schedule: Schedule
    folder: Path
    descending: bool = False
    shuffled: int = 0
    usual: Domain | None = None

    @property
    def source(self) -> str:
        return CudaBackend().build(self.schedule).source

    def load(self) -> CudaExecutable:
        machine = EmulatedMachine(
            self.folder / "loaded", descending=self.descending, shuffled=self.shuffled
        )
        return CudaExecutable(
            self.schedule, machine, Cache(self.folder / "compiled"), self._tile_for
        )

    def _tile_for(self, entry: Entry, of: Schedule, variant: Variant, domain: Domain) -> Tile:
        return tile_for(entry, of, variant, self.usual or domain)


class EmulatedMachine:
    """`backends.cuda.runtime.machine.Machine` on the host; loaded libraries lie in `folder`.

    Threads and blocks run from the first to the last, or the other way round if `descending`, or
    mixed up by a number above 0, `shuffled`. With `follows`, short kernels are emitted as for a
    device that brings them to its processors before the one in front of them is complete.
    """

    def __init__(
        self,
        folder: Path,
        *,
        descending: bool = False,
        shuffled: int = 0,
        follows: bool = False,
    ) -> None:
        self._folder = folder
        self._order = shuffled + 1 if shuffled else int(descending)
        self.follows = follows
        self._own: dict[str, EmulatedKernels] = {}
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

    @property
    def cache(self) -> int:
        """As much as an H200's holds."""
        return H200_CACHE

    @property
    def speed(self) -> tuple[int, float, float]:
        """No driver tells."""
        return 0, 0.0, 0.0

    def address(self, array: NDArray[Any]) -> int:
        return int(array.__array_interface__["data"][0])

    def upload(self, host: AnyArray, into: NDArray[Any], threads: int = 1) -> None:
        copy_slabs(host, into, threads)

    def download(
        self, array: NDArray[Any], into: AnyArray | None = None, threads: int = 1
    ) -> AnyArray:
        if into is None:
            return array.copy()
        copy_slabs(array, into, threads)
        return into

    def overlap(self) -> Overlap:
        """Work may come before or after what it is beside: nothing is as long as one of both."""
        first_beside = self._order != 1

        def queue(work: Sequence[Callable[[], None]], beside: Sequence[Callable[[], None]]) -> None:
            for act in (*beside, *work) if first_beside else (*work, *beside):
                act()

        return queue

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        for _ in range(times):
            if look is not None:
                look()
            work()

    def repetition(self, work: Callable[[], None]) -> Repetition:
        return functools.partial(self.repeat, work)

    @property
    def compiler(self) -> str:
        return "\n".join((*OPTIONS, *(header.read_text() for header in HEADERS)))

    def compile(self, source: str) -> bytes:
        """Return a shared library; its text is kept in `sources`, and in the folder."""
        self.sources.append(source)
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{key_of(source)[:24]}.cu").write_text(source)
        code = source = _CAST.sub(r"emulation_at<\1>(", source)
        together = _TOGETHER.search(source) is not None
        if together or len(_KERNEL.findall(source)) != source.count("__global__"):
            code = _shared_arrays(_expanded(source))
        entries = "".join(f"EMULATION_ENTRY({name})\n" for name in _KERNEL.findall(code))
        start = "#define EMULATION_TOGETHER\n" if together else ""
        return _build(f'{start}#include "{HEADERS[0]}"\n#line 1 "kernels"\n{code}\n{entries}')

    def load(self, code: bytes) -> EmulatedKernels:
        path = self._folder / f"{hashlib.sha256(code).hexdigest()[:24]}.so"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Threads and processes that load the same code must not see half of it.
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as written:
                written.write(code)
            Path(written.name).replace(path)
        kernels = EmulatedKernels(path, self._order)
        self.loaded.append(kernels)
        return kernels

    def run(
        self,
        source: str,
        kernel: str,
        grid: Dim3,
        block: Dim3,
        *arguments: NDArray[Any] | np.generic,
        shared: int = 0,
    ) -> None:
        """Launch one kernel of a source on arrays in place; see the head of this module."""
        kernels = self._own.get(source)
        if kernels is None:
            made = Cache(self._folder / "own").get(
                key_of(source, self.compiler), lambda: self.compile(source)
            )
            kernels = self._own[source] = self.load(made)
        passed = tuple(
            argument if isinstance(argument, np.generic) else np.uint64(self.address(argument))
            for argument in arguments
        )
        kernels.launch(kernel, grid, block, passed, shared)


def _expanded(source: str) -> str:
    """Return the text with its macros expanded, so that kernels and arrays in them are seen."""
    command = [compiler() or "g++", "-E", "-x", "c++", "-std=c++17", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{source}"
    return done.stdout.replace('"<stdin>"', '"kernels"')


def _shared_arrays(code: str) -> str:
    """Return the text with shared arrays as static ones that a block fills when it begins."""

    def static(match: re.Match[str]) -> str:
        names = _declared(match[2])
        fills = "".join(f" emulation_shared(&{name}, sizeof {name});" for name in names)
        return f"{match[1]}static {match[2]};{fills}"

    room = r"[[maybe_unused]] static \3 *const \4 = (\3 *)emulation_dynamic;"
    return _STATIC.sub(static, _DYNAMIC.sub(room, code))


def _declared(declaration: str) -> list[str]:
    """Return the names in a declaration, 'double a[2][3], b' for one."""
    flat = re.sub(r"\[[^\]]*\]", "", declaration)
    while re.search(r"<[^<>]*>", flat):
        flat = re.sub(r"<[^<>]*>", "", flat)
    return [part.split()[-1].lstrip("*&") for part in flat.split(",")]


def _build(text: str) -> bytes:
    """Return the shared library of a text, which includes the headers."""
    headers = (header.read_text() for header in HEADERS)
    return kept(lambda: _built(text), _version(), *OPTIONS, *headers, text)


@functools.cache
def _version() -> str:
    command = [compiler() or "g++", "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _built(text: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.so"
        command = [compiler() or "g++", *OPTIONS, "-", "-o", str(path)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{text}"
        return path.read_bytes()
