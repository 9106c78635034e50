"""Attacks by strangers and by users, as the scripts make them that anyone can run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DEPLOY = Path(__file__).parents[2] / "deploy"


def rows(script: str, *options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(DEPLOY / script), *options],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_an_installation_withstands_strangers_and_ends_when_it_is_killed() -> None:
    *found, _ = rows("try-security.py")
    assert len(found) == 6
    if os.geteuid() == 0:  # elsewhere it cannot be another user, nor make a network
        assert [row[:9].strip() for row in found] == ["held"] * 6


def test_one_owner_does_not_stop_another() -> None:
    found = rows("try-requests.py", "--answer", "10")
    assert len(found) == 18
    assert all(row.startswith("held") for row in found)
