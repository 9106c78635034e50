"""Machine code of generated text, which is compiled once and kept on disk for all processes.

Numba keeps it beside the text's file, whose folder is named by all that the code depends on and
that Numba does not look at: the text, and the functions that it calls.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import llvmlite  # pyright: ignore[reportMissingTypeStubs] # it has none
import numba

from halocline_engine.backends.cpu import builtins, elementary
from halocline_engine.cache import Cache, code_folder, key_of, publish, trim
from halocline_engine.compiling import compiling
from halocline_engine.version import halocline_version

__all__ = ["Compiled", "Signature", "machine_code"]

_LOG = logging.getLogger(__name__)
#: A compiled function: addresses and numbers in, nothing out.
Compiled: TypeAlias = Callable[..., None]
#: The name of a function of the text, and the types of its arguments as Numba spells them.
Signature: TypeAlias = tuple[str, tuple[str, ...]]

#: Texts that are kept, of about 100 kB each.
_MOST = 2048
_FILE = "kernels.py"
_SEMANTICS: Mapping[str, object] = {"fastmath": False, "error_model": "numpy"}


def machine_code(
    text: str, signatures: Sequence[Signature], parts: Sequence[str] = ()
) -> tuple[Compiled, ...]:
    """Return functions of a generated text, compiled now or by an earlier process.

    `parts` are functions of the text that those call.
    """
    with compiling():
        return _machine_code(text, signatures, parts)


def _machine_code(
    text: str, signatures: Sequence[Signature], parts: Sequence[str]
) -> tuple[Compiled, ...]:
    file = _file_of(text)
    if file is not None:
        try:
            return _decorated(text, file, signatures, parts, cache=True)
        except Exception as error:
            # Numba's files hold pickles, which fail in any way where they are damaged.
            _LOG.warning("Machine code in %s is not used: %r.", file.parent, error)
    return _decorated(text, Path("<halocline cpu>"), signatures, parts, cache=False)


def _decorated(
    text: str, file: Path, signatures: Sequence[Signature], parts: Sequence[str], *, cache: bool
) -> tuple[Compiled, ...]:
    # Numba looks up the module again when it loads code.
    names: dict[str, Any] = {**builtins.namespace(), "__name__": builtins.__name__}
    exec(compile(text, str(file), "exec"), names)  # noqa: S102 - our emitter's text
    for name in parts:
        names[name] = _called_by_kernels(names[name])
    return tuple(_jit(names[name], types, cache=cache) for name, types in signatures)


def _called_by_kernels(body: Callable[..., Any]) -> Callable[..., Any]:
    return cast("Callable[..., Any]", cast("Any", numba).njit(**_SEMANTICS)(body))


def _jit(body: Callable[..., None], types: Sequence[str], *, cache: bool) -> Compiled:
    signature = f"void({', '.join(types)})"
    decorate = cast("Any", numba).njit(signature, nogil=True, cache=cache, **_SEMANTICS)
    return cast("Compiled", decorate(body))


def _file_of(text: str) -> Path | None:
    """Return the file of a text, which is made; None where it cannot be."""
    root = code_folder("cpu")
    file = Cache(root).path(key_of(text, *_called())) / _FILE
    try:
        if not file.exists():
            publish(file, text.encode())
            trim(root, _MOST)
        os.utime(file.parent)
    except OSError:
        return None
    return file


@functools.cache
def _called() -> tuple[str, ...]:
    """Return what the functions that texts call are made of."""
    files = (builtins.__file__, elementary.__file__)
    sources = (Path(file).read_text(encoding="utf-8") for file in files)
    versions: Mapping[str, Any] = {"numba": numba, "llvmlite": llvmlite}
    return (*sources, halocline_version(), *(str(one.__version__) for one in versions.values()))
