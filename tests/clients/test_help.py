"""The help of the command: flags stand there as they are written."""

from __future__ import annotations

import re

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from halocline.command.base import app, uploads
from halocline.command.cli import COMMANDS as MODULES

_IMPORTED = [module.__name__ for module in MODULES]  # so that their commands are known
GROUPS = {"uploads": sorted(get_group(uploads).commands)}
COMMANDS = [
    (name, *inner)
    for name in sorted(get_group(app).commands)
    for inner in ([(each,) for each in GROUPS[name]] if name in GROUPS else [()])
]


def shown(*words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "100"})
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_flags_take_no_value(command: tuple[str, ...]) -> None:
    text = shown(*command)
    assert "bool" not in text
    assert re.search(r"^  --json +Print JSON\.$", text, re.MULTILINE)
    url = re.search(r"^  --url (<str>|TEXT) +Address of the service\.$", text, re.MULTILINE)
    assert bool(url) == (command != ("bench",))  # which asks no service


def test_the_flags_of_submit() -> None:
    lines = [line.strip() for line in shown("submit").splitlines()]
    flags = [re.split(r" {2,}", line) for line in lines if re.match(r"--(wait|quiet|help)\b", line)]
    assert flags == [
        ["--wait", "Wait for the end of the job."],
        ["--quiet", "Show no progress."],
        ["--help", "Show this message and exit."],
    ]
