"""Types and sizes that a text imports, given as dtypes or externals, or all of a module's."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halocline_engine as he

TYPES = """
import numpy as np
from halocline.gtscript import IJ, Field, GlobalTable

SPECIES = 3
real = np.float32
Species = Field[(np.float32, (SPECIES,))]
Plane = Field[IJ, np.float32]
Lookup = GlobalTable[(np.float64, (4,))]
pair = (np.float64, (2,))


def positive(q: Plane):
    return max(q, real(0.0))


TITLE = "none of the program's business"
"""
MODEL = """
import numpy as np
from halocline.gtscript import *
from given_model_types import SPECIES, Lookup, Plane, Species, pair, positive, real
import given_model_types as types


def gather(
    q: Species,
    parts: Field[(real, (int(SPECIES) + 1,))],
    more: Field[pair],
    table: types.Lookup,
    total: Plane,
    weight: real,
):
    with computation(FORWARD), interval(...):
        n = 0
        while n < SPECIES:
            total = total + positive(q[0, 0, 0][n]) * weight
            n += 1
        total = total + parts[0, 0, 0][3] + more[0, 0, 0][1] + table.A[2]
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, text in (("given_model_types", TYPES), ("given_model", MODEL)):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return importlib.import_module("given_model")


def ways(model: Any) -> list[dict[str, Any]]:
    """Return ways to give what the text imports."""
    names = ("SPECIES", "Plane", "Species", "pair", "positive", "real", "types")
    externals = {name: getattr(model, name) for name in names}
    texts = {
        "Species": "Field[(np.float32, (3,))]",
        "Plane": "Field[IJ, np.float32]",
        "types.Lookup": "GlobalTable[(np.float64, (4,))]",
        "pair": "(np.float64, (2,))",
        "real": "float32",
    }
    few = {"SPECIES": 3, "positive": model.positive}
    as_types = {"pair": (np.float64, (2,)), "real": np.float32}
    return [
        {"externals": externals},
        {"externals": vars(model)},
        {"externals": few, "dtypes": texts},
        {"externals": few | {"SPECIES": np.int64(3)}, "dtypes": texts | as_types},
    ]


@pytest.mark.parametrize("way", range(4))
def test_types_that_a_text_imports_are_given(model: Any, way: int) -> None:
    stencil = he.stencil(Path(model.__file__), target="reference", **ways(model)[way])
    shape = (2, 1, 2)
    q = np.full((*shape, 3), 2.0, np.float32)
    parts, more = np.ones((*shape, 4), np.float32), np.full((*shape, 2), 0.5)
    total = np.zeros(shape[:2], np.float32)
    stencil(q, parts, more, np.arange(4.0), total, np.float32(0.25), domain=shape)
    np.testing.assert_array_equal(total, 2 * (3 * 2.0 * 0.25 + 1.0 + 0.5 + 2.0))


def test_dtypes_come_before_externals(model: Any) -> None:
    externals, dtypes = ways(model)[0]["externals"], {"Plane": "Field[IJ, np.float64]"}
    stencil = he.stencil(MODEL, externals=externals, dtypes=dtypes, target="reference")
    program = stencil.compiled.program
    assert {f.name: f.dtype.value for f in program.fields}["total"] == "float64"


@pytest.mark.parametrize("wrong", ["(np.float64, (3,)", (np.float64, "3"), (), ("x", (3,))])
def test_a_wrong_type_with_a_shape_is_refused(wrong: Any) -> None:
    with pytest.raises(he.ArgumentError, match="type of 'pair'"):
        he.stencil(MODEL, dtypes={"pair": wrong})


def test_all_parameters_without_a_type_are_told_and_each_type_once() -> None:
    with pytest.raises(he.NameRuleError) as caught:
        he.stencil(MODEL.replace("weight: real", "weight: real, again: Species, none: Far"))
    found = [(one.line, one.message) for one in (caught.value, *caught.value.others)]
    imported = "is imported from a module, and modules are not read."
    assert found == [
        (9, f"The type 'Species' {imported}"),
        (10, f"The type 'real' {imported}"),
        (11, f"The type 'pair' {imported}"),
        (12, f"The type 'types.Lookup' {imported}"),
        (13, f"The type 'Plane' {imported}"),
        (14, "The type 'Far' is unknown."),
    ]


DOTTED = """
import gt4py
import gt4py.cartesian
import numpy
from gt4py import cartesian

Cells = gt4py.cartesian.gtscript.Field[gt4py.cartesian.gtscript.IJK, float]


@gt4py.cartesian.gtscript.function
def double(q):
    return q + gt4py.cartesian.gtscript.sqrt(q * q)


def f(a: Cells, b: cartesian.gtscript.Field[numpy.float64]):
    with computation(PARALLEL), interval(...):
        b = double(a)
"""


def test_names_of_the_language_may_have_the_whole_name_of_their_module() -> None:
    a, b = np.ones((1, 1, 1)), np.zeros((1, 1, 1))
    he.stencil(DOTTED, target="reference")(a, b)
    assert b[0, 0, 0] == 2.0


REPEATED = """
def first(q):
    return q + unknown * q[1, 0]


def f(a: Field[float], b: Field[float], c: Field[float]):
    with computation(PARALLEL), interval(...):
        b = first(a) + first(c)
        c = first(a) * unknown
        b = first(b)
"""


def test_an_error_of_a_function_is_told_once() -> None:
    with pytest.raises(he.ProgramError) as caught:
        he.stencil(REPEATED)
    assert caught.value.message == "The name 'unknown' is unknown."
    assert not caught.value.others
    with pytest.raises(he.ProgramError) as caught:
        he.stencil(REPEATED.replace("unknown * ", ""))
    assert [one.line for one in (caught.value, *caught.value.others)] == [3, 9]
