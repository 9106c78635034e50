"""The corpus: programs in the shapes of real models mean the same on all targets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus.calls import LAYOUTS, CorpusCall, wrong
from corpus.cases import CorpusCase, corpus
from emulation.machine import ABSENT, EmulatedArtifact, compiler
from general_runs import complete
from interpreted import patch
from nvidia import compiled_everywhere

from halocline_engine.analysis.work import Operation
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.targets import DEVICE_TARGET
from halocline_engine.functions.stencil import Stencil
from halocline_engine.ir.types import Axis
from halocline_engine.ir.walk import program_bodies
from halocline_engine.program import compile_program
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.storage.coverage import assigns

CORPUS = corpus()
#: The size that tests run at: odd, and with levels for every interval.
SMALL = (7, 6, 9)


def test_there_are_enough_of_them() -> None:
    assert len(CORPUS) >= 60
    assert all(case.summary.endswith(".") for case in CORPUS)


@pytest.mark.parametrize("number", range(len(CORPUS)), ids=[case.name for case in CORPUS])
def test_loops_give_what_the_reference_gives(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the loops is run by Python; types and orders of axes take turns."""
    patch(monkeypatch)
    dtype = ("float64", "float32")[number % 2]
    call = CorpusCall(CORPUS[number], dtype, LAYOUTS[number // 2 % 2], SMALL)
    inputs = call.arrays(np)
    got: dict[str, Any] = {name: array.copy(order="K") for name, array in inputs.items()}
    call.run(call.stencil("cpu"), got)
    assert wrong(call, got, inputs) == ""
    inner = tuple(slice(halo, halo + n) for halo, n in zip(call.halo, SMALL, strict=True))
    bodies = list(program_bodies(call.compiled.program))
    for name in call.written & got.keys():
        finite = np.isfinite(got[name][_of_axes(inner, call.axes[name])])
        # What conditions leave as it is stays NaN.
        chosen = not any(assigns(body, name) for body in bodies)
        assert finite.any() if chosen else finite.all()


@pytest.mark.skipif(compiler() is None, reason=ABSENT)
@pytest.mark.parametrize("turn", range(2))
@pytest.mark.parametrize("number", range(len(CORPUS)), ids=[case.name for case in CORPUS])
def test_kernels_give_what_the_reference_gives(
    number: int, turn: int, emulation_folder: Path
) -> None:
    """In emulation, with the tiles of the program's own size; types take turns with the orders."""
    case, layout = CORPUS[number], LAYOUTS[turn]
    dtype = ("float64", "float32")[(number + turn) % 2]
    call = CorpusCall(case, dtype, layout, (61, 7, case.domain[2]))
    built = compile_program(
        case.text(dtype), stencil_name=case.name, dtypes={"real": dtype}, target=DEVICE_TARGET
    )
    kernels = EmulatedArtifact(built.schedule, emulation_folder, usual=case.domain)
    made = complete(kernels, built.program, built.facts, built.schedule.program.choices)
    on_host = call.stencil("reference").compiled
    emulated = Stencil(replace(on_host, program=built.program, facts=built.facts, artifact=made))
    inputs = call.arrays(np)
    got: dict[str, Any] = {name: array.copy(order="K") for name, array in inputs.items()}
    call.run(emulated, got)
    assert wrong(call, got, inputs) == ""


def _of_axes(parts: tuple[slice, ...], axes: tuple[Axis, ...]) -> tuple[slice, ...]:
    return tuple(part for part, axis in zip(parts, Axis, strict=True) if axis in axes)


def source(case: CorpusCase, dtype: str) -> str:
    compiled = CorpusCall(case, dtype, "KJI", case.domain).compiled
    schedule = plan(compiled.program, compiled.facts)
    variant = usual_variant(schedule)
    return emit(schedule, variant, tiles_of(schedule, variant, case.domain))


@pytest.mark.parametrize("share", range(4))
def test_nvidias_compiler_takes_them_for_each_device(share: int) -> None:
    """For three architectures; types take turns."""
    some = CORPUS[share::4]
    dtypes = ("float64", "float32") * len(some)
    found = compiled_everywhere(map(source, some, dtypes))
    for needs in found.values():
        assert {number for number, _ in needs} == set(range(len(some)))


def test_work_is_counted() -> None:
    cases = {case.name: case for case in CORPUS}
    work = CorpusCall(cases["upwind_1"], "float64", "KJI", (10, 10, 10)).work
    assert work.bytes % (8 * 1000) == 0
    assert work.operations[Operation.PLAIN] >= 1000
    scan = CorpusCall(cases["integral_up"], "float32", "KJI", (10, 10, 10)).work
    assert scan.bytes >= 2 * 4 * 1000
