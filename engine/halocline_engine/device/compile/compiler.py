"""From CUDA C++ to device code: NVRTC in a process of its own.

A compiler that hangs or crashes must not take the caller with it, so it runs in a child process
with a time limit.
"""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from halocline_engine.compiling import compiling
from halocline_engine.device.compile import nvrtc
from halocline_engine.device.compile.faults import FIRST_RIGHT, loses_negations
from halocline_engine.errors import DeviceError

__all__ = [
    "OPTIONS",
    "compile_source",
    "compiler_identity",
    "compiler_version",
    "find_nvrtc",
    "wheel_libraries",
]

#: No fused multiply-add and none of fast-math, so that results are those of the other targets.
OPTIONS = (
    "--std=c++17",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
)
#: Seconds that one translation unit may take.
_LIMIT = 300.0
#: The oldest version of CUDA with which generated kernels are tested on a device.
_OLDEST = (12, 9)
#: ptxas joins no instructions, which costs speed: for units that it would translate wrongly.
_UNOPTIMISED = "--ptxas-options=-O0"


@cache
def find_nvrtc() -> str:
    """Return the path or the name of the NVRTC library.

    The one that CuPy uses comes first, then that of NVIDIA's wheel, then the system's. Raises
    `DeviceError` where there is none.
    """
    for candidate in (*_from_pathfinder(), *_from_wheels(), ctypes.util.find_library("nvrtc")):
        if candidate:
            return candidate
    raise DeviceError(
        "The compiler for CUDA, the library 'nvrtc', was not found.",
        hint="Install 'halocline[cuda13]' or 'halocline[cuda12]', or a CUDA toolkit.",
    )


@cache
def compiler_version() -> tuple[int, int]:
    """Return the version of CUDA that NVRTC comes from.

    Raises `DeviceError` where it is older than the oldest one that is tested.
    """
    major, minor = json.loads(_run({"library": find_nvrtc()}, "any device", _LIMIT))
    if (major, minor) < _OLDEST:
        raise DeviceError(
            f"The CUDA compiler '{find_nvrtc()}' is of CUDA {major}.{minor}; kernels are tested"
            f" with {_OLDEST[0]}.{_OLDEST[1]} and later.",
            hint="Install 'halocline[cuda13]', or 'halocline[cuda12]' for drivers of CUDA 12.",
        )
    return major, minor


def compile_source(source: str, architecture: str, *, limit: float = _LIMIT) -> bytes:
    """Return device code for an architecture such as "sm_90".

    A unit that the installed version of ptxas is known to translate wrongly is not optimised by it.
    Raises `DeviceError` if the code does not compile or the compiler takes longer than `limit`
    seconds; it is killed then.
    """
    options = [*OPTIONS, f"--gpu-architecture={architecture}"]
    request = {"library": find_nvrtc(), "options": options, "source": source}
    if compiler_version() < FIRST_RIGHT:
        ptx = _run({**request, "output": "PTX"}, architecture, limit)
        if loses_negations(ptx.decode()):
            options.append(_UNOPTIMISED)
    return _run({**request, "output": "CUBIN"}, architecture, limit)


def compiler_identity(architecture: str) -> str:
    """Return a text that changes with whatever changes the code made from the same source."""
    path = Path(find_nvrtc()).resolve()
    # An update of the library may keep its name and version.
    installed = f"{path.stat().st_size} {path.stat().st_mtime_ns}" if path.exists() else ""
    return "\n".join((architecture, *OPTIONS, str(path), f"{compiler_version()} {installed}"))


def _run(request: Mapping[str, object], architecture: str, limit: float) -> bytes:
    """Return the answer of the compiler's process."""
    command = [sys.executable, "-I", nvrtc.__file__]
    try:
        with compiling():
            done = subprocess.run(
                command,
                input=json.dumps(request).encode(),
                capture_output=True,
                timeout=limit,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f"The CUDA compiler was stopped after {limit:g} seconds.",
            hint="Split the program into smaller ones.",
        ) from error
    if done.returncode != 0 or not done.stdout:
        messages = done.stderr.decode(errors="replace").strip()
        raise DeviceError(
            f"The CUDA compiler failed for '{architecture}' with status {done.returncode}.",
            hint=messages[:4000],
        )
    return done.stdout


def _from_pathfinder() -> Iterator[str]:
    """Yield the library that CuPy loads, which knows where it is."""
    try:
        finder = cast("Any", import_module("cuda.pathfinder"))
    except ImportError:
        return
    try:
        yield str(finder.load_nvidia_dynamic_lib("nvrtc").abs_path)
    except RuntimeError:
        # The finder's own error for a library that is nowhere derives from this.
        return


def _from_wheels() -> Iterator[str]:
    """Yield the library of NVIDIA's wheel, newest CUDA first."""
    for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        yield from wheel_libraries(name)


def wheel_libraries(name: str) -> Iterator[str]:
    """Yield the libraries of NVRTC in an installed package."""
    try:
        wheel = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return
    for file in wheel.files or ():
        if file.name.startswith("libnvrtc.so"):
            yield str(wheel.locate_file(file))
