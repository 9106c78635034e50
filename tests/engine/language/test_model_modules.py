"""Ways in which modules of weather models name types, functions, schemes and levels."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halocline_engine as he

NDSL = '''
from enum import IntEnum

from ndsl.dsl.gt4py import FORWARD, PARALLEL, K, computation, function, interval
from ndsl.dsl.typing import (
    Bool, BoolFieldIJ, Float, FloatField, FloatField32, FloatFieldIJ, FloatFieldK, Int, IntFieldIJ,
    set_4d_field_size,
)
from model.stencils import limiters

Tracers = set_4d_field_size(4, Float)
HALF = Float(1.0) / Float(2.0)
real = Float


@gtscript.enum
class Scheme(IntEnum):
    UPWIND = 1
    CENTRED = 2


@function
def positive(a, b):
    difference = a - b if a - b > 0 else 0
    return difference


@gtscript.lazy_function(before_annotation=None)
def level_of(value: Float, heights: FloatFieldK) -> Int:
    """Count the levels that lie at or below a height."""
    sum = 0
    J = 0
    while J <= 4:
        if heights.at(K=J) <= value:
            sum += 1
        J += 1
    return sum


def surface(
    q: FloatField,
    tracers: Tracers,
    heights: FloatFieldK,
    low: FloatField32,
    wet: BoolFieldIJ,
    found: IntFieldIJ,
    out: FloatField,
    order: Scheme,
    flag: Bool,
):
    with computation(FORWARD), interval(...):
        found = level_of(q, heights)
        out = HALF * q + limiters.positive(tracers[0, 0, 0][3], Float(0.25)) + real(low)
        if order > Scheme.UPWIND and wet and flag:
            out = out * Scheme.CENTRED
'''


def test_names_of_ndsl_mean_what_they_mean_there() -> None:
    random = np.random.default_rng(4)
    shape = (3, 2, 5)
    q, out = random.uniform(0.0, 6.0, shape), np.full(shape, np.nan)
    tracers, low = random.normal(size=(*shape, 4)), random.normal(size=shape).astype(np.float32)
    heights, wet = np.arange(5.0) + 0.5, random.uniform(size=shape[:2]) > 0.5
    found = np.full(shape[:2], -1)
    for target in ("reference", "cpu"):
        he.stencil(NDSL, target=target)(
            q, tracers, heights, low, wet, found, out, 2, True, domain=shape
        )
        levels = (heights[:, None, None] <= q[..., -1]).sum(axis=0)
        np.testing.assert_array_equal(found, levels)
        plain = 0.5 * q + np.maximum(tracers[..., 3] - 0.25, 0.0) + low
        np.testing.assert_array_equal(out, np.where(wet[..., None], plain * 2, plain))


def test_types_of_ndsl_have_the_precision_that_is_given() -> None:
    program = he.stencil(NDSL, dtypes={"Float": "float32"}, target="reference").compiled.program
    types = {field.name: field.dtype.value for field in program.fields}
    assert (types["q"], types["heights"], types["found"]) == ("float32", "float32", "int64")
    assert types["low"] == "float32"


def test_a_name_like_those_of_ndsl_is_no_type_unless_it_is_imported() -> None:
    text = NDSL.replace("FloatField, FloatField32, ", "FloatField, ")
    with pytest.raises(he.NameRuleError, match="The type 'FloatField32' is unknown"):
        he.stencil(text)


FAR = """
def table(out: Field[float], blend: Field[float]):
    with computation(PARALLEL), interval(0, 300):
        es = 0.5 * K
        out = es
    with computation(PARALLEL), interval(200 + 100, None):
        out = es[0, 0, -200]
    with computation(FORWARD), interval(-1, None):
        blend = out[0, 0, -150]
"""


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_vertical_offsets_reach_across_long_columns(target: str) -> None:
    out, blend = np.full((2, 1, 400), np.nan), np.full((2, 1, 400), np.nan)
    he.stencil(FAR, target=target)(out, blend, domain=(2, 1, 400))
    levels = np.arange(400.0)
    np.testing.assert_array_equal(out[0, 0], np.where(levels < 300, levels, levels - 200) * 0.5)
    assert blend[1, 0, 399] == out[1, 0, 249]


def test_functions_of_modules_come_along_with_a_python_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "limits_of_a_model.py").write_text(
        "ZERO = 0.0\n\n\ndef positive(a, b):\n"
        "    difference = a - b if a - b > ZERO else ZERO\n    return difference\n"
    )
    (tmp_path / "model_with_limits.py").write_text(
        "import limits_of_a_model\nfrom halocline.gtscript import Field\n\n\n"
        "def clip(a: Field[float], b: Field[float]):\n"
        "    with computation(PARALLEL), interval(...):\n"
        "        b = limits_of_a_model.positive(a, 1.0) + limits_of_a_model.ZERO\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    try:
        import model_with_limits  # pyright: ignore[reportMissingImports]

        module: Any = model_with_limits
        a, b = np.arange(3.0).reshape(3, 1, 1), np.full((3, 1, 1), np.nan)
        he.stencil(module.clip, target="reference")(a, b)
    finally:
        for name in ("model_with_limits", "limits_of_a_model"):
            sys.modules.pop(name, None)
    assert b.ravel().tolist() == [0.0, 0.0, 1.0]


HALVES = """
def scale(a: Field[np.float32], b: Field[np.float32], c: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        b = a * 0.1
        c = 0.1
"""


@pytest.mark.parametrize(
    ("precision", "c"), [(64, 0.1), (32, np.float32(0.1)), ({"float": 32}, np.float32(0.1))]
)
def test_numbers_of_a_text_have_the_precision_that_is_given(precision: Any, c: float) -> None:
    given = np.full((1, 1, 1), 3.0, np.float32)
    b, wide = np.zeros_like(given), np.zeros((1, 1, 1))
    he.stencil(HALVES, literal_precision=precision, target="reference")(given, b, wide)
    assert wide[0, 0, 0] == c
    assert b[0, 0, 0] == np.float32(3.0 * c) if precision == 64 else np.float32(3) * np.float32(0.1)


@pytest.mark.parametrize("wrong", [16, True, {"real": 32}, {"int": 8}, "64"])
def test_a_wrong_precision_is_refused(wrong: Any) -> None:
    with pytest.raises(he.ArgumentError) as caught:
        he.stencil(HALVES, literal_precision=wrong)
    assert str(caught.value) == (
        f"Argument 'literal_precision' must be 32 or 64, got {wrong!r}. "
        "Write 32, or {'int': 64, 'float': 32} to tell whole numbers from others."
    )


def test_limits_of_programs_are_given() -> None:
    with pytest.raises(he.LimitError, match="The stencil has 3 fields, but at most 2 are allowed"):
        he.stencil(HALVES, limits=he.Limits(fields=2))
    wrong: Any = 3
    with pytest.raises(he.ArgumentError) as caught:
        he.stencil(HALVES, limits=wrong)
    assert str(caught.value) == (
        "Argument 'limits' must be halocline_engine.Limits, got 'int'. "
        "Write for example limits=halocline_engine.Limits(fields=512)."
    )


INSIDE = """
from gt4py.cartesian import gtscript

FACTOR = 3.0


class Advection:
    @staticmethod
    @gtscript.function
    def scaled(q):
        return FACTOR * q

    def __init__(self, factory):
        FACTOR = factory.number()

        @gtscript.stencil(backend="numpy")
        def scale(a: Field[float], b: Field[float]):
            with computation(PARALLEL), interval(...):
                b = scaled(a)

        self.run = scale
"""


def test_stencils_inside_functions_and_classes_are_found() -> None:
    a, b = np.full((1, 1, 1), 2.0), np.zeros((1, 1, 1))
    he.stencil(INSIDE, target="reference")(a, b)
    assert b[0, 0, 0] == 6.0


def test_stencils_of_the_module_come_before_those_inside() -> None:
    a, b = np.full((1, 1, 1), 2.0), np.zeros((1, 1, 1))
    outer = "def outer(a: Field[float], b: Field[float]):\n"
    outer += "    with computation(PARALLEL), interval(...):\n        b = -a\n"
    he.stencil(INSIDE + outer, target="reference")(a, b)
    assert b[0, 0, 0] == -2.0


VALUES = """
from enum import Enum, IntEnum

class Scheme(IntEnum):
    UPWIND = -1

class Form(Enum):
    FLUX = 2.5

def form(a: Field[float], out: Field[float], n: int):
    with computation(PARALLEL), interval(...):
        if n == Scheme.UPWIND.value:
            out = a * Form.FLUX.value
        else:
            out = a
"""


def test_members_of_enumerations_have_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given_form.py").write_text("from halocline.gtscript import *\n" + VALUES)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "given_form", raising=False)
    a, out = np.ones((1, 2, 2)), np.zeros((1, 2, 2))
    for program in (VALUES, importlib.import_module("given_form").form):
        stencil = he.stencil(program, target="reference")
        for n, factor in ((-1, 2.5), (1, 1.0)):
            stencil(a, out, n)
            np.testing.assert_array_equal(out, factor)
    with pytest.raises(he.SyntaxRuleError, match="A field has no attribute 'value'"):
        he.stencil(VALUES.replace("n ==", "n.value =="), target="reference")
