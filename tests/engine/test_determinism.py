"""The same text gives the same bytes, whatever the order of Python's sets."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import halocline_engine as he
from halocline_engine.program import compile_program

TEXT = """
def shape(alpha: Field[float64], beta: Field[float32], gamma_: Field[IJ, float64],
          delta: Field[K, float64], eps: float, n: int = 2):
    with computation(PARALLEL), interval(...):
        lap = alpha[1, 0, 0] + alpha[-1, 0, 0] + delta * eps
        flx = lap[0, 1, 0] - lap
        fly = lap[1, 0, 0] - lap
        if flx > 0.0 and fly > 0.0:
            omega = flx
            zeta = fly * n
            beta = omega[1, 0, 0]
        else:
            zeta = 0.0
    with computation(FORWARD):
        with interval(0, 1):
            gamma_ = zeta
        with interval(1, None):
            gamma_ = gamma_ + zeta[0, 0, -1] * sqrt(abs(lap))
"""

PRINT = """
import sys
from halocline_engine.program import compile_program
from halocline_engine.functions.stencil import Stencil
for target in ("reference", "cpu", "cuda"):
    compiled = compile_program(sys.argv[1], target=target)
    for stage in ("ir", "schedule", "kernel"):
        print(Stencil(compiled).show(stage))
    print(compiled.fingerprint)
"""


def printed(seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRINT, TEXT],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_hash_seeds() -> None:
    first, second = printed("1"), printed("4242")
    assert first == second
    assert first.count("program shape(") == 4
    assert "kernel" in first


def test_names_of_users_do_not_reach_generated_code() -> None:
    for target in ("cpu", "cuda"):
        source = compile_program(TEXT, target=target).artifact.source
        assert not any(name in source for name in ("alpha", "beta", "omega", "zeta", "lap"))


def test_the_fingerprint_tells_programs_and_targets_apart() -> None:
    prints = {
        compile_program(text, target=target).fingerprint
        for text in (TEXT, TEXT.replace("n: int = 2", "n: int = 3"))
        for target in ("reference", "cpu")
    }
    assert len(prints) == 4
    assert all(len(text) == 64 for text in prints)
    same = compile_program("# a comment\n" + TEXT, target="cpu").fingerprint
    assert same in prints


@pytest.mark.parametrize("target", ["reference", "cpu", "cuda"])
def test_compiling_needs_no_device(target: str) -> None:
    compiled = compile_program(TEXT, target=target)
    assert compiled.target == target
    assert he.Stencil(compiled).extents["alpha"] == ((-1, 3), (0, 1), (0, 0))
