"""The real service on a loopback port, in this process: API, dispatcher and engine."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog
from served import serving, settings_for


@pytest.fixture(scope="module")
def quiet() -> Generator[None]:
    """Log nothing: the output is the command's, and rendering tracebacks takes seconds."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def service_roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder whose datasets the service may read."""
    folder = tmp_path_factory.mktemp("service") / "roots"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def service(service_roots: Path, quiet: None) -> Generator[str]:
    """Give the address of a service without keys, which may read its folder `roots`."""
    settings = settings_for(service_roots.parent, "none")
    with serving(settings):
        yield f"http://127.0.0.1:{settings.port}"


@pytest.fixture
def locked_service(tmp_path: Path, quiet: None) -> Generator[tuple[str, str]]:
    """Give the address of a service that wants a key, and a key."""
    from halocline_service.auth.keys import create

    settings = settings_for(tmp_path, "keys")
    with serving(settings) as store:
        yield f"http://127.0.0.1:{settings.port}", create(store.keys, "somebody").text
