"""NumPy's BLAS with one thread a call, so that results do not depend on how many it has.

OpenBLAS cuts a product differently for several threads than for one, and then adds up terms in
another order. Calls from several threads of ours, each of them with one of BLAS, are as fast.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any, cast

import threadpoolctl  # pyright: ignore[reportMissingTypeStubs] - it has none

__all__ = ["one_thread"]


def one_thread() -> AbstractContextManager[object]:
    """Let BLAS use one thread a call, in the whole process, until the end."""
    return _controller().limit(limits=1, user_api="blas")


@functools.cache
def _controller() -> Any:
    """Return what controls the libraries that this process has loaded."""
    return cast("Any", threadpoolctl).ThreadpoolController()
