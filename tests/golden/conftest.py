"""What golden tests run as emulated CUDA, NVIDIA's compiler takes as well, for every device."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest
from column_cases import Loader
from emulation.machine import ABSENT, EmulatedArtifact, compiler
from nvidia import compiled_everywhere, table

from halocline_engine.backends.base import Executable
from halocline_engine.cache import key_of
from halocline_engine.schedule.nodes import Schedule

#: Bytes of stack that a thread may have: what a few values and slow paths of functions take.
MOST_STACK = 64
#: Texts of sources that ran, by their paths, with the name of the first test that ran them.
Ran = dict[Path, tuple[str, str]]


@pytest.fixture(scope="session")
def golden_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden-emulated")


@pytest.fixture(scope="session")
def emulation_folder(golden_folder: Path) -> Path:
    """Return where golden tests keep compiled CUDA with its text, apart from that of others."""
    if compiler() is None:
        pytest.skip(ABSENT)
    return golden_folder


@pytest.fixture(scope="session")
def emulated_columns(emulation_folder: Path) -> Loader:
    """Return what makes column programs run as emulated CUDA; equal sources are compiled once."""
    known: dict[str, Executable] = {}

    def load(schedule: Schedule) -> Executable:
        artifact = EmulatedArtifact(schedule, emulation_folder)
        return known.setdefault(artifact.source, artifact.load())

    return load


@pytest.fixture(scope="session")
def ran() -> Ran:
    return {}


@pytest.fixture(autouse=True)
def sources_of_a_test(
    request: pytest.FixtureRequest, golden_folder: Path, ran: Ran
) -> Generator[None]:
    """Find what a test was the first to run."""
    yield
    for path in sorted(golden_folder.rglob("loaded/*.cu")):
        if path not in ran:
            ran[path] = (request.node.name, path.read_text())


@pytest.fixture(scope="session")
def claims(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an entry for each source that was compiled, by any process of a run."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if hasattr(request.config, "workerinput") else own) / "nvidia"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module", autouse=True)
def nvidias_compiler(ran: Ran, claims: Path) -> Generator[None]:
    """Compile after each module what its tests ran; a kernel that spills much is an error.

    Sources that differ in numbers only, as those of a program on other domains do, count as one.
    What each kernel needs is printed: `pytest -rP` shows it.
    """
    yield
    several = [one for one in ran.values() if _claimed(one[1], claims)]
    if not several:
        return
    names = [name for name, _ in several]
    needs = compiled_everywhere(source for _, source in several)
    print(table(needs, names))
    for architecture, found in needs.items():
        for (number, kernel), used in found.items():
            name, source = several[number]
            wrong = f"{kernel} of {name} on {architecture}: {used}\n{source}"
            assert used.stack <= MOST_STACK, wrong


def _claimed(source: str, claims: Path) -> bool:
    """Whether nobody else compiles a source like this one, from now on."""
    try:
        (claims / key_of(re.sub(r"\d+", "#", source))).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
