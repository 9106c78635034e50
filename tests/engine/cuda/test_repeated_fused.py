"""`Stencil.repeat` makes several steps at once and leaves every array as single steps do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedMachine

from halocline_engine.backends.base import Array, Value
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.backends.cuda.runtime.fused import FusedExecutable
from halocline_engine.backends.fusing import FusingExecutable
from halocline_engine.backends.repetition import make_steps
from halocline_engine.cache import Cache
from halocline_engine.program import compile_program
from halocline_engine.schedule.temporal.step import Refused

TWO = """
def two(a: Field[float64], p: Field[float64], b: Field[float64], q: Field[float64],
        d: Field[float64], w: float64):
    with computation(PARALLEL), interval(...):
        q = p + w * (a[-1, 0, 0] + a[1, 0, 0] + a[0, -1, 0] + a[0, 1, 0] - 4.0 * a)
        b = a + w * (p[-1, 0, 0] + p[1, 0, 0] + p[0, -1, 0] + p[0, 1, 0] - 4.0 * p)
        d = q - b
"""
FEEDBACK = {"q": "p", "b": "a"}
SCALARS = {"w": 0.1}


@dataclass
class Eager(FusingExecutable[FusedExecutable]):
    """An executable that makes so many steps at once on any domain, and counts them."""

    executable: CudaExecutable
    at_once: int
    asked: list[int] = field(default_factory=list[int])
    singles: int = 0

    @property
    def memory(self) -> Any:
        return self.executable.memory

    def __call__(
        self,
        fields: Mapping[str, Array],
        scalars: Mapping[str, Value],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
    ) -> None:
        self.singles += 1
        self.executable(fields, scalars, origins, domain)

    def repeat(self, work: Any, times: int, look: Any = None) -> None:
        for _ in range(times):
            work()

    def fused_in_turns(self, steps: int, feedback: Mapping[str, str]) -> FusedExecutable | Refused:
        self.asked.append(steps)
        return self.executable.fused_in_turns(steps, feedback)

    def fused_steps_in_turns(
        self, feedback: Mapping[str, str], domain: tuple[int, int, int], fields: Mapping[str, Array]
    ) -> int:
        return self.at_once


@pytest.fixture
def executable(emulation_folder: Path) -> CudaExecutable:
    machine = EmulatedMachine(emulation_folder / "loaded")
    schedule = compile_program(TWO, target="cuda").schedule
    return CudaExecutable(schedule, machine, Cache(emulation_folder / "compiled"))


def arrays() -> dict[str, Any]:
    """Return arrays whose halos all differ."""
    random = np.random.default_rng(4)
    return {name: np.asfortranarray(random.normal(size=(43, 12, 2))) for name in "apbqd"}


@pytest.mark.parametrize(
    ("steps", "at_once", "singles"),
    [(7, 3, 1), (8, 3, 2), (9, 3, 3), (21, 5, 1), (23, 3, 2), (6, 3, 6), (4, 1, 4), (2, 3, 2)],
)
def test_every_array_is_as_after_single_steps(
    executable: CudaExecutable, steps: int, at_once: int, singles: int
) -> None:
    domain, origins = (41, 10, 2), dict.fromkeys("apbqd", (1, 1, 0))
    one, several = arrays(), arrays()
    reference = compile_program(TWO, target="reference").artifact.load()
    turned = dict(zip("apbqd", "bqapd", strict=True))
    for step in range(steps):
        given = one if step % 2 == 0 else {name: one[turned[name]] for name in one}
        reference(given, SCALARS, origins, domain)
    eager = Eager(executable, at_once)
    there = (several, SCALARS, origins, domain)
    back = ({name: several[turned[name]] for name in several}, SCALARS, origins, domain)
    make_steps(eager, (there, back), steps, FEEDBACK)
    assert eager.singles == singles
    assert eager.asked == ([at_once] if singles < steps else [])
    for name, array in one.items():
        np.testing.assert_array_equal(several[name], array, err_msg=name)


def test_small_domains_are_made_step_by_step(executable: CudaExecutable) -> None:
    assert isinstance(executable, FusingExecutable)
    given = arrays()
    assert executable.fused_steps_in_turns(FEEDBACK, (41, 10, 2), given) == 1
    assert executable.fused_steps_in_turns(FEEDBACK, (4001, 4010, 2), given) in (3, 5, 7, 9, 11)
    across = {name: np.ascontiguousarray(array) for name, array in given.items()}
    assert executable.fused_steps_in_turns(FEEDBACK, (4001, 4010, 2), across) == 1
