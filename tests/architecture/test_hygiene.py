"""What must not be in the tree: paths of one machine, names by `id()`, prints, loose records."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARIES = (
    ROOT / "engine/halocline_engine",
    ROOT / "service/halocline_service",
    ROOT / "clients/python/halocline",
)
# Folders of one machine; as groups, so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.*~>}\]-])/(?:work|root|home/\w+)/")
ADDRESS = re.compile(r"https?://([^\s/'\"`)>:]+)")
# What build files may speak to: this machine, and services of the compose file by their names.
OWN_HOSTS = re.compile(r"127\.0\.0\.1|localhost|\[::1\]|api|scheduler|\$\{?\w+.*")
BUILD_FILES = ("Makefile", ".ci/run", "docker-compose.yml", ".dockerignore", "deploy")
HEADINGS = ["Why", "Context", "Decision", "Consequences", "Alternatives"]


def tracked() -> list[Path]:
    """Every file of the project: what git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return outside_environments([path for path in paths if path.is_file()])


def outside_environments(paths: list[Path]) -> list[Path]:
    """Leave out virtual environments, which need not be called as those that git ignores."""
    environments = {path.parent for path in paths if path.name == "pyvenv.cfg"}
    return [path for path in paths if environments.isdisjoint(path.parents)]


def test_environments_of_any_name_are_left_out() -> None:
    own = [ROOT / "README.md", ROOT / "engine" / "lib" / "a.py"]
    environment = [ROOT / "py312" / name for name in ("pyvenv.cfg", "lib/b.so", "bin/python")]
    assert outside_environments([*environment, *own]) == own


def texts(paths: list[Path]) -> dict[Path, str]:
    """Read those that are text."""
    found: dict[Path, str] = {}
    for path in paths:
        data = path.read_bytes()
        if b"\0" not in data:
            found[path] = data.decode()
    return found


def places(pattern: re.Pattern[str], sources: dict[Path, str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path, text in sources.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def calls(name: str, source: str) -> list[int]:
    """Lines on which the builtin `name` is called, but where `noqa` gives a reason."""
    if name not in source:
        return []
    reasoned = re.compile(r"# noqa: \w+ - \w")
    lines = source.splitlines()
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        if not reasoned.search(lines[(node.end_lineno or node.lineno) - 1])
    ]


def records() -> list[Path]:
    return sorted(ROOT.glob("*/decisions/[0-9]*.md"))


def test_no_file_names_a_path_of_one_machine() -> None:
    assert places(MACHINE_PATH, texts(tracked())) == []


def test_build_files_speak_to_no_host_of_their_own_choice() -> None:
    """Package sources are left to the machine's configuration."""
    build = [
        path for path in tracked() if path.relative_to(ROOT).as_posix().startswith(BUILD_FILES)
    ]
    hosts = {
        host
        for text in texts(build).values()
        for host in ADDRESS.findall(text)
        if not OWN_HOSTS.fullmatch(host)
    }
    assert hosts == set()


@pytest.mark.parametrize("name", ["id", "print", "breakpoint", "eval", "exec"])
def test_libraries_do_not_call(name: str) -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in LIBRARIES
        for path in package.rglob("*.py")
        for line in calls(name, path.read_text())
    ]
    assert offenders == []


@pytest.mark.parametrize("path", records(), ids=lambda path: path.stem)
def test_a_decision_record_has_the_five_headings(path: Path) -> None:
    text = path.read_text()
    assert re.match(rf"# {path.stem[:4]}: \S", text), "The title is '# NNNN: words'."
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS


def test_decision_records_are_numbered_once() -> None:
    for folder in {path.parent for path in records()}:
        numbers = [path.stem[:4] for path in records() if path.parent == folder]
        assert len(set(numbers)) == len(numbers)


def test_the_patterns_find_what_they_are_for() -> None:
    assert MACHINE_PATH.search("open('/" + "work/main')")
    assert MACHINE_PATH.search("in /" + "root/.cache")
    assert not MACHINE_PATH.search("tests/work/file and ~/work/file")
    assert ADDRESS.findall("see https://packages.example/simple") == ["packages.example"]
    assert not OWN_HOSTS.fullmatch("packages.example")
    assert calls("id", "a = {id(b): 1}\nc.id(d)") == [1]
