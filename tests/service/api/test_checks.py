"""A request is checked while it is written; nothing is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halocline_service.api.checking.base import CheckHere
from halocline_service.auth.keys import create
from halocline_service.store.base import JobQuery

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running

PROGRAM = """
def smooth(
    t: Field[np.float64],
    mask: Field[IJ, np.float32],
    smoothed: Field[np.float64],
    *,
    strength: float,
    gain: int = 2,
):
    with computation(PARALLEL), interval(...):
        around = t[-2, 0, 0] + t[1, 0, 0] + t[0, -1, 0] + t[0, 0, 0]
        smoothed = t + strength * mask * gain * (around - 4.0 * t)
"""


def checked(running: Running, process: str = "stencil", **inputs: Any) -> Any:
    answer = running.client.post(f"/processes/{process}/check", json={"inputs": inputs})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_program_is_told_with_its_halos(idle: Running) -> None:
    found = checked(idle, program=PROGRAM, scalars={"strength": 0.1})
    assert found["valid"]
    assert found["missing"] == ["dataset"]
    assert "problem" not in found
    program = found["program"]
    assert program["name"] == "smooth"
    t, mask, smoothed = program["fields"]
    assert t == {
        "name": "t",
        "dtype": "float64",
        "axes": ["I", "J", "K"],
        "read": True,
        "written": False,
        "halo": {"I": [2, 1], "J": [1, 0], "K": [0, 0]},
    }
    assert (mask["axes"], mask["halo"]) == (["I", "J"], {"I": [0, 0], "J": [0, 0]})
    assert (smoothed["read"], smoothed["written"]) == (False, True)
    assert program["scalars"] == [
        {"name": "strength", "dtype": "float64", "default": None},
        {"name": "gain", "dtype": "int64", "default": 2},
    ]
    assert program["warnings"] == []


def test_nothing_is_stored(idle: Running) -> None:
    assert checked(idle, program=PROGRAM, dataset="sst.zarr", scalars={"strength": 0.1})["valid"]
    assert idle.store.jobs.list(JobQuery(owner="local")) == []


def test_errors_are_those_of_execution(idle: Running) -> None:
    wrong: list[dict[str, Any]] = [
        {"program": PROGRAM.replace("around -", "arround -"), "dataset": "sst.zarr"},
        {"program": PROGRAM, "dataset": "sst.zarr"},
        {"program": PROGRAM, "dataset": "nothing.zarr", "scalars": {"strength": 0.1}},
        {"program": PROGRAM, "dataset": "sst.zarr", "scalars": {"strength": 0.1}, "steps": 0},
        {"program": PROGRAM, "dataset": "sst.zarr", "nothing": 1},
    ]
    for inputs in wrong:
        body: dict[str, Any] = {"inputs": inputs}
        problem = idle.client.post("/processes/stencil/execution", json=body).json()
        found = checked(idle, **inputs)
        assert not found["valid"]
        assert found["problem"] == problem


def test_an_error_of_the_program_has_its_place(idle: Running) -> None:
    found = checked(idle, program=PROGRAM.replace("around -", "arround -"))
    problem = found["problem"]
    assert problem["detail"] == "The name 'arround' is unknown."
    assert (problem["line"], problem["hint"]) == (12, "Did you mean 'around'?")
    assert problem["excerpt"].splitlines()[1].strip() == "^"
    assert "program" not in found


def test_what_the_program_needs_is_told_whatever_else_is_wrong(idle: Running) -> None:
    found = checked(idle, program=PROGRAM, boundary={"x": "nonsense"})
    assert not found["valid"]
    assert "boundary" in found["problem"]["detail"]
    assert [each["name"] for each in found["program"]["fields"]] == ["t", "mask", "smoothed"]


def test_warnings_have_their_places(idle: Running) -> None:
    text = PROGRAM.replace("smoothed = t +", "smoothd = t +") + "        smoothed = t\n"
    told = checked(idle, program=text, scalars={"strength": 0.1})["program"]["warnings"]
    assert [each["rule"] for each in told] == ["halo", "unread"]  # in the order of the text
    warning = told[1]
    assert warning["hint"] == "Did you mean the field 'smoothed'?"
    assert (warning["line"], warning["rule"]) == (12, "unread")
    assert "smoothd" in warning["excerpt"]


@pytest.mark.parametrize("body", [{}, {"inputs": {}}, {"inputs": {"program": 3}}])
def test_what_is_no_program_is_told_as_well(idle: Running, body: dict[str, Any]) -> None:
    answer = idle.client.post("/processes/stencil/check", json=body)
    assert answer.status_code == 200
    found = answer.json()
    assert not found["valid"]
    assert "program" in found["problem"]["detail"]
    assert "program" not in found


def test_every_process_can_be_checked(idle: Running) -> None:
    found = checked(idle, "matmul", left="a", right="b")
    assert found["process"] == "matmul"
    assert found["missing"] == ["dataset"]
    assert checked(idle, "echo", string="hello") == {
        "process": "echo",
        "valid": True,
        "missing": [],
    }
    two = checked(idle, "regrid")
    assert two["missing"] == ["dataset", "weights"]


def test_a_check_needs_a_key_where_execution_does(idle: Running, client_of: ClientOf) -> None:
    client = client_of(idle.settings.model_copy(update={"auth": "keys"}))
    body = {"inputs": {"program": PROGRAM, "scalars": {"strength": 1.0}}}
    assert client.post("/processes/stencil/check", json=body).status_code == 401
    key = create(idle.store.keys, "me").text
    headers = {"Authorization": f"Bearer {key}"}
    assert client.post("/processes/stencil/check", json=body, headers=headers).json()["valid"]
    assert client.post("/processes/nothing/check", json=body, headers=headers).status_code == 404


def test_an_outline_stands_for_a_dataset(idle: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = idle.app.state.context
    monkeypatch.setattr(context.checks.__class__, "fit", CheckHere.fit)
    outline: dict[str, Any] = {
        "variables": {
            name: {"dims": dims, "shape": shape, "dtype": dtype, "attrs": {}}
            for name, dims, shape, dtype in (
                ("t", ["y", "x"], [3, 4], "float64"),
                ("mask", ["y", "x"], [3, 4], "float32"),
            )
        },
        "coordinates": [],
        "attrs": {},
    }
    body: dict[str, Any] = {
        "inputs": {"program": PROGRAM, "scalars": {"strength": 0.1}, "boundary": {"x": "edge"}},
        "datasets": {"dataset": outline},
    }
    found = idle.client.post("/processes/stencil/check", json=body).json()
    assert (found["valid"], found["missing"]) == (True, [])
    body["inputs"]["boundary"] = {"lon": "edge"}
    for interface, hint in (("json", "There are 'x', 'y'."), ("page", "There are 'x', 'y'.")):
        headers = {"Halocline-Interface": interface}
        found = idle.client.post("/processes/stencil/check", json=body, headers=headers).json()
        assert found["problem"]["code"] == "boundary"
        assert found["problem"]["hint"] == hint
    outline["variables"] = 3
    found = idle.client.post("/processes/stencil/check", json=body).json()
    assert found["problem"]["detail"].startswith("The outline of a dataset cannot be read")


@pytest.mark.parametrize(
    ("interface", "hint"),
    [
        (None, 'Give it: "scalars": {"strength": ...}.'),
        ("json", 'Give it: "scalars": {"strength": ...}.'),
        ("python", "Give it: scalars={'strength': ...}."),
        ("command", "Give it: --scalar strength=VALUE."),
        ("page", "Give it: strength=VALUE in 'Scalars'."),
        ("none", 'Give it: "scalars": {"strength": ...}.'),
    ],
)
def test_hints_are_in_the_words_of_the_interface(
    idle: Running, interface: str | None, hint: str
) -> None:
    headers = {} if interface is None else {"Halocline-Interface": interface}
    body = {"inputs": {"program": PROGRAM, "dataset": "sst.zarr"}}
    answer = idle.client.post("/processes/stencil/execution", json=body, headers=headers)
    assert (answer.status_code, answer.json()["hint"]) == (400, hint)


@pytest.mark.parametrize(
    ("path", "detail", "hint"),
    [
        ("/jobs?state=failed", "Parameter 'state' is unknown.", "Did you mean 'status'?"),
        ("/?x=1", "Parameter 'x' is unknown.", "Leave it out."),
        ("/jobs?f=html", "Parameter 'f' is unknown.", None),
    ],
)
def test_unknown_parameters_are_refused(
    idle: Running, path: str, detail: str, hint: str | None
) -> None:
    answer = idle.client.get(path)
    assert (answer.status_code, answer.json()["detail"]) == (400, detail)
    assert hint is None or answer.json()["hint"] == hint
    assert idle.client.get("/jobs?f=json").status_code == 200
