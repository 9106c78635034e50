"""Modules of a model that give a name different meanings: each of them keeps its own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import halocline_engine as he

MODULES = {
    "clash_cold_values": "FREEZING = 1.0\nSIZE = 3\n",
    "clash_warm_values": "FREEZING = 5.0\nSIZE = 4\n",
    "clash_cold": """
import clash_cold_values as values
from halocline.gtscript import Field, float32

FACTOR = 2.0
Real = Field[float32]


def weight(q: Real):
    return q * FACTOR


def melted(q):
    grown = weight(q) if q > 0.0 else values.FREEZING * (
        values.
        FREEZING) + weight(q)
    return grown + values.FREEZING
""",
    "clash_warm": """
import clash_cold as other
import clash_warm_values as values
from clash_cold import melted as cooled

FACTOR = 3.0


def weight(q):
    return q + FACTOR


def melted(q):
    é = q
    return é * 0.0 + other.weight(q) + weight(q) * values.FREEZING + cooled(q)


def scaled(q):
    return weight(q) - other.melted(q)


def wrong(q):
    return weight(q) + missing
""",
}
MODEL = """
import clash_cold as cold
import clash_warm as warm
import clash_warm_values as values
from halocline.gtscript import Field, float64
from clash_warm import melted as also

FACTOR = 7.0
Real = Field[float64]


def weight(q):
    return q - FACTOR


def step(q: Real, out: Real):
    from __externals__ import closure

    with computation(PARALLEL), interval(...):
        out = weight(q) + cold.melted(q) * warm.melted(q) + also(q) * values.FREEZING
        out = out + closure(q) + warm.weight(q)


LOG = {"calls": 0}


def count(key):
    if key in LOG:
        with open(key) as file:
            LOG[key] += len(file.read())
    return Model(key)


class Model:
    def __init__(self, key):
        self.log = count(key) or LOG
"""


@pytest.fixture(name="modules")
def fixture_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name, text in {**MODULES, "clash_model": MODEL}.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    return {name: importlib.import_module(name) for name in MODULES}


def given(modules: dict[str, Any]) -> dict[str, Any]:
    cold, warm = modules["clash_cold"], modules["clash_warm"]
    values = modules["clash_warm_values"]
    closure = warm.scaled
    return {"cold": cold, "warm": warm, "values": values, "also": warm.melted, "closure": closure}


def run(program: Any, externals: dict[str, Any], target: str) -> tuple[NDArray[Any], NDArray[Any]]:
    q = np.random.default_rng(5).normal(size=(3, 4, 2))
    out = np.full_like(q, np.nan)
    he.stencil(program, stencil_name="step", externals=externals, target=target)(q, out)
    return q, out


def expected(modules: dict[str, Any], q: NDArray[Any]) -> NDArray[Any]:
    """Compute what the modules say, as Python has it."""
    cold, warm = (
        np.vectorize(modules["clash_cold"].melted),
        np.vectorize(modules["clash_warm"].melted),
    )
    scaled = np.vectorize(modules["clash_warm"].scaled)
    out = (q - 7.0) + cold(q) * warm(q) + warm(q) * 5.0
    result: NDArray[Any] = out + scaled(q) + (q + 3.0)
    return result


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_each_module_has_its_own_meaning_of_a_name(modules: dict[str, Any], target: str) -> None:
    q, out = run(MODEL, given(modules), target)
    np.testing.assert_array_equal(out, expected(modules, q))


def test_a_whole_namespace_may_be_given_too(modules: dict[str, Any]) -> None:
    model = importlib.import_module("clash_model")
    path = Path(str(model.__file__))
    externals = vars(model) | {"closure": modules["clash_warm"].scaled}
    q, out = run(path, externals, "reference")
    np.testing.assert_array_equal(out, expected(modules, q))
    # Other functions and classes of the model are not needed, also where no stencil is named.
    again = he.stencil(path, externals=externals, target="reference")
    assert again.name == "step"


def test_a_program_that_is_a_function_has_them_as_well(modules: dict[str, Any]) -> None:
    model = importlib.import_module("clash_model")
    q, out = run(model.step, {"closure": modules["clash_warm"].scaled}, "reference")
    np.testing.assert_array_equal(out, expected(modules, q))


def test_an_error_is_shown_at_its_line_of_its_file(modules: dict[str, Any]) -> None:
    externals = given(modules) | {"closure": modules["clash_warm"].wrong}
    with pytest.raises(he.NameRuleError, match="The name 'missing' is unknown") as caught:
        he.stencil(MODEL, stencil_name="step", externals=externals, target="reference")
    assert caught.value.file == modules["clash_warm"].__file__
    text = MODULES["clash_warm"]
    assert caught.value.file_line == text[: text.index("+ missing")].count("\n") + 1
