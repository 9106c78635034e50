"""`halocline bench`: what a program takes on this machine."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halocline.command.cli import main
from halocline_engine.functions.reports.timing import drawn_arrays, halo_of
from halocline_engine.program import compile_program

PROGRAM = """
def smooth(t: Field[np.float64], mask: Field[IJ, bool], smoothed: Field[np.float64], w: float):
    with computation(PARALLEL), interval(...):
        smoothed = t + w * (t[-1, 0, 0] + t[1, 0, 0] - 2.0 * t) / exp(t) if mask else t
"""
TABLE = """
def mean(h: Field[float], near: Table[3], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = neighbor_sum(h[near])
"""
SMALL = ("--domain", "9,8,7", "--target", "reference")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "smooth.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[Any, str, str]]:
    def run(*words: str) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["bench", *words])
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return run


def test_json_has_what_was_counted_and_measured(file: str, ran: Any) -> None:
    code, out, _ = ran(file, *SMALL, "--scalar", "w=0.1", "--json")
    found = json.loads(out)
    points = 9 * 8 * 7
    assert code == 0
    assert found["domain"] == [9, 8, 7]
    assert found["arrays"] == {"t": "float64 IJK", "mask": "bool IJ", "smoothed": "float64 IJK"}
    assert found["bytes"] == 2 * 8 * points + 9 * 8
    assert found["operations"] == {"plain": 5 * points, "division": points, "function": points}
    assert found["seconds"] > 0
    memory, *computing = found["bounds"].values()
    assert memory == found["bytes"] / found["copy_bytes_per_second"]
    assert found["share_of_copy"] == memory / found["seconds"]
    assert found["share_of_attainable"] == max(memory, sum(computing)) / found["seconds"]


def test_people_get_a_line_for_each_fact(file: str, ran: Any) -> None:
    code, out, _ = ran(file, *SMALL, "--scalar", "w=0.1", "--fastest", "K")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("smooth on reference (")
    assert lines[0].endswith("), 9 x 8 x 7 points")
    assert [line[:30].strip() for line in lines[1:]] == [
        *("t", "mask", "smoothed", "a call", "memory"),
        *("additions and multiplications", "divisions and roots", "functions such as exp"),
        *("share of copy", "share of the attainable", "limited by"),
    ]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 3, "error: Stencil 'smooth' lacks the input 'w'."),
        (("--domain", "9,8"), 2, "Expected I,J,K, got '9,8'."),
        (("--domain", "9,0,8"), 2, "Expected I,J,K, got '9,0,8'."),
        (("--fastest", "J"), 2, "Expected I or K, got 'J'."),
        (("--range", "t=1"), 2, "Expected FIELD=LOW:HIGH, got 't=1'."),
        (("--stencil-name", "rough"), 3, "rough"),
    ],
)
def test_mistakes(file: str, ran: Any, words: tuple[str, ...], code: int, told: str) -> None:
    got, _, err = ran(file, *SMALL, *words)
    assert (got, told in err) == (code, True), err


def test_arrays_of_lookups_are_drawn_and_tables_are_not(tmp_path: Path, ran: Any) -> None:
    path = tmp_path / "look.py"
    path.write_text(
        "def look(t: GlobalTable[(np.float64, (5,))], a: Field[np.float64]):\n"
        "    with computation(PARALLEL), interval(...):\n        a = t.A[2]\n"
    )
    assert ran(str(path), *SMALL)[0] == 0
    path.write_text(TABLE)
    code, _, err = ran(str(path), *SMALL)
    assert code == 3
    assert "Program 'mean' reads tables, which cannot be filled with random values." in err


def test_it_says_that_the_engine_is_absent(
    file: str, ran: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spec(name: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", spec)
    code, _, err = ran(file, *SMALL)
    assert code != 0
    assert "Computing here needs the engine" in err
    assert "pip install 'halocline[engine]'" in err


def test_fields_are_drawn_from_their_range() -> None:
    compiled = compile_program(PROGRAM, target="reference")
    arrays = drawn_arrays(
        compiled.program, np, (9, 8, 7), halo_of(compiled.facts), "KJI", {"t": (-2.0, -1.0)}
    )
    assert {name: array.shape for name, array in arrays.items()} == {
        "t": (11, 8, 7),
        "mask": (11, 8),
        "smoothed": (11, 8, 7),
    }
    assert -2 <= arrays["t"].min() < arrays["t"].max() <= -1
    assert arrays["t"].strides[0] == 8
    assert np.isnan(arrays["smoothed"]).all()
