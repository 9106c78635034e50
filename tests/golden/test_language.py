"""The constructs of the stencil language mean what its reference says, on every target."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedArtifact
from language_constructs import DOMAIN, FIELDS, HALO, SECTIONS, Example, sample
from language_page import rendered

import halocline_engine as he
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.functions.stencil import Stencil

PAGE = Path(__file__).parents[2] / "docs" / "language.md"
EXTERNALS = {"FACTOR": 4}
EXAMPLES = {
    section: tuple(one for construct in constructs for one in construct.examples)
    for section, constructs in SECTIONS.items()
}


def own_names(code: str, number: int) -> str:
    """Return statements whose outputs and temporaries no other example has."""
    return re.sub(r"\b(out|ground|t\d)\b", rf"\1_{number}", code)


def indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())


def program_of(examples: Iterable[Example]) -> str:
    """Return one program that assigns `out_0`, `ground_1` and so on."""
    above, parameters, body = "", [f"{name}: {kind}" for name, kind in FIELDS.items()], ""
    for number, example in enumerate(examples):
        above += f"{example.above}\n\n\n" if example.above else ""
        kind = "Field[IJ, np.float64]" if "ground" in example.code else "Field[np.float64]"
        parameters.append(own_names(f"{output_of(example)}: {kind}", number))
        code = example.code
        if "computation" not in code:
            code = f"with computation(PARALLEL), interval(...):\n{indented(code)}"
        body += indented(own_names(code, number))
    scalars = [one for one in parameters if one.endswith((": float", ": int"))]
    fields = [one for one in parameters if one not in scalars]
    return f"{above}def f({', '.join([*fields, '*', *scalars])}):\n{body}"


def output_of(example: Example) -> str:
    return "ground" if "ground" in example.code else "out"


def compiled(text: str, target: str, folder: Path) -> Stencil:
    emulated = target == "cuda-emulated"
    stencil = he.stencil(text, target="reference" if emulated else target, externals=EXTERNALS)
    if emulated:
        kernels = EmulatedArtifact(stencil.compiled.schedule, folder)
        artifact = with_made_fields(kernels, stencil.compiled.program, stencil.compiled.facts)
        stencil = Stencil(replace(stencil.compiled, artifact=artifact))
    return stencil


@pytest.mark.parametrize("target", ["reference", "cpu", "cuda-emulated"])
@pytest.mark.parametrize("section", SECTIONS)
def test_examples_have_the_values_that_numpy_computes(
    section: str, target: str, emulation_folder: Path
) -> None:
    given, examples = sample(), EXAMPLES[section]
    stencil = compiled(program_of(examples), target, emulation_folder)
    fields: dict[str, Any] = {
        name: value[0, 0]
        if name == "profile"
        else value[:, :, 0]
        if value.shape[2:3] == (1,)
        else value
        for name, value in given.arrays.items()
        if np.ndim(value)
    }
    shape = tuple(n + 2 * HALO for n in DOMAIN)
    for number, one in enumerate(examples):
        name = output_of(one)
        fields[f"{name}_{number}"] = np.full(shape[:2] if name == "ground" else shape, np.nan)
    scalars = {name: given.arrays[name] for name in ("s", "m")}
    stencil(**fields, **scalars, origin=(HALO,) * 3, domain=DOMAIN)
    inside = tuple(slice(HALO, -HALO) for _ in DOMAIN)
    for number, one in enumerate(examples):
        with np.errstate(all="ignore"):
            expected = np.asarray(one.expected(given), np.float64)
        name = output_of(one)
        if name == "ground":
            got, expected = fields[f"ground_{number}"][inside[:2]], expected[:, :, 0]
        else:
            got = fields[f"out_{number}"][inside]
        np.testing.assert_allclose(
            got, np.broadcast_to(expected, got.shape), rtol=1e-13, atol=1e-15, err_msg=one.code
        )


def test_constructs_without_examples_have_their_own_tests() -> None:
    bare = [one.forms[0] for each in SECTIONS.values() for one in each if not one.examples]
    assert bare == ["a[near[0]]"]  # test_tables.py


def test_the_reference_is_written_from_the_constructs() -> None:
    text = PAGE.read_text("utf-8")
    assert text == rendered(text), "run python tests/support/language_page.py"
