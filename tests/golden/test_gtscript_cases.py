"""Programs with inputs and outputs that GT4Py computed: the same values, on every target."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedArtifact
from lowered import lower
from on_device import OnDevice

from halocline_engine.analysis.dependence import check
from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.compiled import retargeted
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.device.probe import device_count
from halocline_engine.functions.stencil import Stencil
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.verify import verify
from halocline_engine.language.gtscript import parse
from halocline_engine.passes.pipeline import PASSES
from halocline_engine.schedule.plan import plan

DATA = Path(__file__).parents[1] / "data" / "gtscript"
CASES = sorted(path.stem for path in DATA.glob("o*.json"))
SYNTAX = parse((DATA / "own_stencils.py").read_text())

#: Targets that run on any machine; "cuda-emulated" is generated CUDA that runs on the host.
TARGETS = ("reference", "cpu", "cuda-emulated", *(("cuda",) if device_count() else ()))


def load(case: str) -> dict[str, Any]:
    return json.loads((DATA / f"{case}.json").read_text())


def lowered(about: dict[str, Any]) -> Program:
    options: dict[str, Any] = about.get("options") or {}
    return lower(
        SYNTAX,
        name=about["stencil"],
        externals=about.get("externals"),
        dtypes=about.get("dtypes"),
        literal_int=options.get("literal_int_precision", 64),
        literal_float=options.get("literal_float_precision", 64),
    )


def compiled(about: dict[str, Any], target: str) -> Stencil:
    """Compile as `he.stencil` does, with the precision of literals that a case asks for."""
    program = lowered(about)
    for rewrite in PASSES:
        program = rewrite(program)
        verify(program)
    check(program)
    facts = analyse(program)
    schedule = plan(program, facts)
    return Stencil(retargeted(program, facts, schedule, target))


def box(about: dict[str, Any], name: str) -> tuple[slice, ...]:
    """Return the indices of the domain in one field."""
    axes = about["fields_info"][name]["axes"]
    origin = about["origin"].get(name, about["origin"].get("_all_"))
    if len(origin) == 3:
        origin = [origin["IJK".index(axis)] for axis in axes]
    sizes = [about["domain"]["IJK".index(axis)] for axis in axes]
    return tuple(slice(o, o + n) for o, n in zip(origin, sizes, strict=True))


def test_all_cases_are_there() -> None:
    assert len(CASES) == 53


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_gt4py(case: str, target: str, request: pytest.FixtureRequest) -> None:
    about = load(case)
    stencil = compiled(about, "reference" if target == "cuda-emulated" else target)
    if target == "cuda-emulated":
        folder = request.getfixturevalue("emulation_folder")
        kernels = EmulatedArtifact(stencil.compiled.schedule, folder)
        artifact = with_made_fields(kernels, stencil.compiled.program, stencil.compiled.facts)
        stencil = Stencil(replace(stencil.compiled, artifact=artifact))
    with np.load(DATA / f"{case}.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    used = {name for name, info in about["fields_info"].items() if info["access"] != "NONE"}
    fields = {name: arrays[f"in_{name}"].copy() for name in used}
    unused = {name: None for name in about["fields_info"] if name not in used}
    origin = {
        name: value for name, value in about["origin"].items() if name == "_all_" or name in used
    }
    scalars: dict[str, Any] = about.get("scalars") or {}
    run = OnDevice(stencil) if target == "cuda" else stencil
    run(**fields, **unused, **scalars, origin=origin, domain=tuple(about["domain"]))
    for name, result in fields.items():
        expected = arrays.get(f"out_{name}", arrays[f"in_{name}"])
        assert result.dtype == expected.dtype
        tolerance = about["tolerance"].get(name, {}).get("atol", 0.0)
        if name not in about["changed"] or not np.issubdtype(result.dtype, np.floating):
            tolerance = 0.0
        np.testing.assert_allclose(result, expected, rtol=0.0, atol=tolerance, err_msg=name)
        outside = np.ones(result.shape, bool)
        outside[box(about, name)] = False
        np.testing.assert_array_equal(result[outside], arrays[f"in_{name}"][outside])


@pytest.mark.parametrize("case", CASES)
def test_halos_are_those_of_gt4py(case: str) -> None:
    about = load(case)
    facts = analyse(lowered(about))
    for name, info in about["fields_info"].items():
        if info["access"] == "NONE":
            continue
        parts = [facts.fields[each] for each in facts.fields if each.split(".")[0] == name]
        for number, axis in enumerate("IJK"):
            before, after = info["boundary_IJK"][number]
            low = min(extent[number][0] for extent in parts)
            high = max(extent[number][1] for extent in parts)
            if axis in info["axes"]:
                assert (max(0, -low), max(0, high)) == (max(0, before), max(0, after)), name
