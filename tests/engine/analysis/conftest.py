"""Programs for tests of the analysis: lowered from text, with the passes that come before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lowered import lower

from halocline_engine.ir.nodes import Program
from halocline_engine.ir.verify import verify
from halocline_engine.language.gtscript import parse
from halocline_engine.passes.pipeline import PASSES


@pytest.fixture
def program_of() -> Callable[[str], Program]:
    """Lower the body of a stencil on float64 fields a, b, c, d, a plane p and a column z."""

    def build(body: str) -> Program:
        header = (
            "def program(a: Field[float64], b: Field[float64], c: Field[float64],"
            " d: Field[float64], p: Field[IJ, float64], z: Field[K, float64]):\n"
        )
        lines = (f"    {line}\n" for line in body.strip("\n").split("\n"))
        program = lower(parse(header + "".join(lines)))
        for rewrite in PASSES:
            program = rewrite(program)
        verify(program)
        return program

    return build
