"""Stencils and solves on xarray datasets, computed here or by a service.

import halocline as hc

result = hc.run(program, dataset, boundary={"x": "periodic"}, steps=100)

with hc.Client("http://127.0.0.1:8000") as client:
    job = client.stencil(program, dataset, boundary={"x": "periodic"}, steps=100)
    result = job.result()

The functions that compute here need the extra 'engine': pip install 'halocline[engine]'.
"""

import importlib
import typing

from halocline.errors import (
    ArgumentError,
    AuthenticationError,
    AxisError,
    BoundaryError,
    BusyError,
    CancelledError,
    CapacityError,
    ClusterError,
    ConflictError,
    ConnectionFailed,
    DatasetError,
    DependenceError,
    DeviceError,
    DivergenceError,
    FieldError,
    ForbiddenError,
    HaloclineError,
    InternalError,
    JobFailed,
    LimitError,
    NameRuleError,
    NotFoundError,
    OutputError,
    ProgramError,
    RequestError,
    ServiceError,
    SourceError,
    SyntaxRuleError,
    TooLargeError,
    TypeRuleError,
    WaitTimeout,
)
from halocline.registration import register_when_imported as _register_when_imported

if typing.TYPE_CHECKING:
    from halocline.awaited.client import AsyncClient
    from halocline.awaited.job import AsyncJob
    from halocline.client import Client
    from halocline.events import Event
    from halocline.job import Job
    from halocline.plan import Plan
    from halocline.processes.local import run_local
    from halocline.processes.many import Outcome
    from halocline_engine import (
        Limits,
        Options,
        PlanCache,
        ProgramWarning,
        Stencil,
        column,
        column_matrix,
        factor,
        gather,
        matmul,
        neighbours,
        pentadiagonal,
        reduce,
        regrid,
        run,
        scatter,
        sequence,
        solve,
        stencil,
        tree,
        tridiagonal,
    )

    __version__: str

__all__ = [
    "ArgumentError",
    "AsyncClient",
    "AsyncJob",
    "AuthenticationError",
    "AxisError",
    "BoundaryError",
    "BusyError",
    "CancelledError",
    "CapacityError",
    "Client",
    "ClusterError",
    "ConflictError",
    "ConnectionFailed",
    "DatasetError",
    "DependenceError",
    "DeviceError",
    "DivergenceError",
    "Event",
    "FieldError",
    "ForbiddenError",
    "HaloclineError",
    "InternalError",
    "Job",
    "JobFailed",
    "LimitError",
    "Limits",
    "NameRuleError",
    "NotFoundError",
    "Options",
    "Outcome",
    "OutputError",
    "Plan",
    "PlanCache",
    "ProgramError",
    "ProgramWarning",
    "RequestError",
    "ServiceError",
    "SourceError",
    "Stencil",
    "SyntaxRuleError",
    "TooLargeError",
    "TypeRuleError",
    "WaitTimeout",
    "__version__",
    "column",
    "column_matrix",
    "factor",
    "gather",
    "matmul",
    "neighbours",
    "pentadiagonal",
    "reduce",
    "regrid",
    "run",
    "run_local",
    "scatter",
    "sequence",
    "solve",
    "stencil",
    "tree",
    "tridiagonal",
]

#: Names that are imported when they are first used, as their modules load large packages.
_HOMES = {
    "AsyncClient": "halocline.awaited.client",
    "AsyncJob": "halocline.awaited.job",
    "Client": "halocline.client",
    "Event": "halocline.events",
    "Job": "halocline.job",
    "Outcome": "halocline.processes.many",
    "Plan": "halocline.plan",
    "run_local": "halocline.processes.local",
}

#: Names of the engine, which need the extra 'engine'.
_OF_ENGINE = frozenset(
    {
        *("Limits", "Options", "PlanCache", "ProgramWarning", "Stencil", "column"),
        *("column_matrix", "factor", "gather", "matmul", "neighbours", "pentadiagonal", "reduce"),
        *("regrid", "run", "scatter", "sequence", "solve", "stencil", "tree", "tridiagonal"),
    }
)

_register_when_imported()


def __getattr__(name: str) -> object:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("halocline")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        return globals().setdefault(name, value)
    if name in _OF_ENGINE:
        from halocline_engine.interface.installed import for_engine

        with for_engine(f"{__name__}.{name}"):
            value = getattr(importlib.import_module("halocline_engine"), name)
        return globals().setdefault(name, value)
    from halocline_engine.interface.elsewhere import without_attribute

    raise AttributeError(without_attribute(__name__, name, __all__))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
