"""What tests of all parts share: one way to run a stencil, on every target that runs here."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import kept
import pytest
from emulation.machine import ABSENT, EmulatedArtifact, compiler
from on_device import OnDevice

from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.device.probe import device_count
from halocline_engine.functions.stencil import Stencil, stencil

TARGETS = ("reference", "cpu")
#: Generated CUDA, compiled and run on the host.
EMULATED = "cuda-emulated"
#: Where there is a device, everything runs on it as well; arrays are copied to it and back.
DEVICE = ("cuda",) if device_count() else ()


def pytest_sessionstart() -> None:
    kept.tidy()


def pytest_collection_finish() -> None:
    """Let Python's collector pass over what was collected, which stays to the end.

    Thousands of tests and all modules are looked through in each full collection otherwise, which
    was a tenth of all work.
    """
    gc.collect()
    gc.freeze()


class RunStencil(Protocol):
    """Compile a text for the test's target, call it on NumPy arrays, and return it."""

    def __call__(
        self,
        text: str,
        *args: object,
        name: str | None = None,
        externals: Mapping[str, Any] | None = None,
        dtypes: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Stencil: ...


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def emulation_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tests of one run keep compiled CUDA."""
    if compiler() is None:
        pytest.skip(ABSENT)
    return tmp_path_factory.mktemp("cuda-emulated")


@pytest.fixture(scope="session")
def stencils() -> dict[str, Stencil]:
    """Stencils that were made in this run: compiling one takes longer than running it."""
    return {}


@pytest.fixture(params=(*TARGETS, EMULATED, *DEVICE))
def run_stencil(request: pytest.FixtureRequest, stencils: dict[str, Stencil]) -> RunStencil:
    def run(
        text: str,
        *args: object,
        name: str | None = None,
        externals: Mapping[str, Any] | None = None,
        dtypes: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Stencil:
        key = repr((request.param, text, name, externals, dtypes))
        if key not in stencils:
            on = "reference" if request.param == EMULATED else request.param
            made = stencil(text, stencil_name=name, externals=externals, dtypes=dtypes, target=on)
            if request.param == EMULATED:
                made = emulated(made, request.getfixturevalue("emulation_folder"))
            stencils[key] = made
        made = stencils[key]
        call = OnDevice(made) if request.param in DEVICE else made
        call(*args, **kwargs)
        return made

    return run


def emulated(made: Stencil, folder: Path) -> Stencil:
    """Return the stencil with generated CUDA that runs on the host; it takes NumPy arrays."""
    program, schedule = made.compiled.program, made.compiled.schedule
    artifact = with_made_fields(EmulatedArtifact(schedule, folder), program, made.compiled.facts)
    return Stencil(replace(made.compiled, artifact=artifact))
