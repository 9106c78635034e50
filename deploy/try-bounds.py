"""Run tests with the lowest versions that pyproject.toml declares, and with the newest there are.

    python deploy/try-bounds.py                           # every part, each Python that is found
    python deploy/try-bounds.py --quick                   # a representative part of each kind
    python deploy/try-bounds.py --python /opt/python3.14/bin/python3 --versions newest

For each Python and both choices of versions it makes an environment below build/bounds with uv,
which is installed beside them where it is not on the PATH, and runs pytest there, part by part.
`lowest` means that of each requirement of pyproject.toml, and the newest of what these need in turn
(uv's 'lowest-direct'). The table is printed at the end, and written to build/bounds/table.txt as it
grows; the status is 1 where a part fails. With --lock, each step waits for that file's lock.

Results of --quick on 29 November 2026, on two cores of an x86 machine without a GPU:

    Python  versions  arrays  datasets  distribute  clients  service  programs
    3.11    lowest       261      1129         139      134      999      1415
    3.13    newest       261      1129         139      134      999      1414

All passed, after corrections of tests; 9 arrays and 9 or 10 programs are skipped. Python 3.14 was
not available there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "bounds"
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
EXTRAS = ("service", "postgres")
#: Other requirements of tests, in the newest versions that are compatible with the rest.
TOOLS = (
    *("hypothesis", "iris-sample-data", "jsonschema", "matplotlib", "nvidia-cuda-nvrtc"),
    *("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime", "owslib", "pytest", "pytest-benchmark"),
    *("pytest-timeout", "pytest-xdist", "pyyaml", "schemathesis", "scipy", "xgcm"),
)
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}

ENGINE, CLIENTS, SERVICE = "tests/engine", "tests/clients", "tests/service"
#: Parts by name: what a developer waits for, and all that needs no browser and no checkout.
QUICK = {
    "programs": [f"{ENGINE}/language", f"{ENGINE}/passes", f"{ENGINE}/ir", "tests/golden"],
    "arrays": [
        *(f"{ENGINE}/test_{each}.py" for each in ("stencil", "run", "repeat", "matmul", "solve")),
        *(f"{ENGINE}/test_{each}.py" for each in ("indirect", "meshes", "regridding", "tables")),
    ],
    "datasets": [f"{ENGINE}/datasets", f"{ENGINE}/test_foreign_files.py"],
    "distribute": [
        f"{ENGINE}/distribute/test_{each}.py"
        for each in ("runs", "any_partition", "snapshots", "resident", "sequence", "cluster_errors")
    ],
    "clients": [
        f"{CLIENTS}/test_{each}.py"
        for each in ("service", "submit", "job", "async", "help", "job_files", "result_store")
    ],
    "service": [f"{SERVICE}/api", f"{SERVICE}/store", f"{SERVICE}/jobs"],
}
FULL = {
    "engine": [ENGINE],
    "golden": ["tests/golden", "tests/peers"],
    "clients": [CLIENTS],
    "service": [SERVICE],
    "doctests": ["engine", "clients/python"],
}


@dataclass(frozen=True)
class Row:
    """Result of one part in one environment."""

    python: str
    versions: str
    part: str
    result: str

    def __str__(self) -> str:
        return f"{self.python:6} {self.versions:7} {self.part:10} {self.result}"


def main() -> int:
    """Make the environments, run the parts, and print the table."""
    asked = _arguments()
    parts = QUICK if asked.quick else FULL
    chosen = asked.part or list(parts)
    rows: list[Row] = []
    for python in asked.python or [each for each in PYTHONS if _runs(each)]:
        for versions in asked.versions:
            for row in tried(python, versions, {name: parts[name] for name in chosen}, asked.lock):
                print(row, flush=True)
                rows.append(row)
                (FOLDER / "table.txt").write_text("".join(f"{one}\n" for one in rows))
    return int(any("failed" in one.result or "error" in one.result for one in rows) or not rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a representative part of each kind")
    parser.add_argument("--python", action="append", help="a Python; repeatable")
    parser.add_argument("--versions", nargs="+", choices=RESOLUTIONS, default=[*RESOLUTIONS])
    parser.add_argument("--part", nargs="+", choices={**QUICK, **FULL}, help="only these parts")
    parser.add_argument("--lock", help="a file whose lock is held while a part runs")
    return parser.parse_args()


def tried(
    python: str, versions: str, parts: dict[str, list[str]], lock: str | None
) -> Iterator[Row]:
    """Make the environment of a Python with such versions, and yield a row for each part."""
    number = _printed(python, "-c", "import sys; print('{}.{}'.format(*sys.version_info))")
    place = FOLDER / f"{number}-{versions}"
    failure = _installed(python, place, RESOLUTIONS[versions])
    if failure:
        yield Row(number, versions, "install", f"failed: {failure}")
        return
    for name, paths in parts.items():
        yield Row(number, versions, name, _tests(place, paths, lock))


def _installed(python: str, place: Path, resolution: str) -> str:
    """Make an environment; return why it cannot be made, or nothing."""
    uv, needed = _uv(), str(place.with_name(f"{place.name}.txt"))
    install = (uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python"))
    # Versions that have no wheel for this Python are none for those who install it.
    lowest = ("--resolution", resolution, "--only-binary", ":all:", "--output-file", needed)
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    commands = (
        (uv, "venv", "--quiet", "--clear", "--python", python, str(place)),
        (uv, "pip", "compile", "--quiet", "--python", python, *lowest, *extras, "pyproject.toml"),
        (*install, "--requirement", needed),
        (*install, "--no-deps", "--editable", "."),
        (*install, *TOOLS),
    )
    for command in commands:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else command[1]
    return ""


def _uv() -> str:
    """Return the command of uv, and install it below the environments where there is none."""
    place = FOLDER / "uv"
    ours = place / "bin" / "uv"
    if shutil.which("uv"):
        return "uv"
    if not ours.exists():
        venv.create(place, with_pip=True, clear=True)
        subprocess.run((place / "bin" / "pip", "install", "--quiet", "uv"), check=True)
    return str(ours)


def _tests(place: Path, paths: Sequence[str], lock: str | None) -> str:
    """Run tests in an environment; return pytest's closing line. The log lies beside it."""
    environment = {**os.environ, "MPLBACKEND": "Agg", "NUMBA_NUM_THREADS": "1"}
    environment["PATH"] = f"{place / 'bin'}{os.pathsep}{environment['PATH']}"
    environment.pop("VIRTUAL_ENV", None)
    command = [
        *(str(place / "bin" / "python"), "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal"),
        *("--benchmark-disable", "-p", "no:cacheprovider", *paths),
    ]
    if lock:
        command = ["flock", lock, *command]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    name = "-".join(paths[0].split("/")[1:]) or paths[0]
    place.with_name(f"{place.name}-{name}.log").write_text(done.stdout + done.stderr)
    closing = [line for line in done.stdout.splitlines() if re.match(r"(=+ )?\d+ \w+.* in ", line)]
    return closing[-1].strip("= ") if closing else f"failed with status {done.returncode}"


def _runs(python: str) -> bool:
    """Return whether a Python is there and no mere shim of a manager of versions."""
    command = shutil.which(python)
    return command is not None and not subprocess.run((command, "-c", ""), check=False).returncode


def _printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
