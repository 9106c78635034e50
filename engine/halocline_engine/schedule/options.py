"""What may be switched in a schedule; no switch changes a result."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """How a schedule is made.

    `fuse`: statements share kernels. `recompute`: temporaries are computed again where they are
    read. `share`: equal subexpressions of a kernel are computed once.

    `recompute_limit` is what one temporary in memory is worth, in additions per point: it is
    written once and read at least once, 16 bytes or more that a core moves in the time of about
    64 vectorised additions. `statement_limit` bounds the nodes of a statement that recomputing may
    make, because the compilers' time grows faster than their number.
    """

    fuse: bool = True
    recompute: bool = True
    share: bool = True
    recompute_limit: int = 64
    statement_limit: int = 2000
