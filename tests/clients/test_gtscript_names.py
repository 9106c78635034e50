"""The words that programs import: all of the language's, and decorators that leave a function."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

import halocline_engine as he
from halocline import gtscript
from halocline_engine.ir.functions import FUNCTIONS

CASTS = ("int32", "int64", "float32", "float64")
WORDS = ("compile_assert", "horizontal", "region", "function", "stencil", "mod")
PROGRAM = """
import numpy as np
from halocline.gtscript import (
    PARALLEL, Field, I, J, K, computation, horizontal, interval, region, sqrt, stencil)


@stencil(backend="numpy")
def edges(a: Field[np.float64], b: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        b = sqrt(a) + K
        with horizontal(region[I[0], :], region[:, J[-1]]):
            b = a
"""


def test_every_word_of_the_language_can_be_imported() -> None:
    functions = set(FUNCTIONS) - {"pow"}  # an operator
    assert {*functions, *CASTS, *WORDS} <= set(gtscript.__all__)
    assert hasattr(gtscript, "__INLINED")


def test_a_decorated_function_is_a_program(tmp_path: Path) -> None:
    path = tmp_path / "model_edges.py"
    path.write_text(PROGRAM)
    spec = importlib.util.spec_from_file_location("model_edges", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a, b = np.full((4, 3, 2), 4.0), np.zeros((4, 3, 2))
    he.stencil(module.edges, target="reference")(a, b)
    assert b[:, :, 1].tolist() == [[4.0] * 3, *[[3.0, 3.0, 4.0]] * 3]
    assert gtscript.stencil(module.edges) is module.edges
