"""Programs that GT4Py rejects and odd ones that it accepts: what we say to them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from halocline_engine.errors import ProgramError
from halocline_engine.program import compile_program

DATA = Path(__file__).parents[2] / "data" / "gtscript"
PREAMBLE = (DATA / "preamble.txt").read_text()
FIRST = PREAMBLE.count("\n")


def programs(kind: str) -> dict[str, dict[str, Any]]:
    """Return the programs of one file by identifier, numbered where one comes twice."""
    found: dict[str, dict[str, Any]] = {}
    for program in json.loads((DATA / f"{kind}.json").read_text())["programs"]:
        name = program["id"]
        twins = sum(other.split(".")[0] == name for other in found)
        found[f"{name}.{twins + 1}" if twins else name] = program
    return found


INVALID = programs("invalid")
ACCEPTED = programs("accepted")

#: Rejected by GT4Py, accepted here: a function needs no decorator, since nothing is executed; and
#: what one of its backends lacks: temporaries over I and J, absolute levels, bounds and indices of
#: the run.
BETTER = {"fn10", "x23b", "k5", "i12", "x25b", "x29b"}

#: Accepted by GT4Py when it compiles, but its call then fails: a temporary has no halo along K.
FAILS_THERE = {"k3": "is read above the last level"}


def externals(program: dict[str, Any]) -> dict[str, Any]:
    """Return the externals of a program, which the file gives as text where they are objects."""
    result: dict[str, Any] = {}
    for name, value in program["externals"].items():
        axis = re.match(r"AxisIndex\(axis=(\w), index=(-?\d+), offset=(-?\d+)\)", str(value))
        if axis:
            result[name] = {"axis": axis[1], "index": int(axis[2]), "offset": int(axis[3])}
        elif str(value).startswith("function "):
            result[name] = {"function": str(value).split()[1]}
        else:
            result[name] = value
    return result


def compile_one(program: dict[str, Any], **options: Any) -> None:
    text = PREAMBLE + program["source"]
    compile_program(text, externals=externals(program), target="reference", **options)


def test_all_programs_are_there() -> None:
    assert len(INVALID) == 87
    assert len(ACCEPTED) == 52
    assert set(INVALID) > BETTER
    assert set(ACCEPTED) > set(FAILS_THERE)


@pytest.mark.parametrize("case", [name for name in INVALID if name not in BETTER])
def test_invalid_programs_are_rejected_with_place_and_hint(case: str) -> None:
    with pytest.raises(ProgramError) as caught:
        compile_one(INVALID[case])
    error = caught.value
    assert error.line > FIRST or case == "fn6"  # the function that it calls is wrong
    assert error.column > 0
    assert error.excerpt.endswith("^")
    assert error.rule
    assert error.hint.endswith((".", "?"))
    assert re.fullmatch(r"(?s)['A-Z].*\.", error.message)


@pytest.mark.parametrize("case", sorted(BETTER))
def test_programs_that_are_right_here_are_accepted(case: str) -> None:
    compile_one(INVALID[case])


@pytest.mark.parametrize("case", [c for c in ACCEPTED if c not in FAILS_THERE])
def test_accepted_programs_are_accepted(case: str) -> None:
    compile_one(ACCEPTED[case], dtypes={"T": "float32"})


@pytest.mark.parametrize("case", sorted(FAILS_THERE))
def test_programs_that_fail_when_called_are_rejected(case: str) -> None:
    with pytest.raises(ProgramError, match=FAILS_THERE[case]):
        compile_one(ACCEPTED[case])
