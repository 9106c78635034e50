"""CONTRIBUTING.md names folders, files and commands that exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PACKAGES = [ROOT / "engine", ROOT / "service", ROOT / "clients"]
BASES = [ROOT, ROOT / "engine" / "halocline_engine"]
CHANGES = [
    "new boundary kind",
    "new store",
    "new executor",
    "another GPU kernel kind",
    "new job kind",
    "other block order",
    "new codec",
    "new event",
    "new error",
    "new option",
]
#: A form of names, and a program of the environment.
PATTERNS = {"engine/decisions/NNNN-name.md", ".venv/bin/lint-imports"}

SPANS = set(re.findall(r"`([^`\n]+)`", PAGE))
PATHS = {span for span in SPANS if re.fullmatch(r"[\w.-]+(/[\w.-]*)+", span)}
MODULES = {span for span in SPANS if re.fullmatch(r"\w+\.py", span)}


@pytest.mark.parametrize("path", sorted(PATHS - PATTERNS))
def test_a_path_exists(path: str) -> None:
    found = [base / path for base in BASES if (base / path).exists()]
    assert found, path
    assert found[0].is_dir() == path.endswith("/")


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_exists(name: str) -> None:
    assert any(next(package.rglob(name), None) for package in PACKAGES)


def test_the_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = {f"make {name}" for name in re.findall(r"^(\w+):", makefile, re.MULTILINE)}
    assert set(re.findall(r"^make \w+", PAGE, re.MULTILINE)) <= targets
    for path in re.findall(r"tests/[\w/]+\.py", PAGE):
        assert (ROOT / path).exists(), path


def test_ten_changes_are_answered() -> None:
    assert re.findall(r"^\| ([^|`]+) \| [A-Z]", PAGE, re.MULTILINE) == CHANGES


def test_a_kernel_can_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (script,) = re.findall(r"<<'EOF'\n(.*?)^EOF$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "look.py").write_text(script)
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(tmp_path / "look.py"))
    printed = capsys.readouterr().out
    assert "schedule limited_diffusion" in printed
    assert "__global__" in printed
