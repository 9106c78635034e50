"""Errors of the client, grouped by how a caller would handle them.

```
HaloclineError
├── ProgramError           fix the text: line, column, excerpt with a caret, hint
│   ├── SyntaxRuleError    the text breaks a rule of the language
│   ├── NameRuleError      a name is unknown, reserved or used twice
│   ├── TypeRuleError      operands or arguments have types that do not fit
│   ├── DependenceError    the order of reads and writes is not defined
│   ├── LimitError         the text is larger or deeper than allowed
│   └── SourceError        the source text of a Python function is not available
├── RequestError           fix the request: arguments, names, shapes, datasets
│   ├── ArgumentError      a keyword argument is wrong
│   ├── FieldError         a field's name, shape, dtype, axes or origin is wrong
│   ├── AxisError          I, J or K is missing or ambiguous in the dataset
│   ├── BoundaryError      a boundary is missing or impossible here
│   ├── DatasetError       a dataset does not exist or cannot be read
│   └── OutputError        the result cannot be written where it was asked for
├── CapacityError          too big for the service: needed and available bytes
├── DivergenceError        values became infinite or NaN: take smaller steps, or other data
├── CancelledError         someone dismissed the job
├── DeviceError            a device failed; the same job may succeed again
│   └── ClusterError       the service's workers are away; the job itself is not at fault
├── InternalError          a fault of Halocline: report it
├── JobFailed              a job ended without a result; `error` is one of the above
├── WaitTimeout            the timeout expired; the job continues
└── ServiceError           the service refused the request, or could not answer
    ├── ConnectionFailed   nothing answers at the address
    ├── AuthenticationError, ForbiddenError    another key
    ├── NotFoundError      no such job, upload, process or result
    ├── ConflictError      the state of the job or upload does not allow this
    ├── TooLargeError      the request is larger than the service allows
    └── BusyError          try again later
```

The classes above `JobFailed` are those of the library: one `except` catches the errors of both. The
service sends the `code` of an error in a problem (RFC 9457), and `from_problem` recreates the
error, with the HTTP `status` and the `problem` document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from halocline_engine.errors import (
    ArgumentError,
    AxisError,
    BoundaryError,
    CancelledError,
    CapacityError,
    ClusterError,
    DatasetError,
    DependenceError,
    DeviceError,
    DivergenceError,
    FieldError,
    HaloclineError,
    InternalError,
    LimitError,
    NameRuleError,
    OutputError,
    ProgramError,
    RequestError,
    SourceError,
    SyntaxRuleError,
    TypeRuleError,
)

__all__ = [
    "CODES",
    "ArgumentError",
    "AuthenticationError",
    "AxisError",
    "BoundaryError",
    "BusyError",
    "CancelledError",
    "CapacityError",
    "ClusterError",
    "ConflictError",
    "ConnectionFailed",
    "DatasetError",
    "DependenceError",
    "DeviceError",
    "DivergenceError",
    "FieldError",
    "ForbiddenError",
    "HaloclineError",
    "InternalError",
    "JobFailed",
    "LimitError",
    "NameRuleError",
    "NotFoundError",
    "OutputError",
    "ProgramError",
    "RequestError",
    "ServiceError",
    "SourceError",
    "SyntaxRuleError",
    "TooLargeError",
    "TypeRuleError",
    "WaitTimeout",
    "from_problem",
]


class JobFailed(HaloclineError):
    """A job ended without a result: `error` is the reason, `job_id` the id of the job."""

    code = "job-failed"

    def __init__(self, job_id: str, error: HaloclineError) -> None:
        super().__init__(f"Job '{job_id}' failed.", hint=str(error))
        self.status, self.problem = error.status, dict(error.problem)
        self.job_id = job_id
        self.error = error

    def __str__(self) -> str:
        return f"{self.message}\n{self.error}"


class WaitTimeout(HaloclineError, TimeoutError):
    """The timeout expired; the job continues."""

    code = "timeout"


class ServiceError(HaloclineError):
    """The service refused the request, or could not answer."""

    code = "service"

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ConnectionFailed(ServiceError):
    """No service answers at the address, or it stopped answering."""

    code = "connection"


class AuthenticationError(ServiceError):
    """The service requires a key, or the key is unknown."""

    code = "unauthorized"


class ForbiddenError(ServiceError):
    """The key does not permit the request."""

    code = "forbidden"


class NotFoundError(ServiceError):
    """The job, upload, process or result does not exist, or no longer."""

    code = "not-found"


class ConflictError(ServiceError):
    """The state of the job or upload does not allow the request."""

    code = "upload"


class TooLargeError(ServiceError):
    """The request is larger than the service allows."""

    code = "body-too-large"


class BusyError(ServiceError):
    """The service is busy or full; try again later."""

    code = "queue-full"


#: The service's codes; those of the engine's errors are the `code` of the classes here.
CODES: Mapping[str, type[HaloclineError]] = {
    "error": HaloclineError,
    "program": ProgramError,
    "program-syntax": SyntaxRuleError,
    "program-name": NameRuleError,
    "program-type": TypeRuleError,
    "program-dependence": DependenceError,
    "program-limit": LimitError,
    "program-source": SourceError,
    "request": RequestError,
    "argument": ArgumentError,
    "field": FieldError,
    "axis": AxisError,
    "boundary": BoundaryError,
    "dataset": DatasetError,
    "output": OutputError,
    "capacity": CapacityError,
    "divergence": DivergenceError,
    "cancelled": CancelledError,
    "device": DeviceError,
    "cluster": ClusterError,
    "internal": InternalError,
    "unauthorized": AuthenticationError,
    "forbidden": ForbiddenError,
    "not-found": NotFoundError,
    "no-such-process": NotFoundError,
    "no-such-job": NotFoundError,
    "no-such-output": NotFoundError,
    "result-not-ready": NotFoundError,
    "gone": NotFoundError,
    "idempotency": ConflictError,
    "upload": ConflictError,
    "in-use": ConflictError,
    "body-too-large": TooLargeError,
    "queue-full": BusyError,
    "not-yet": BusyError,
    "unavailable": BusyError,
    "range": ServiceError,
    "method-not-allowed": ServiceError,
}

_BY_STATUS: Mapping[int, type[HaloclineError]] = {
    400: RequestError,
    401: AuthenticationError,
    403: ForbiddenError,
    404: NotFoundError,
    405: ServiceError,
    409: ConflictError,
    410: NotFoundError,
    412: ConflictError,
    413: TooLargeError,
    422: RequestError,
    425: BusyError,
    429: BusyError,
    500: InternalError,
    502: BusyError,
    503: BusyError,
    504: BusyError,
    507: CapacityError,
}


def from_problem(problem: Mapping[str, object], status: int = 0) -> HaloclineError:
    """Return the error described by a problem (RFC 9457).

    Its class follows from the member `code`, or from the HTTP status if the code is unknown.
    """
    number = status or _number(problem, "status")
    kind = CODES.get(_text(problem, "code")) or _BY_STATUS.get(number, ServiceError)
    title = _text(problem, "title")
    message = (
        _text(problem, "detail")
        or _text(problem, "message")
        or title
        or f"The service answered with status {number}."
    )
    error = kind(message, hint=_text(problem, "hint"))
    error.status, error.problem = number, dict(problem)
    if isinstance(error, ProgramError):
        error.rule, error.excerpt = _text(problem, "rule"), _text(problem, "excerpt")
        error.line, error.column = _number(problem, "line"), _number(problem, "column")
        others_given = problem.get("others")
        listed = (
            cast("list[Mapping[str, object]]", others_given)
            if isinstance(others_given, list)
            else []
        )
        others = (from_problem(each) for each in listed)
        error.others = tuple(each for each in others if isinstance(each, ProgramError))
    if isinstance(error, CapacityError):
        error.needed = _number(problem, "needed")
        error.available = _number(problem, "available")
    return error


def _text(problem: Mapping[str, object], key: str) -> str:
    value = problem.get(key)
    return value if isinstance(value, str) else ""


def _number(problem: Mapping[str, object], key: str) -> int:
    value = problem.get(key)
    return int(cast("float", value)) if isinstance(value, int | float) else 0
