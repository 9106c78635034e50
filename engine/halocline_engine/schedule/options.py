"""Switches of a schedule; none changes a result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from halocline_engine.schedule.traversal.walks import AS_FITS, Walk

__all__ = ["Options", "Temporaries"]

#: Where temporaries go that more than one kernel would need: 'recompute' computes them again
#: wherever that is exact, 'field' keeps them in memory between kernels, 'shared', 'block' and
#: 'block-moved' let blocks of points keep their own (`nodes.Home`) as far as that is possible;
#: 'auto' recomputes what costs less than memory and keeps the rest in memory.
Temporaries: TypeAlias = Literal["auto", "recompute", "shared", "block", "block-moved", "field"]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a schedule.

    `fuse`: statements share kernels. `recompute`: temporaries are computed again where they are
    read. `share`: equal subexpressions of a kernel are computed once. `sink`: kernels that hand
    values on within columns only are one.

    `recompute_limit` is what one temporary in memory is worth, in additions per point: it is
    written once and read at least once, 16 bytes or more that a core moves in the time of about
    64 vectorised additions; a target may say more. `statement_limit` bounds the nodes of a
    statement that recomputing may make, because the compilers' time grows faster than their number,
    and `nesting_limit` how deep it may nest an expression, which this compiler and those after it
    take apart by recursion.

    `temporaries` says where temporaries go; `recompute=False` keeps 'auto' from recomputing.
    `alignment` is that of a block's own memory, in bytes: 1 for none. `walk` is the order in which
    loops go through points, where a target has caches.
    """

    fuse: bool = True
    recompute: bool = True
    share: bool = True
    sink: bool = True
    recompute_limit: int = 64
    statement_limit: int = 4000
    nesting_limit: int = 100
    temporaries: Temporaries = "auto"
    alignment: int = 128
    walk: Walk = AS_FITS
