"""Whatever is passed to the client, what is wrong is told by an error of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from halocline.accessor import HaloclineAccessor
from halocline.client import Client
from halocline.errors import HaloclineError
from halocline.job import Job
from halocline.transfer.uploads import Uploads

PROGRAM = """
def f(a: Field[np.float64], b: Field[np.float64], s: float):
    with computation(PARALLEL), interval(...):
        b = a * s
"""
DATASET = xr.Dataset({"a": ("x", [1.0])})
_PROBLEM = {"detail": "Not found.", "code": "not-found"}


def answer(request: httpx2.Request) -> httpx2.Response:
    """Know one job that runs, and nothing else."""
    if request.method == "GET" and request.url.path == "/jobs/j":
        return httpx2.Response(200, json={"jobID": "j", "status": "successful"})
    if request.method == "GET" and request.url.path in ("/jobs", "/uploads"):
        return httpx2.Response(200, json={request.url.path[1:]: []})
    return httpx2.Response(404, json=_PROBLEM)


def client() -> Client:
    return Client("http://localhost", transport=httpx2.MockTransport(answer))


class Odd:
    """An object of no use."""

    def __repr__(self) -> str:
        return "Odd"


def _itself(x: Any) -> Any:
    return x


_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(
            None,
            True,
            -1,
            0,
            5,
            2**70,
            1.5,
            float("nan"),
            float("inf"),
            1j,
            "",
            "a",
            "\ud800",
            "a\0",
        ),
        *(b"a", [], ["a"], [5], [None], ["\ud800"], ("a", "b"), {"a"}, {}, {"a": "a"}, {5: "a"}),
        *({"a": None}, {"a": Odd()}, {"a": {"low": Odd()}}, {"a": {"low": {"constant": 1j}}}),
        *({"a": [1, {"a": Odd()}]}, {"a": float("nan")}, {"a": {5: 6}}, {"a": {"a": {"a"}}}),
        *({"\ud800": "\ud800"}, {"a": 2**70}, {"a": np.float32(1)}, {"a": np.array([1.0, 2.0])}),
        *(np.int8(3), np.array(5.0), np.array([1, 2]), np.datetime64("now"), np.float64, int),
        *(Odd(), Odd, len, _itself, DATASET, DATASET.a, xr, Path("nothing"), range(3), object),
    ]
)


def _methods() -> list[tuple[str, Callable[[], Any], str]]:
    makers: list[tuple[type, Callable[[], Any]]] = [
        (Client, client),
        (Uploads, lambda: client().uploads),
        (Job, lambda: client().job("j")),
        (HaloclineAccessor, lambda: HaloclineAccessor(DATASET)),
    ]
    return [
        (f"{kind.__name__}.{name}", make, name)
        for kind, make in makers
        for name, _ in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    ]


_OWN: dict[str, Any] = {
    "program": PROGRAM,
    "expression": "a",
    "dataset": DATASET,
    "operation": "sum",
    "size": 3,
    "inputs": {},
    "identity": "j",
    "reference": "upload:a",
    "process": "echo",
    "path": "/nothing/at/all",
}


@pytest.mark.parametrize(
    ("make", "name"), [m[1:] for m in _methods()], ids=[m[0] for m in _methods()]
)
@given(data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_is_wrong_is_told(make: Callable[[], Any], name: str, data: st.DataObject) -> None:
    thing = make()
    method = getattr(thing, name)
    known = inspect.signature(method).parameters
    if isinstance(thing, HaloclineAccessor):
        known = {**inspect.signature(getattr(Client, name)).parameters, **known}
        known = {each: one for each, one in known.items() if each not in ("self", "dataset")}
    known = {
        each: one
        for each, one in known.items()
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    }
    arguments = {
        each: _OWN.get(each, "a") for each, one in known.items() if one.default is one.empty
    }
    if known:
        wrong = st.dictionaries(st.sampled_from(sorted(known)), _VALUES, min_size=1, max_size=2)
        arguments |= data.draw(wrong)
    if isinstance(thing, HaloclineAccessor):
        arguments.setdefault("client", client())
    told: list[HaloclineError] = []
    try:
        made = method(**arguments)
        if inspect.isgenerator(made):
            next(made, None)
    except HaloclineError as error:
        told.append(error)
    assert all((error.message[:1].isupper() or error.message[:1] == "'") for error in told)


@given(url=_VALUES, key=_VALUES)
@settings(max_examples=100, deadline=None)
def test_of_a_client(url: Any, key: Any) -> None:
    told: list[HaloclineError] = []
    try:
        made = Client(url, key, transport=httpx2.MockTransport(answer))
        made.jobs()
    except HaloclineError as error:
        told.append(error)
    assert all((error.message[:1].isupper() or error.message[:1] == "'") for error in told)
