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
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from halocline_engine.compiling import compiling
from halocline_engine.device.compile import nvrtc
from halocline_engine.errors import DeviceError

__all__ = ["OPTIONS", "compile_source", "compiler_identity", "find_nvrtc"]

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


def compile_source(source: str, architecture: str, *, limit: float = _LIMIT) -> bytes:
    """Return device code for an architecture such as "sm_90".

    Raises `DeviceError` if the code does not compile or the compiler takes longer than `limit`
    seconds; it is killed then.
    """
    options = (*OPTIONS, f"--gpu-architecture={architecture}")
    request = json.dumps({"library": find_nvrtc(), "options": options, "source": source})
    command = [sys.executable, "-I", nvrtc.__file__]
    try:
        with compiling():
            done = subprocess.run(
                command, input=request.encode(), capture_output=True, timeout=limit, check=False
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


def compiler_identity(architecture: str) -> str:
    """Return a text that changes with whatever changes the code made from the same source."""
    return "\n".join((architecture, *OPTIONS, str(Path(find_nvrtc()).resolve())))


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
        try:
            wheel = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in wheel.files or ():
            if file.name.startswith("libnvrtc.so"):
                yield str(wheel.locate_file(file))
