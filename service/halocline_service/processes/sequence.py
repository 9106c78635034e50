"""`sequence` runs several processes one after the other, step by step, as one job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field, create_model, model_validator

from halocline_engine.errors import HaloclineError
from halocline_engine.interface.stage_counts import MOST_STAGES, check_stage_count
from halocline_service.processes.base import WHOLE, DatasetInputs, Inputs, Process
from halocline_service.processes.blocks import (
    Chunks,
    Feedback,
    Output,
    SnapshotEvery,
    Steps,
    Target,
)
from halocline_service.processes.column import COLUMN
from halocline_service.processes.solves.pentadiagonal import PENTADIAGONAL
from halocline_service.processes.solves.solve import SOLVE
from halocline_service.processes.solves.tree import TREE
from halocline_service.processes.solves.tridiagonal import TRIDIAGONAL
from halocline_service.processes.stencil import STENCIL, program_arguments
from halocline_service.processes.transfers.gather import GATHER
from halocline_service.processes.transfers.neighbours import NEIGHBOURS
from halocline_service.processes.transfers.regrid import REGRID
from halocline_service.processes.transfers.scatter import SCATTER

__all__ = ["SEQUENCE", "SequenceInputs", "check_stages"]

_KINDS: Mapping[str, Process] = {
    process.id: process
    for process in (
        *(STENCIL, COLUMN, TRIDIAGONAL, PENTADIAGONAL, SOLVE, TREE),
        *(GATHER, SCATTER, NEIGHBOURS, REGRID),
    )
}
#: Inputs of stages that are run several times.
_REPEATED = {"repeat", "stages"}
#: Inputs of these that belong to the whole sequence, or are not allowed in a stage.
_OF_ALL = frozenset(
    {
        *("dataset", "target", "mode", "steps", "until", "snapshot_every", "time", "order"),
        "diagnostics",
    }
)


class _OneKind(Inputs):
    """A stage: one kind with its arguments."""

    @model_validator(mode="after")
    def _one(self) -> _OneKind:
        given = self.model_fields_set
        if given != _REPEATED and (len(given) != 1 or given & _REPEATED):
            kinds = ", ".join(_KINDS)
            raise ValueError(
                f"A stage must be one kind with its arguments, of {kinds}, or have 'repeat' and"
                " 'stages'."
            )
        return self

    @property
    def repeated(self) -> tuple[int, Sequence[_OneKind]] | None:
        """How often which stages are run, None where this is one stage."""
        if self.model_fields_set != _REPEATED:
            return None
        return getattr(self, "repeat"), getattr(self, "stages")  # noqa: B009 - of made models

    @property
    def kind(self) -> str:
        """Name of the kind."""
        (kind,) = self.model_fields_set
        return kind

    @property
    def arguments(self) -> dict[str, Any]:
        """Its arguments, as they were given."""
        return getattr(self, self.kind).model_dump(exclude_unset=True)


def _arguments_of(process: Process) -> Any:
    """Return the model of a process's inputs but those of the whole sequence."""
    fields = process.inputs.model_fields.items()
    own: dict[str, Any] = {
        name: (info.rebuild_annotation(), info) for name, info in fields if name not in _OF_ALL
    }
    made = create_model(f"{process.id.capitalize()}Stage", __base__=Inputs, **own)
    return Annotated[
        made | None, Field(title=process.title, description=f"Inputs of '{process.id}'.")
    ]


def _stage_model(name: str, inner: Any) -> Any:
    """Return the model of a stage, which may repeat `inner` ones, if there are any."""
    fields: dict[str, Any] = {
        kind: (_arguments_of(process), None) for kind, process in _KINDS.items()
    }
    if inner is not None:
        about = "How often 'stages' are run in a row."
        fields["repeat"] = (
            Annotated[
                int | None,
                Field(title="Repeat", description=about, ge=1, le=MOST_STAGES),
                WHOLE,
            ],
            None,
        )
        about = "The stages that are repeated."
        fields["stages"] = (
            Annotated[
                list[inner] | None,
                Field(title="Stages", description=about, min_length=1, max_length=64),
            ],
            None,
        )
    return create_model(name, __base__=_OneKind, **fields)


if TYPE_CHECKING:
    _Stage = _OneKind
else:
    _Stage = _stage_model("Stage", _stage_model("RepeatedStage", _stage_model("InnerStage", None)))


class SequenceInputs(DatasetInputs):
    """The keyword arguments of `sequence`, as JSON."""

    stages: Annotated[
        list[_Stage],
        Field(
            title="Stages",
            description="Stages of a step, each as an object with one process by its identifier "
            "and its inputs except the dataset, or with 'repeat' and 'stages'. A stage reads the "
            "results of earlier stages.",
            min_length=1,
            max_length=64,
        ),
    ]
    target: Target = "auto"
    mode: Annotated[
        Literal["auto", "streamed", "resident"],
        Field(
            title="Mode",
            description="Whether stages pass through memory, or variables stay there.",
        ),
    ] = "auto"
    chunks: Chunks = None
    steps: Steps = 1
    feedback: Feedback = None
    snapshot_every: SnapshotEvery = None
    results: Annotated[
        list[Output] | None,
        Field(
            title="Results",
            description="Results of stages to return; by default all.",
            min_length=1,
            max_length=256,
        ),
    ] = None

    @classmethod
    def references_in(cls, given: Mapping[str, Any]) -> dict[str, str]:
        """Give what names datasets in inputs as JSON; those of stages by their places there."""
        found = {name: str(given[name]) for name in cls.datasets if name in given}
        for place, kind, arguments in _stages_in(given):
            beside = _beside(kind)
            found |= {
                f"{place}.{kind}.{name}": str(arguments[name])
                for name in beside
                if name in arguments
            }
        return found

    def keywords(self, places: Mapping[str, Any]) -> dict[str, Any]:
        """Give the keyword arguments, with the places of datasets instead of what names them."""
        return {
            "dataset": places["dataset"],
            **self.arguments(),
            "stages": _keywords(self.stages, places, ""),
        }


def _keywords(
    stages: Sequence[_OneKind], places: Mapping[str, Any], within: str
) -> list[dict[str, Any]]:
    """Return stages with the places of datasets instead of the names of them."""
    found: list[dict[str, Any]] = []
    for number, stage in enumerate(stages):
        place = f"{within}stages.{number}"
        if stage.repeated is not None:
            count, parts = stage.repeated
            found.append({"repeat": count, "stages": _keywords(parts, places, f"{place}.")})
            continue
        kind, arguments = stage.kind, stage.arguments
        names = [name for name in _beside(kind) if name in arguments]
        arguments |= {name: places[f"{place}.{kind}.{name}"] for name in names}
        if kind == STENCIL.id:
            arguments = program_arguments(arguments)
        found.append({kind: arguments})
    return found


def _stages_in(
    given: Mapping[str, Any], within: str = ""
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the place, kind and arguments of each stage in inputs as JSON."""
    stages = cast("Sequence[Mapping[str, Any]]", given.get("stages") or ())
    for number, stage in enumerate(stages):
        place = f"{within}stages.{number}"
        yield from _stages_in(stage, f"{place}.")
        for kind, arguments in stage.items():
            if kind in _KINDS and isinstance(arguments, Mapping):
                yield place, kind, cast("Mapping[str, Any]", arguments)


def _beside(kind: str) -> tuple[str, ...]:
    """Return the inputs of a kind that name datasets beside the one of the sequence."""
    model = _KINDS[kind].inputs
    assert issubclass(model, DatasetInputs)
    return tuple(name for name in model.datasets if name != "dataset")


def check_stages(inputs: SequenceInputs) -> None:
    """Check each stage as its process would."""
    check_stage_count(_runs(inputs.stages))
    _check(inputs.stages, "")


def _runs(stages: Sequence[_OneKind]) -> int:
    """Return how many stages a step runs."""
    repeated = [stage.repeated for stage in stages]
    return sum(1 if each is None else each[0] * _runs(each[1]) for each in repeated)


def _check(stages: Sequence[_OneKind], within: str) -> None:
    for number, stage in enumerate(stages, 1):
        if stage.repeated is not None:
            _check(stage.repeated[1], f"{within}{number}.")
            continue
        process = _KINDS[stage.kind]
        whole = process.inputs.model_validate({"dataset": "-", **stage.arguments})
        try:
            process.check(whole)
        except HaloclineError as error:
            error.message = f"Stage {within}{number}, '{stage.kind}': {error.message}"
            raise


SEQUENCE = Process(
    id="sequence",
    version="1.0.0",
    title="Sequence of stages",
    description="Runs several processes one after the other, step by step, as one job.",
    keywords=("sequence", "stages", "steps", "xarray", "zarr"),
    inputs=SequenceInputs,
    check=check_stages,
)
