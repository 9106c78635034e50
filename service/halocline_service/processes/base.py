"""Definition of a process: inputs as a pydantic model, outputs, kinds of execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

__all__ = [
    "RESULT",
    "WHOLE",
    "Control",
    "DatasetInputs",
    "Execution",
    "Inputs",
    "OutputDescription",
    "Process",
    "ProgramText",
    "ReadingInputs",
    "names",
]


def _as_whole(given: Any) -> Any:
    return int(given) if isinstance(given, float) and given.is_integer() else given


#: Of an `int`, behind its bounds: JSON may write it as 5.0.
WHOLE = BeforeValidator(_as_whole)


def names(kind: str) -> dict[str, Any]:
    """Return the member of a JSON Schema with the kind of object that a text names, for forms.

    Kinds are "dataset", "variable" and "dimension" of the dataset, and, of a program, its "field"s,
    "scalar"s, fields that are read as "input" or written as "output".
    """
    return {"x-names": kind}


#: A text that is parsed and never executed as Python.
ProgramText: TypeAlias = Annotated[
    str,
    Field(
        min_length=1,
        max_length=524_288,
        json_schema_extra={"contentMediaType": "text/x-python"},
    ),
]


class Inputs(BaseModel):
    """The inputs of a process; a name that is not among them is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class ReadingInputs(Inputs):
    """The inputs of a process that reads datasets."""

    @classmethod
    def references_in(cls, given: Mapping[str, Any]) -> dict[str, str]:
        """Give what names datasets in inputs as JSON, by input."""
        raise NotImplementedError

    def references(self) -> dict[str, str]:
        """Give what names datasets, by input."""
        return self.references_in(self.model_dump())


class DatasetInputs(ReadingInputs):
    """The inputs of a process that makes a dataset from a dataset.

    They are the keyword arguments of the engine's function that has the name of the process.
    """

    #: Inputs that name datasets, as `dataset` does.
    datasets: ClassVar[tuple[str, ...]] = ("dataset",)

    dataset: Annotated[
        str,
        Field(
            title="Dataset",
            description="'upload:<id>', 'job:<id>', or the path or file URL of a Zarr store or "
            "NetCDF file in a folder of the service.",
            min_length=1,
            max_length=4096,
            json_schema_extra=names("dataset"),
        ),
    ]

    @classmethod
    def references_in(cls, given: Mapping[str, Any]) -> dict[str, str]:
        """Give what names datasets in inputs as JSON, by input."""
        return {name: given[name] for name in cls.datasets}

    def arguments(self) -> dict[str, Any]:
        """Give the keyword arguments that were asked for, but those that name datasets."""
        return self.model_dump(exclude={*self.datasets}, exclude_unset=True)

    def keywords(self, places: Mapping[str, Any]) -> dict[str, Any]:
        """Give all of them, with the places of datasets instead of what names them."""
        return {**places, **self.arguments()}


class Control(StrEnum):
    """Ways to execute a process, in the words of OGC API - Processes."""

    SYNC = "sync-execute"
    ASYNC = "async-execute"
    DISMISS = "dismiss"


@dataclass(frozen=True, slots=True)
class OutputDescription:
    """One output: its title and its JSON Schema."""

    title: str
    description: str
    schema: Mapping[str, Any]


#: The output of a process that makes a dataset.
RESULT: Mapping[str, OutputDescription] = MappingProxyType(
    {
        "result": OutputDescription(
            title="Result",
            description="The computed dataset, as a Zarr store.",
            schema={"type": "string", "format": "uri", "contentMediaType": "application/vnd+zarr"},
        )
    }
)


@dataclass(frozen=True, slots=True)
class Execution:
    """Computes the outputs of a small process, inline.

    `run` gives them for checked inputs, and takes no time worth speaking of; `pause` says how many
    seconds whoever runs it is to wait before, in its own way.
    """

    run: Callable[[Any], dict[str, Any]]
    pause: Callable[[Any], float]


def _unchecked(_inputs: Any) -> None:
    """Leave the rest to the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that can be asked for over HTTP.

    `check` raises an error of the engine's tree where checked inputs cannot be run, as far as
    can be told without reading data. `inline` is None where the engine computes. `tell` says what
    the program among inputs needs and does, as JSON, for who is still writing the others; it raises
    what `check` does, or pydantic's ValidationError. What most processes have need not be said:
    they make a dataset, in a job, and leave checks to the data.
    """

    id: str
    version: str
    title: str
    description: str
    keywords: tuple[str, ...]
    inputs: type[Inputs]
    outputs: Mapping[str, OutputDescription] = field(default_factory=lambda: RESULT)
    control: tuple[Control, ...] = (Control.ASYNC, Control.DISMISS)
    check: Callable[[Any], None] = _unchecked
    inline: Execution | None = None
    tell: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None

    @property
    def writes(self) -> bool:
        """Whether a job of it stores a dataset."""
        return self.outputs is RESULT

    @property
    def may_run_now(self) -> bool:
        """Whether the answer can be given in the response itself."""
        return Control.SYNC in self.control
