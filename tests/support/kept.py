"""What compilers made for tests, kept between runs by all that it is made from.

Processes of a run share it, as `make test` starts several. It lies in the folder for what is built.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from halocline_engine.cache import Cache, key_of, trim
from halocline_engine.device.compile.compiler import compile_source, compiler_identity

__all__ = ["FOLDER", "device_code", "kept", "tidy"]

FOLDER = Path(__file__).parents[2] / "build" / "compiled-for-tests"
#: More than one run makes, of about 50 kB each.
_MOST = 6000


def kept(make: Callable[[], bytes], *parts: str) -> bytes:
    """Return what `make` makes of these texts, made now or by an earlier process."""
    cache, key = Cache(FOLDER), key_of(*parts)
    with suppress(OSError):
        os.utime(cache.path(key))
    return cache.get(key, make)


def device_code(source: str, architecture: str) -> bytes:
    """Return what NVIDIA's compiler makes of a source; raises as `compile_source` does."""
    parts = (compiler_identity(architecture), source)
    return kept(lambda: compile_source(source, architecture), *parts)


def tidy() -> None:
    """Remove what was used longest ago, where there is too much."""
    trim(FOLDER, _MOST)
