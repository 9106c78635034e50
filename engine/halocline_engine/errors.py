"""Errors of Halocline, grouped by how a caller would handle them.

```
HaloclineError
├── ProgramError           fix the text: has a span, a caret, a hint
│   ├── SyntaxRuleError    the text breaks a rule of the language
│   ├── NameRuleError      a name is unknown, reserved or used twice
│   ├── TypeRuleError      operands or arguments have types that do not fit
│   ├── DependenceError    the order of reads and writes is not defined
│   ├── LimitError         the text is larger or deeper than allowed
│   └── SourceError        a Python function or a file has no program text
├── RequestError           fix the request: arguments, names, shapes, datasets
│   ├── ArgumentError      a keyword argument is wrong
│   ├── FieldError         a field's name, shape, dtype, axes or origin is wrong
│   ├── AxisError          I, J or K is missing or ambiguous in the dataset
│   ├── BoundaryError      a boundary is missing or impossible here
│   ├── DatasetError       a dataset does not exist or cannot be read
│   └── OutputError        the result cannot be written where it was asked for
├── CapacityError          too big for here: needed and available bytes
├── DivergenceError        values became infinite or NaN: take smaller steps, or other data
├── CancelledError         the work was cancelled
├── DeviceError            a device failed; the same work may succeed on another
│   └── ClusterError       the scheduler or its workers are unavailable
└── InternalError          a fault of Halocline: report it
```

Every class has a stable `code`; the service maps codes to HTTP problems and the client maps them
back. A message is one sentence with the expected and the actual value; the hint is the correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

__all__ = [
    "ArgumentError",
    "AxisError",
    "BoundaryError",
    "CancelledError",
    "CapacityError",
    "ClusterError",
    "DatasetError",
    "DependenceError",
    "DeviceError",
    "DivergenceError",
    "FieldError",
    "HaloclineError",
    "InternalError",
    "LimitError",
    "NameRuleError",
    "OutputError",
    "ProgramError",
    "RequestError",
    "SourceError",
    "SyntaxRuleError",
    "TypeRuleError",
]


class HaloclineError(Exception):
    """Base class of the errors of Halocline.

    `message` is one sentence; `hint` is the correction, or empty. For an error from a service,
    `status` is the HTTP status and `problem` the whole response.
    """

    code: ClassVar[str] = "error"
    status: int = 0
    problem: Mapping[str, object] = MappingProxyType({})

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(kind: type[HaloclineError], state: dict[str, object]) -> HaloclineError:
    """Return an unpickled error with its attributes."""
    error = kind.__new__(kind)
    Exception.__init__(error, state["message"], state["hint"])
    error.__dict__.update(state)
    return error


class ProgramError(HaloclineError):
    """The program contains an error.

    `line` and `column` count from 1, or are 0 for the whole text; `excerpt` is the line with a
    caret; `rule` is the name of the broken rule. `file` and `file_line` are the place in the
    caller's own file, if the program is a function or a file. `others` are further errors in the
    same text, in its order.
    """

    code = "program"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        rule: str = "",
        line: int = 0,
        column: int = 0,
        excerpt: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.rule = rule
        self.line = line
        self.column = column
        self.excerpt = excerpt
        self.file = ""
        self.file_line = 0
        self.others: tuple[ProgramError, ...] = ()

    @property
    def place(self) -> str:
        """Place of the error: the caller's file if known, line and column; may be empty."""
        if self.file:
            return f"{self.file}, line {self.file_line}, column {self.column}"
        return f"line {self.line}, column {self.column}" if self.line else ""

    def __str__(self) -> str:
        told = f"{self.place}: {self.message}" if self.place else self.message
        lines = [part for part in (told, self.excerpt, self.hint) if part]
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
    """The text of a program cannot be read from a Python function or a file."""

    code = "program-source"


class RequestError(HaloclineError):
    """The request contains an error."""

    code = "request"


class ArgumentError(RequestError):
    """A keyword argument is unknown, missing or has a wrong value."""

    code = "argument"


class FieldError(RequestError):
    """The name, shape, dtype, axes or origin of a field does not match the program."""

    code = "field"


class AxisError(RequestError):
    """I, J or K is missing in the dataset, or ambiguous."""

    code = "axis"


class BoundaryError(RequestError):
    """A boundary condition is missing, or invalid for its dimension."""

    code = "boundary"


class DatasetError(RequestError):
    """A dataset does not exist, may not be read, or cannot be read."""

    code = "dataset"


class OutputError(RequestError):
    """The result cannot be written to the output path."""

    code = "output"


class CapacityError(HaloclineError):
    """The work does not fit into memory: `needed` and `available` are bytes."""

    code = "capacity"

    def __init__(
        self, message: str, *, hint: str = "", needed: int = 0, available: int = 0
    ) -> None:
        super().__init__(message, hint=hint)
        self.needed = needed
        self.available = available


class DivergenceError(HaloclineError):
    """The values of a run became infinite or NaN; smaller steps or other data may help."""

    code = "divergence"


class CancelledError(HaloclineError):
    """The work was cancelled."""

    code = "cancelled"


class DeviceError(HaloclineError):
    """A device failed; the same work may succeed on another."""

    code = "device"


class ClusterError(DeviceError):
    """The scheduler or its workers are unavailable; the same work may succeed later."""

    code = "cluster"


class InternalError(HaloclineError):
    """A fault of Halocline itself; please report it with the program."""

    code = "internal"
