"""Every operation of the document, with inputs drawn from the document and against it."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from halocline_service.app import create_app
from halocline_service.settings import Settings
from halocline_service.store.memory.store import memory_store


def _any(value: object) -> Any:
    return value


_checks = _any(checks)


def _shorten(body: Any) -> None:
    """Ask for no pause: a minute of waiting teaches nothing."""
    match body:
        case {"inputs": dict()}:
            body["inputs"].pop("pause", None)
        case _:
            pass


_CHECKS = [
    _any(schemathesis).checks.not_a_server_error,
    _checks.status_code_conformance,
    _checks.content_type_conformance,
    _checks.response_schema_conformance,
]


schemathesis.serializer.alias("application/x-netcdf", "application/octet-stream")
_FOLDER = tempfile.TemporaryDirectory()
_PATH = Path(_FOLDER.name)
_APP = create_app(Settings(data_dir=_PATH, data_roots=[_PATH]), store=memory_store())
schema: Any = _any(schemathesis.openapi).from_asgi("/api", _APP)
schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])


@pytest.fixture(scope="module", autouse=True)
def folder() -> Generator[None]:
    yield
    _FOLDER.cleanup()


@schema.exclude(path="/jobs/{job_id}/events").parametrize()
@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.filter_too_much,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
def test_no_input_breaks_the_service(case: Any) -> None:
    _shorten(case.body)
    answer = case.call(base_url="http://testserver")
    if answer.status_code == 503 and case.path == "/readyz":
        return  # there is no dispatcher, and it says so
    case.validate_response(answer, checks=_CHECKS)
