"""The request of a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from halocline_engine.distribute.sequences.template import Repeated, StageOf
from halocline_engine.distribute.tasks.options import Options

__all__ = ["Kept", "SequenceRequest"]


@dataclass(frozen=True, slots=True)
class Kept:
    """Place of values between two steps; `fingerprint` names the job."""

    workspace: Path
    attempt: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequenceRequest:
    """Request of a caller; `kinds` are those of the stages, in words.

    `results` names the wanted ones of the variables that are made, or is None for all. With
    `every`, results are kept after so many steps as well. `chunks` are sizes of blocks.
    """

    stages: tuple[StageOf | Repeated, ...]
    kinds: str
    steps: int
    feedback: Mapping[str, str]
    every: int | None
    results: tuple[str, ...] | None
    output: Path | None
    kept: Kept | None
    mode: str
    chunks: Mapping[str, int]
    options: Options

    @property
    def is_once(self) -> bool:
        """Whether each stage is run once in all."""
        return self.steps == 1 and not any(isinstance(one, Repeated) for one in self.stages)
