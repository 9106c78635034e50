"""Functions and constants of modules that a text imports, given as externals."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import halocline_engine as he

Array = NDArray[Any]

MODEL = """
from model.constants import *
from model import physics
from model.limits import positive as clipped
from model.tables import unused


def rescaled(q):
    return 10.0 * q


def step(q: Field[np.float64], out: Field[np.float64]):
    from __externals__ import closure

    with computation(PARALLEL), interval(...):
        out = closure(q) + physics.heating(clipped(q), GRAVITY) * physics.RATE
"""
PHYSICS = """
RATE = 0.5
DEPTH = 2.0


def halved(q):
    return q / DEPTH


def heating(q, weight):
    return weight * halved(q)


def positive(q):
    return max(q, 0.0)


def twice(q):
    from __externals__ import again

    return 2.0 * again(q)


def rescaled(q):
    return 20.0 * q


def wrong(q):
    return q * missing
"""
PROGRAM = """
from halocline.gtscript import PARALLEL, Field, computation, interval

RATE = 3.0


def program(a: Field[float], b: Field[float]):
    from __externals__ import closure

    with computation(PARALLEL), interval(...):
        b = closure(a) * RATE
"""


@pytest.fixture(name="physics")
def fixture_physics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "given_physics.py").write_text(PHYSICS)
    (tmp_path / "given_program.py").write_text(PROGRAM)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("given_physics", "given_program"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("given_physics")


def given(physics: Any) -> dict[str, Any]:
    return {
        "GRAVITY": 9.81,
        "physics": physics,
        "clipped": physics.positive,
        "closure": physics.twice,
        "again": physics.halved,
        "unused": lambda q: q,  # pyright: ignore[reportUnknownLambdaType]
        "absent": physics.wrong,
    }


def result(text: str, externals: dict[str, Any]) -> tuple[Array, ...]:
    q = np.random.default_rng(3).normal(size=(3, 4, 2))
    found: list[Array] = []
    for target in ("reference", "cpu"):
        out = np.full_like(q, np.nan)
        he.stencil(text, stencil_name="step", externals=externals, target=target)(q, out)
        found.append(out)
    return q, *found


def test_functions_of_imported_modules_are_given_as_they_are(physics: Any) -> None:
    q, *outs = result(MODEL, given(physics))
    for out in outs:
        np.testing.assert_array_equal(out, 2.0 * (q / 2.0) + 9.81 * (np.maximum(q, 0) / 2.0) * 0.5)


def test_a_namespace_or_a_mapping_stands_for_a_module(physics: Any) -> None:
    mapping: dict[str, Any] = {"heating": physics.heating, "RATE": 0.25}
    wholes: list[Any] = [SimpleNamespace(**mapping), mapping]
    for whole in wholes:
        q, out, _ = result(MODEL, given(physics) | {"physics": whole})
        np.testing.assert_array_equal(out, 2.0 * (q / 2.0) + 9.81 * (np.maximum(q, 0) / 2.0) * 0.25)


def test_a_program_that_is_a_function_calls_functions_of_its_externals(physics: Any) -> None:
    program = importlib.import_module("given_program").program
    a, b = np.arange(6.0).reshape(1, 2, 3), np.zeros((1, 2, 3))
    he.stencil(program, externals={"closure": physics.halved}, target="reference")(a, b)
    np.testing.assert_array_equal(b, a / 2.0 * 3.0)


def test_a_function_that_the_text_has_is_taken_from_there(physics: Any) -> None:
    text = PHYSICS + MODEL.replace("def rescaled(q):\n    return 10.0 * q\n", "")
    q, out, _ = result(text, given(physics))
    np.testing.assert_array_equal(out, 2.0 * (q / 2.0) + 9.81 * (np.maximum(q, 0) / 2.0) * 0.5)


def test_another_function_of_a_name_of_the_text_is_another_one(physics: Any) -> None:
    externals = given(physics) | {"closure": physics.rescaled}
    text = MODEL.replace("closure(q) +", "closure(q) - rescaled(q) +")
    q, out, _ = result(text, externals)
    rest = 9.81 * (np.maximum(q, 0) / 2.0) * 0.5
    np.testing.assert_array_equal(out, 20.0 * q - 10.0 * q + rest)
    other = MODEL + "\n\ndef also(q):\n    return physics.rescaled(q)\n"
    assert result(other, given(physics))[1].shape == (3, 4, 2)


def test_an_import_has_one_value_in_the_text_and_in_the_functions(physics: Any) -> None:
    text = MODEL.replace("GRAVITY", "DEPTH")
    q, out, _ = result(text, given(physics) | {"DEPTH": 2.0})
    np.testing.assert_array_equal(out, 2.0 * (q / 2.0) + 2.0 * (np.maximum(q, 0) / 2.0) * 0.5)
    with pytest.raises(he.SourceError, match="The name 'DEPTH' means one thing in 'halved'"):
        he.stencil(text, externals=given(physics) | {"DEPTH": 3.0}, target="reference")


def test_an_error_in_a_function_is_shown_with_its_own_file(physics: Any) -> None:
    with pytest.raises(he.NameRuleError, match="The name 'missing' is unknown") as caught:
        he.stencil(MODEL, externals=given(physics) | {"closure": physics.wrong}, target="reference")
    assert caught.value.file == physics.__file__
    line = PHYSICS[: PHYSICS.index("return q * missing")].count("\n") + 1
    assert caught.value.file_line == line


STARRED = """
from model.constants import *
import math

def f(a: Field[float], b: Field[float]):
    with computation(PARALLEL), interval(...):
        t = RADIUS * a
        b = t + math.pi
"""


def test_an_import_of_all_names_takes_them_from_the_caller() -> None:
    a, b = np.ones((1, 1, 2)), np.zeros((1, 1, 2))
    # What the program defines itself is not looked up.
    externals = {"RADIUS": 2.0, "t": 7.0, "a": 5.0, "math": 1.0}
    he.stencil(STARRED, externals=externals, target="reference")(a, b)
    np.testing.assert_array_equal(b, 2.0 + math.pi)


@pytest.mark.parametrize("wrong", ["RADIUS", "radius(t)"])
def test_a_name_that_nobody_gives_may_be_one_of_all(wrong: str) -> None:
    with pytest.raises(he.NameRuleError) as caught:
        he.stencil(STARRED.replace("RADIUS", wrong), target="reference")
    assert caught.value.hint == "If an 'import *' brings it, pass its value in 'externals'."
