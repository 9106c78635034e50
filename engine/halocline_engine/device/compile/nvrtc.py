"""Compile CUDA C++ with NVRTC; run as a script, so that the compiler can be killed.

The script reads a JSON object from standard input: `library` (the path of libnvrtc), `options`,
`source` and `output` ("CUBIN" or "PTX"). It writes the compiled code to standard output and
messages to standard error, and exits with 0, or with 1 where the source does not compile. Without a
source it writes the version of CUDA, as [major, minor]. It needs nothing but the standard library
and imports nothing of its package, so that it starts quickly.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["compile_source", "main", "version"]


def version(library: str) -> tuple[int, int]:
    """Return the major and minor version of CUDA that the library comes from."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_load(library).nvrtcVersion, ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def compile_source(
    library: str, options: Sequence[str], source: str, output: str
) -> tuple[bytes, str]:
    """Return the code, "CUBIN" or "PTX", and the messages; the code is empty where it failed.

    Raises `OSError` where the library cannot be loaded.
    """
    nvrtc = _load(library)
    program = ctypes.c_void_p()
    _check(
        nvrtc.nvrtcCreateProgram, ctypes.byref(program), source.encode(), b"halocline.cu", 0, 0, 0
    )
    texts = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), texts)
    log = _fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    text = log.rstrip(b"\0").decode(errors="replace").strip()
    if failed:
        return b"", text or f"NVRTC failed with status {failed}."
    size, code = getattr(nvrtc, f"nvrtcGet{output}Size"), getattr(nvrtc, f"nvrtcGet{output}")
    return _fetch(size, code, program), text


def _load(library: str) -> ctypes.CDLL:
    # Some wheels name no folder in which NVRTC would find its own second library.
    for builtins in Path(library).parent.glob("libnvrtc-builtins.so*"):
        ctypes.CDLL(str(builtins))
    return ctypes.CDLL(library)


def _check(function: ctypes._NamedFuncPointer, *arguments: object) -> None:  # pyright: ignore[reportPrivateUsage] # the only name of the type
    status = function(*arguments)
    if status:
        raise OSError(f"NVRTC call failed with status {status}.")


def _fetch(
    size: ctypes._NamedFuncPointer,  # pyright: ignore[reportPrivateUsage] # as above
    get: ctypes._NamedFuncPointer,  # pyright: ignore[reportPrivateUsage] # as above
    program: ctypes.c_void_p,
) -> bytes:
    length = ctypes.c_size_t()
    _check(size, program, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    _check(get, program, buffer)
    return buffer.raw


def main() -> int:
    """Do what the module says; returns the exit status."""
    request = json.load(sys.stdin)
    if "source" not in request:
        sys.stdout.write(json.dumps(version(**request)))
        return 0
    code, messages = compile_source(**request)
    sys.stderr.write(messages)
    sys.stdout.buffer.write(code)
    sys.stdout.buffer.flush()
    return 0 if code else 1


if __name__ == "__main__":
    sys.exit(main())
