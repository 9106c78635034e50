"""PTX that NVIDIA's compiler makes of generated sources, and what its loads may be of."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from halocline_engine.device.compile.compiler import OPTIONS, find_nvrtc, wheel_libraries

__all__ = ["compilers", "count_loops", "mistaken_loads", "ptx_of"]

_REGISTER = re.compile(r"%[a-z]+\d+")
_ADDRESS = re.compile(r"\[(%\w+)")
_PARAMETER = re.compile(r"\[(\w+_param_\d+)")
_ARRAY = re.compile(r"cvta\.to\.global\.u64\s+%rd\d+, (%rd\d+)")
#: Instructions whose results, if any, are no addresses that come from their operands.
_OTHERS = ("ld.", "st.", "red.", "atom.", "bra", "ret", "bar", "setp", "call")


class _Kernel(NamedTuple):
    """What registers are made of, and which of them are addresses."""

    made_of: list[tuple[str, frozenset[str]]]
    arrays: set[str]
    constant: list[tuple[str, str]]
    stored: set[str]


def ptx_of(source: str, path: str = "") -> str:
    """Return the PTX of a CUDA source for an H100, made by the NVRTC at a path."""
    library = _nvrtc(path or find_nvrtc())
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None)
    options = [option.encode() for option in (*OPTIONS, "--gpu-architecture=compute_90")]
    given = (ctypes.c_char_p * len(options))(*options)
    try:
        assert library.nvrtcCompileProgram(program, len(options), given) == 0
        size = ctypes.c_size_t()
        library.nvrtcGetPTXSize(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        library.nvrtcGetPTX(program, text)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    return text.value.decode()


def count_loops(ptx: str) -> int:
    """Return the number of branches to an earlier label."""
    count = 0
    for text in ptx.split(".entry ")[1:]:
        labels = {
            found[1]: found.start() for found in re.finditer(r"^(\$L\w+):", text, re.MULTILINE)
        }
        branches = re.finditer(r"\bbra(?:\.uni)?\s+(\$L\w+);", text)
        count += sum(labels[one[1]] < one.start() for one in branches)
    return count


def mistaken_loads(ptx: str) -> Iterator[tuple[str, str]]:
    """Yield kernels and loads of constant memory from what may be an array that is written.

    An address may be that of each array which it is computed from, on whatever way through the
    kernel. Such a load may come before a store that the program has in front of it.
    """
    for text in ptx.split(".entry ")[1:]:
        kernel = _kernel(text[text.index("{") : text.find("\n}")])
        found = _origins(kernel)
        arrays = {origin for name in kernel.arrays for origin in found.get(name, ())}
        written = {origin for name in kernel.stored for origin in found.get(name, ())} & arrays
        for address, line in kernel.constant:
            if not written.isdisjoint(found.get(address, ())):
                yield text[: text.index("(")].strip(), line


def compilers() -> dict[str, str]:
    """Return the paths of the installed compilers, by the name of their package."""
    names = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
    return {name: path for name in names for path in wheel_libraries(name)}


@functools.cache
def _nvrtc(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


def _kernel(text: str) -> _Kernel:
    kernel = _Kernel([], set(_ARRAY.findall(text)), [], set())
    for line in text.splitlines():
        code = re.sub(r"^@\S+\s+", "", line.strip())
        address = _ADDRESS.search(code)
        registers = _REGISTER.findall(code)
        if address and code.startswith("ld.global.nc"):
            kernel.constant.append((address[1], code))
        elif address and code.startswith(("st.global", "red.global", "atom.global")):
            kernel.stored.add(address[1])
        elif code.startswith("ld.param") and (given := _PARAMETER.search(code)):
            kernel.made_of.append((registers[0], frozenset({given[1]})))
        elif registers and not code.startswith(_OTHERS):
            kernel.made_of.append((registers[0], frozenset(registers[1:])))
    return kernel


def _origins(kernel: _Kernel) -> Mapping[str, set[str]]:
    """Return the parameters that each register may come from."""
    found: dict[str, set[str]] = {}
    grown = True
    while grown:
        grown = False
        for name, sources in kernel.made_of:
            mine = found.setdefault(name, set())
            before = len(mine)
            for source in sources:
                mine |= found.get(source, {source} if source[0] != "%" else set())
            grown = grown or len(mine) > before
    return found
