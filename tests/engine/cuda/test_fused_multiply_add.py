"""Fused arithmetic in generated CUDA: the bits of the reference, step by step and at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import feedback_steps
import numpy as np
import pytest
from differential import front
from emulation.machine import EmulatedMachine
from feedback_steps import CLOSED, fed_program, grid_of

from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.cache import Cache
from halocline_engine.passes.contract import contract
from halocline_engine.program import compile_program
from halocline_engine.schedule.temporal.step import Refused


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("seed", [2, 5, 11])
def test_bits_are_those_of_the_reference(
    seed: int, steps: int, emulation_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fused(text: str) -> Any:
        program = contract(front(text)[0])
        return program, analyse(program)

    monkeypatch.setattr(feedback_steps, "front", fused)
    fed = fed_program(seed)
    grid = grid_of(fed, steps, (45, 12, 2), CLOSED, seed)
    compiled = compile_program(fed.text, target="cuda", arithmetic="fused")
    machine = EmulatedMachine(emulation_folder / "loaded")
    executable = CudaExecutable(compiled.schedule, machine, Cache(emulation_folder / "compiled"))
    assert "fma" in compiled.artifact.source
    made = executable if steps == 1 else executable.fused(steps, fed.feedback, CLOSED)
    assert not isinstance(made, Refused)
    made(grid.arrays, grid.scalars, grid.origins, grid.domain)
    for name, values in grid.expected().items():
        np.testing.assert_array_equal(grid.inside(grid.arrays, name), values)


def executable_text(compiled: Any) -> str:
    return compiled.artifact.source
