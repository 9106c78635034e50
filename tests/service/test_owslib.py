"""OWSLib, the OGC client of the field, used as its users do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owslib.ogcapi.processes import Processes  # pyright: ignore[reportMissingTypeStubs] - none

if TYPE_CHECKING:
    from tests.service.conftest import Running

PROGRAM = "def f(a: Field[float]):\n  with computation(PARALLEL), interval(...):\n    a = 1.0\n"


def test_owslib_works_unchanged(service: Running, live: str) -> None:
    client: Any = Processes(live, headers={})
    assert client.api()["openapi"] == "3.0.3"
    assert client.conformance()["conformsTo"]
    assert {"stencil", "echo"} <= {each["id"] for each in client.processes()}
    assert client.process("stencil")["inputs"]["program"]["schema"]["type"] == "string"
    assert client.execute("echo", {"string": "teststring"}) == {"string": "teststring"}
    started = client.execute("echo", {"string": "teststring"}, async_=True)
    assert started["status"] == "accepted"
    location = client.response_headers["Location"]
    assert location == f"{live}/jobs/{started['jobID']}"
    assert service.wait(started["jobID"])["status"] == "successful"
    job = client.execute("stencil", {"program": PROGRAM, "dataset": "sst.zarr"}, async_=True)
    assert service.wait(job["jobID"])["status"] == "successful"
    client.headers.clear()
