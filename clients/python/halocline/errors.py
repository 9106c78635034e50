"""Errors of the client, grouped by how a caller would handle them.

```
HaloclineError
├── ProgramError           fix the text: line, column, excerpt with a caret, hint
│   ├── SyntaxRuleError    the text breaks a rule of the language
│   ├── NameRuleError      a name is unknown, reserved or used twice
│   ├── TypeRuleError      operands or arguments have types that do not fit
│   ├── DependenceError    the order of reads and writes is not defined
│   ├── LimitError         the text is larger or deeper than allowed
│   └── SourceError        a Python function cannot be sent as text
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
├── WaitTimeout            the job goes on, the time given for waiting is over
└── ServiceError           the conversation with the service, not the job
    ├── ConnectionFailed   nothing answers at the address
    ├── AuthenticationError, ForbiddenError    another key
    ├── NotFoundError      no such job, upload, process or result
    ├── ConflictError      it is not in a state for this, or exists already
    ├── TooLargeError      the request is larger than the service takes
    └── BusyError          try again later
```

Classes that the engine has too carry the engine's `code`; the service sends it in a problem (RFC
9457) and `from_problem` makes the class again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, cast

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


class HaloclineError(Exception):
    """The root of every error that the client raises on purpose.

    `message` is one sentence for a person and `hint` the way out, or empty. `status` is the HTTP
    status (0 where there was none) and `problem` the service's whole answer.
    """

    code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int = 0,
        problem: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status
        self.problem: dict[str, object] = dict(problem or {})
        self._take(self.problem)

    def _take(self, problem: Mapping[str, object]) -> None:
        """Read this class's own members from a problem."""

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(kind: type[HaloclineError], state: dict[str, object]) -> HaloclineError:
    """Make an error again in another process, with the members it had."""
    error = kind.__new__(kind)
    Exception.__init__(error, state["message"])
    error.__dict__.update(state)
    return error


class ProgramError(HaloclineError):
    """The program contains an error.

    `line` and `column` count from 1 in the text that was sent (0 where the whole text is meant);
    `excerpt` is the line with a caret under the place; `rule` names the rule that was broken.
    `file` and `file_line` say where the line stands in the caller's own file, where that is known.
    `others` are further errors of the same text, in its order.
    """

    code = "program"
    rule: str
    line: int
    column: int
    excerpt: str
    file: str
    file_line: int
    others: tuple[ProgramError, ...]

    def _take(self, problem: Mapping[str, object]) -> None:
        self.rule = _text(problem, "rule")
        self.line = _number(problem, "line")
        self.column = _number(problem, "column")
        self.excerpt = _text(problem, "excerpt")
        self.file = ""
        self.file_line = 0
        told = problem.get("others")
        listed = cast("list[Mapping[str, object]]", told) if isinstance(told, list) else []
        found = (from_problem(each) for each in listed)
        self.others = tuple(each for each in found if isinstance(each, ProgramError))

    @property
    def place(self) -> str:
        """Place of the fault for a person: the caller's file and line where known, or empty."""
        if self.file:
            return f"{self.file}, line {self.file_line}, column {self.column}"
        return f"line {self.line}, column {self.column}" if self.line else ""

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.message}" if self.place else self.message]
        lines += [part for part in (self.excerpt, self.hint) if part]
        return "\n\n".join(["\n".join(lines), *(str(other) for other in self.others)])


class SyntaxRuleError(ProgramError):
    """The text breaks a rule of the language."""

    code = "program-syntax"


class NameRuleError(ProgramError):
    """A name is unknown, reserved or used twice."""

    code = "program-name"


class TypeRuleError(ProgramError):
    """Operands or arguments have types that do not fit together."""

    code = "program-type"


class DependenceError(ProgramError):
    """Reads and writes depend on each other in an order that is not defined."""

    code = "program-dependence"


class LimitError(ProgramError):
    """The text is larger or more deeply nested than allowed."""

    code = "program-limit"


class SourceError(ProgramError):
    """A Python function cannot be sent as text; raised before anything is sent."""

    code = "program-source"


class RequestError(HaloclineError):
    """The request contains an error."""

    code = "request"


class ArgumentError(RequestError):
    """A keyword argument is unknown, missing or has a wrong value."""

    code = "argument"


class FieldError(RequestError):
    """A field's name, shape, dtype, axes or origin does not fit the program."""

    code = "field"


class AxisError(RequestError):
    """I, J or K is missing in the dataset or could be several dimensions."""

    code = "axis"


class BoundaryError(RequestError):
    """A boundary is missing, or has no sense for the dimension it was given for."""

    code = "boundary"


class DatasetError(RequestError):
    """A dataset does not exist, may not be read, or cannot be read."""

    code = "dataset"


class OutputError(RequestError):
    """The result cannot be written where it was asked for."""

    code = "output"


class CapacityError(HaloclineError):
    """The work does not fit the service: `needed` and `available` are bytes."""

    code = "capacity"
    needed: int
    available: int

    def _take(self, problem: Mapping[str, object]) -> None:
        self.needed = _number(problem, "needed")
        self.available = _number(problem, "available")


class DivergenceError(HaloclineError):
    """The values of a run became infinite or NaN; smaller steps or other data may help."""

    code = "divergence"


class CancelledError(HaloclineError):
    """Someone dismissed the job."""

    code = "cancelled"


class DeviceError(HaloclineError):
    """A device failed; the same job may succeed on another."""

    code = "device"


class ClusterError(DeviceError):
    """The service's workers are away; the same job may succeed when they are back."""

    code = "cluster"


class InternalError(HaloclineError):
    """A fault of Halocline itself; please report it with the program."""

    code = "internal"


class JobFailed(HaloclineError):
    """A job ended without a result; `error` says why and `job_id` which."""

    code = "job-failed"

    def __init__(self, job_id: str, error: HaloclineError) -> None:
        super().__init__(
            f"Job '{job_id}' failed.", hint=str(error), status=error.status, problem=error.problem
        )
        self.job_id = job_id
        self.error = error

    def __str__(self) -> str:
        return f"{self.message}\n{self.error}"


class WaitTimeout(HaloclineError, TimeoutError):
    """The time given for waiting is over; the job goes on."""

    code = "timeout"


class ServiceError(HaloclineError):
    """The service refused, or could not answer."""

    code = "service"


class ConnectionFailed(ServiceError):
    """Nothing answers at the address, or it stopped answering."""

    code = "connection"


class AuthenticationError(ServiceError):
    """The service asks for a key, or does not know this one."""

    code = "unauthorized"


class ForbiddenError(ServiceError):
    """The key may not do this."""

    code = "forbidden"


class NotFoundError(ServiceError):
    """There is no such job, upload, process or result, or no longer."""

    code = "not-found"


class ConflictError(ServiceError):
    """It is not in a state for this, or it exists already."""

    code = "upload"


class TooLargeError(ServiceError):
    """The request is larger than the service takes."""

    code = "body-too-large"


class BusyError(ServiceError):
    """The service has no room or time for this now; try again later."""

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
    """Make the error that a problem (RFC 9457) tells of.

    The member `code` decides; without a known one, the HTTP status does.
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
    return kind(message, hint=_text(problem, "hint"), status=number, problem=problem)


def _text(problem: Mapping[str, object], key: str) -> str:
    value = problem.get(key)
    return value if isinstance(value, str) else ""


def _number(problem: Mapping[str, object], key: str) -> int:
    value = problem.get(key)
    return int(cast("float", value)) if isinstance(value, int | float) else 0
