"""Deep JSON and long numbers, in bodies and headers, are refused as any bad input is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.service.conftest import Running

_JSON = {"Content-Type": "application/json"}
_BODIES = {
    "deep input": b'{"inputs": {"process": "stencil", "inputs": {"x": %s}}}',
    "deep outputs": b'{"inputs": {}, "outputs": %s}',
    "unknown member": b'{"inputs": {}, "x": %s}',
    "nothing else": b"%s",
}
_PLACES = (
    "/processes/plan/check",
    "/processes/stencil/execution",
    "/processes/echo/execution",
    "/uploads",
)


@pytest.mark.parametrize("path", _PLACES)
@pytest.mark.parametrize("body", _BODIES.values(), ids=_BODIES)
@pytest.mark.parametrize("depth", [65, 900, 50_000])
def test_deep_json_is_refused(idle: Running, path: str, body: bytes, depth: int) -> None:
    answer = idle.client.post(path, content=body % (b"[" * depth + b"]" * depth), headers=_JSON)
    assert answer.status_code == 400
    assert answer.json()["detail"] == (
        "The body of the request cannot be read: its lists and objects are nested more than 64 "
        "levels deep."
    )
    assert answer.json()["hint"] == "Write it as the description of the process shows."


@pytest.mark.parametrize("path", _PLACES)
def test_long_numbers_are_refused(idle: Running, path: str) -> None:
    answer = idle.client.post(path, content=b'{"inputs": {"a": %s}}' % (b"9" * 5000), headers=_JSON)
    assert answer.status_code == 400
    assert answer.json()["detail"] == (
        "The body of the request cannot be read: it has a number of more than 300 digits."
    )


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 20, "²", "٣", "-1", "1e3", ""])
def test_a_number_in_a_header_is_one_of_64_bits(idle: Running, number: str) -> None:
    job = idle.submit()
    headers = {"Last-Event-ID": number.encode()}
    answer = idle.client.get(f"/jobs/{job}/events", headers=headers)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == (400, "argument")
