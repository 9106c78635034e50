"""What can be told of a request without its dataset is told when it is submitted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from halocline_engine.interface.words import Interface, in_words_of

if TYPE_CHECKING:
    from tests.service.conftest import Running

in_json = partial(in_words_of, Interface.JSON)


PROGRAM = """
def scale(t: Field[np.float64], out: Field[np.float64], strength: float, twice: float = 2.0):
    with computation(PARALLEL), interval(...):
        out = t * strength * twice
"""
BOTH = """
def both(t: Field[np.float64], out: Field[np.float64], more: Field[np.float64], strength: float):
    with computation(PARALLEL), interval(...):
        out = t * strength
        more = t
"""
STENCIL: list[tuple[dict[str, Any], str, str]] = [
    ({}, "Scalar 'strength' needs a value, got none.", "Give it: scalars={'strength': ...}."),
    (
        {"scalars": {"strenght": 0.2}},
        "Argument 'scalars' must name scalars of the program, got 'strenght'.",
        "Did you mean 'strength'?",
    ),
    (
        {"fields": {"sst": "sst"}},
        "Argument 'fields' must map fields of the program, got 'sst'.",
        "There are 'out', 't'.",
    ),
    (
        {"feedback": {"smoothed": "t"}},
        "Argument 'feedback' must map fields of the program, got 'smoothed'.",
        "There are 'out', 't'.",
    ),
    (
        {"feedback": {"t": "out"}},
        "Feedback must come from a field that is written, got 't'.",
        "Write feedback={'out': 't'}.",
    ),
    (
        {"boundary": {"x": {"low": "periodic"}}},
        "The boundary of 'x' must be periodic at both ends, got 'periodic' and 'none'.",
        "Write boundary={'x': 'periodic'} for both ends.",
    ),
    (
        {"axes": {"I": "lon", "J": "lat", "K": "z"}, "boundary": {"lno": "edge"}},
        "A boundary was given for 'lno', which is not a dimension of the program's fields.",
        "Did you mean 'lon'?",
    ),
    (
        {"axes": {"I": "x", "J": "x"}},
        "Dimension 'x' was given for two axes, expected one.",
        "Give each axis its own, for example axes={'I': 'x', 'J': 'y'}.",
    ),
    (
        {"scalars": {"strength": True}},
        "Scalar 'strength' must be a 'float64', but is the bool True.",
        "Convert it first, for example with numpy.float64(...).",
    ),
    (
        {"fields": {"out": "a/b"}},
        "Field 'out' is written, but 'a/b' is not a valid array name.",
        "Give it another name with fields={...}.",
    ),
    (
        {"program": BOTH, "fields": {"out": "r", "more": "r"}},
        "Fields 'out' and 'more' are both written to variable 'r', expected one.",
        "Give each its own name with fields={...}.",
    ),
]


def test_dimensions_that_are_found_later_are_left_to_the_data(idle: Running) -> None:
    inputs = {"program": PROGRAM, "dataset": "sst.zarr", "scalars": {"strength": 0.2}}
    given: dict[str, Any] = {"axes": {"I": "x"}, "boundary": {"y": "edge", "x": {}}, "steps": 3}
    answer = idle.client.post("/processes/stencil/execution", json={"inputs": inputs | given})
    assert answer.status_code == 201


@pytest.mark.parametrize(("given", "detail", "hint"), STENCIL)
def test_of_stencils(idle: Running, given: dict[str, Any], detail: str, hint: str) -> None:
    others = {} if detail.startswith("Scalar") else {"scalars": {"strength": 0.2}}
    inputs = {"program": PROGRAM, "dataset": "sst.zarr"} | others | given
    answer = idle.client.post("/processes/stencil/execution", json={"inputs": inputs})
    assert answer.status_code == 400
    told = answer.json()
    assert (told["detail"], told["hint"]) == (in_json(detail), in_json(hint))


COLUMN: list[tuple[dict[str, Any], str, str]] = [
    ({"expression": "GradientC2G()(t)"}, "'GradientC2G' is not an operator.", "Did you mean"),
    ({"expression": "Nothing()(t)"}, "'Nothing' is not an operator.", "Operators are such as"),
    (
        {"expression": "GradientC2F(botom=SetValue(0.0))(t)"},
        "'GradientC2F' has no option 'botom'.",
        "Did you mean 'bottom'?",
    ),
    (
        {"expression": "GradientC2F()(t)", "fields": {"s": "sst"}},
        "Argument 'fields' must map names of the program, got 's'.",
        "There are 't'.",
    ),
    (
        {"expression": "K * t", "scalars": {"k": 1.0}},
        "Argument 'scalars' must name scalars of the program, got 'k'.",
        "There are 'K', 't'.",
    ),
    (
        {"expression": "2.0 * K", "scalars": {"K": 1.0}},
        "The program uses no variable of the dataset.",
        "Name one in the expression.",
    ),
    (
        {"expression": "2.0 * t", "name": "a b"},
        "The result 'a b' must have a new name that is an identifier.",
        "Give it a name like 'tendency'.",
    ),
    (
        {"expression": "2.0 * t", "axis": {}},
        "Argument 'axis' must be a dimension, or map 'centre' and 'face' to dimensions, got {}.",
        "For example axis={'centre': 'z', 'face': 'z_face'}.",
    ),
    (
        {"expression": "2.0 * t", "axis": {"centre": "z", "face": "z"}},
        "Dimension 'z' was given for centres and for faces, expected one of each.",
        "For example axis={'centre': 'z', 'face': 'z_face'}.",
    ),
    (
        {
            "expression": "2.0 * t",
            "axis": {"face": "zf", "centre": "z"},
            "boundary": {"x": "periodic"},
        },
        "Argument 'boundary' must be left out, or say that the column is periodic, got 'x':"
        " 'periodic'.",
        "Write boundary={'z': 'periodic'}",
    ),
]


@pytest.mark.parametrize(("given", "detail", "hint"), COLUMN)
def test_of_columns(idle: Running, given: dict[str, Any], detail: str, hint: str) -> None:
    inputs = {"dataset": "sst.zarr"} | given
    answer = idle.client.post("/processes/column/execution", json={"inputs": inputs})
    assert answer.status_code == 400
    assert answer.json()["detail"] == in_json(detail)
    assert answer.json()["hint"].startswith(in_json(hint))


BANDS = {"lower": "a", "diagonal": "b", "upper": "c", "dim": "z"}
WIDE = BANDS | {"second_lower": "a", "second_upper": "c", "rhs": "d"}
TREE = {"diagonal": "b", "rhs": "d", "upper": "c", "parent": "p", "row_size": "n"}
GATHER = {"source": "a", "index": "i", "dim": "x"}
MATMUL = {"left": "a", "right": "b", "dim": "x"}
NO_NAME = "The result cannot be named 'a/b' because that is not a valid array name."
LETTERS = "Give a 'name' of letters, digits and underscores."
ON_DIM = "The result cannot be named '{}': a dimension or coordinate has it already."
OTHERS: list[tuple[str, dict[str, Any], str, str]] = [
    ("tridiagonal", BANDS | {"rhs": "d", "name": "a/b"}, NO_NAME, LETTERS),
    ("tridiagonal", BANDS | {"rhs": "d", "name": "z"}, ON_DIM.format("z"), "Give another 'name'."),
    ("pentadiagonal", WIDE | {"name": "a/b"}, NO_NAME, LETTERS),
    ("pentadiagonal", WIDE | {"name": "z"}, ON_DIM.format("z"), "Give another 'name'."),
    ("tree", TREE | {"name": "a/b"}, NO_NAME, LETTERS),
    ("gather", GATHER | {"name": "a/b"}, NO_NAME, LETTERS),
    ("matmul", MATMUL | {"name": "a/b"}, NO_NAME, LETTERS),
    ("scatter", GATHER | {"size": 3, "name": "a/b"}, NO_NAME, LETTERS),
    ("scatter", GATHER | {"size": 3, "name": "x"}, ON_DIM.format("x"), "Give another 'name'."),
    ("solve", {"factors": "f", "rhs": "d", "name": "a/b"}, NO_NAME, LETTERS),
    (
        "solve",
        {"factors": "f", "rhs": ["a/b"]},
        "The result cannot be named 'a/b_solution' because that is not a valid array name.",
        LETTERS,
    ),
    (
        "regrid",
        {"weights": "w", "dims": ["x", "x"]},
        "Argument 'dims' must have different names, got 'x' twice.",
        "Write for example dims=['lat', 'lon'].",
    ),
    (
        "regrid",
        {"weights": "w", "target_dims": ["x", "x"]},
        "Argument 'target_dims' must have different names, got 'x' twice.",
        "Write for example target_dims=['y', 'x'].",
    ),
    (
        "regrid",
        {"weights": "w", "variables": []},
        "Argument 'variables' must have at least one name, got none.",
        "Leave it out.",
    ),
    (
        "neighbours",
        {"mesh": "m", "operation": "mean", "variables": []},
        "Argument 'variables' must have at least one name, got none.",
        "Leave it out.",
    ),
    (
        "neighbours",
        {"mesh": "m", "operation": "normal_curl", "location": "face"},
        "The values of 'normal_curl' lie on the 'edge's, got location='face'.",
        "Leave it out.",
    ),
    (
        "neighbours",
        {"mesh": "m", "operation": "divergence", "variables": ["u", "u"]},
        "A divergence needs the eastward and the northward component of a vector, got"
        " variables=['u', 'u'].",
        "Name both with variables=.",
    ),
]


@pytest.mark.parametrize(("process", "given", "detail", "hint"), OTHERS)
def test_of_others(
    idle: Running, process: str, given: dict[str, Any], detail: str, hint: str
) -> None:
    inputs = {"dataset": "sst.zarr"} | given
    answer = idle.client.post(f"/processes/{process}/execution", json={"inputs": inputs})
    assert answer.status_code == 400
    told = answer.json()
    assert (told["detail"], told["hint"]) == (in_json(detail), in_json(hint))


@pytest.mark.parametrize(
    "beside",
    [
        {"mode": "async"},
        {"mode": "sync"},
        {"$schema": "https://example.org/execute.json"},
        {"title": "mine"},
        {"id": "echo"},
        {"process": "http://testserver/processes/echo"},
        {"headers": []},
    ],
    ids=str,
)
def test_members_of_the_standards_request_are_taken(
    idle: Running, beside: dict[str, object]
) -> None:
    body = {"inputs": {"string": "a"}, **beside}
    answer = idle.client.post("/processes/echo/execution", json=body)
    assert answer.status_code == (201 if beside.get("mode") == "async" else 200), answer.text


@pytest.mark.parametrize(
    ("beside", "detail"),
    [
        ({"id": "plan"}, "Member 'id' must name the process 'echo', got 'plan'."),
        ({"process": "http://a/b/c"}, "Member 'process' must name the process 'echo', got 'c'."),
    ],
)
def test_members_that_contradict_the_path(
    idle: Running, beside: dict[str, object], detail: str
) -> None:
    body = {"inputs": {"string": "a"}, **beside}
    answer = idle.client.post("/processes/echo/execution", json=body)
    assert (answer.status_code, answer.json()["detail"]) == (400, detail)


def test_callbacks_are_refused_by_name(idle: Running) -> None:
    body = {"inputs": {"string": "a"}, "subscriber": {"successUri": "http://127.0.0.1:9/"}}
    answer = idle.client.post("/processes/echo/execution", json=body)
    assert answer.status_code == 400
    assert "ember 'subscriber' is not supported: no callbacks are made." in answer.text
