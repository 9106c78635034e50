"""Client of Halocline: stencils and solves on xarray datasets, computed by a service.

import halocline as hc

with hc.Client("http://127.0.0.1:8000") as client:
    job = client.stencil(program, dataset, boundary={"x": "periodic"}, steps=100)
    result = job.result()
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
    "NameRuleError",
    "NotFoundError",
    "Outcome",
    "OutputError",
    "Plan",
    "ProgramError",
    "RequestError",
    "ServiceError",
    "SourceError",
    "SyntaxRuleError",
    "TooLargeError",
    "TypeRuleError",
    "WaitTimeout",
    "__version__",
    "run_local",
]

#: What loads more than Python itself does is imported when it is first used.
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

_register_when_imported()


def __getattr__(name: str) -> object:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("halocline")
    if name in _HOMES:
        found = getattr(importlib.import_module(_HOMES[name]), name)
        return globals().setdefault(name, found)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
