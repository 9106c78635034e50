"""All processes, by identifier."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from halocline_service.processes.base import Process
from halocline_service.processes.column import COLUMN
from halocline_service.processes.echo import ECHO
from halocline_service.processes.matmul import MATMUL
from halocline_service.processes.plan import PLAN
from halocline_service.processes.reduce import REDUCE
from halocline_service.processes.sequence import SEQUENCE
from halocline_service.processes.solves.factor import FACTOR
from halocline_service.processes.solves.pentadiagonal import PENTADIAGONAL
from halocline_service.processes.solves.solve import SOLVE
from halocline_service.processes.solves.tree import TREE
from halocline_service.processes.solves.tridiagonal import TRIDIAGONAL
from halocline_service.processes.stencil import STENCIL
from halocline_service.processes.transfers.gather import GATHER
from halocline_service.processes.transfers.neighbours import NEIGHBOURS
from halocline_service.processes.transfers.regrid import REGRID
from halocline_service.processes.transfers.scatter import SCATTER

__all__ = ["PROCESSES"]

PROCESSES: Mapping[str, Process] = MappingProxyType(
    {
        process.id: process
        for process in (
            STENCIL,
            COLUMN,
            TRIDIAGONAL,
            PENTADIAGONAL,
            FACTOR,
            SOLVE,
            TREE,
            GATHER,
            SCATTER,
            REGRID,
            NEIGHBOURS,
            MATMUL,
            REDUCE,
            SEQUENCE,
            PLAN,
            ECHO,
        )
    }
)
