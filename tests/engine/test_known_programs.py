"""Programs that were compiled before: calls with the same text have them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from halocline_engine import program as compiling
from halocline_engine.distribute.modes.plan_events import compiled as compiled_event
from halocline_engine.errors import ProgramError
from halocline_engine.program import compile_program

TEXT = """
def add(u: Field["T"], v: Field["T"], *, by: float):
    from __externals__ import TWICE
    with computation(PARALLEL), interval(...):
        v = u + TWICE * by
"""
PLAIN = """
def scale(u: Field[float], v: Field[float]):
    with computation(PARALLEL), interval(...):
        v = 2 * u
"""


def test_a_text_alone_is_compiled_once(tmp_path: Path) -> None:
    first = compile_program(PLAIN, target="reference")
    assert compile_program(PLAIN, target="reference") is first
    file = tmp_path / "scale.py"
    file.write_text(PLAIN)
    assert compile_program(file, target="reference") is first
    assert compiled_event(first) is compiled_event(first)
    file.write_text(PLAIN.replace("2 * u", "4 * u"))
    changed = compile_program(file, target="reference")
    assert changed.fingerprint != first.fingerprint


@pytest.mark.parametrize(
    "how", [{"target": "cpu"}, {"literal_precision": 32}, {"arithmetic": "fused"}]
)
def test_one_that_is_read_otherwise_is_another(how: dict[str, Any]) -> None:
    first = compile_program(PLAIN, target="reference")
    otherwise: dict[str, Any] = {"target": "reference", **how}
    assert compile_program(PLAIN, **otherwise) is not first


def test_values_of_the_caller_are_looked_at_each_time() -> None:
    """Zeros of both signs are equal, and are not the same."""
    found = {
        compile_program(TEXT, externals={"TWICE": two}, dtypes={"T": kind}).fingerprint
        for two in (2, 3.0, 0.0, -0.0)
        for kind in ("float32", "float64")
    }
    assert len(found) == 8


def test_wrong_and_large_texts_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        with pytest.raises(ProgramError):
            compile_program(PLAIN.replace("2 * u", "2 * nothing"), target="reference")
    monkeypatch.setattr(compiling, "_KEPT_TEXT", len(PLAIN))
    longer = PLAIN + "# more"
    assert compile_program(longer, target="reference") is not compile_program(
        longer, target="reference"
    )
