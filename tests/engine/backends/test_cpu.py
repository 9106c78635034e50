"""The CPU target gives the reference's bits, however arrays lie and however the work is cut."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from differential import (
    LAYOUTS,
    Inputs,
    assert_same,
    copied,
    front,
    inputs,
    judged,
    run,
)

from halocline_engine.backends.cpu import code as cpu_code
from halocline_engine.backends.cpu.build import CpuArtifact, CpuBackend
from halocline_engine.backends.cpu.pieces import SERIAL_POINTS, split
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.backends.cpu.text.emit import emit
from halocline_engine.backends.cpu.text.layout import contiguous, layout_of
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.plan import plan

DIFFUSION = """
def diffusion(inp: Field[np.float64], coeff: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        lap = 4.0 * inp - (inp[1, 0, 0] + inp[-1, 0, 0] + inp[0, 1, 0] + inp[0, -1, 0])
        flx = lap[1, 0, 0] - lap
        flx = 0.0 if flx * (inp[1, 0, 0] - inp) > 0.0 else flx
        fly = lap[0, 1, 0] - lap
        if fly * (inp[0, 1, 0] - inp) > 0.0:
            fly = 0.0
        out = inp - coeff * (flx - flx[-1, 0, 0] + fly - fly[0, -1, 0])
"""
TRIDIAGONAL = """
def tridiagonal(
    a: Field[np.float64], b: Field[np.float64], c: Field[np.float64], d: Field[np.float64],
    x: Field[np.float64],
):
    with computation(FORWARD):
        with interval(0, 1):
            cp = c / b
            dp = d / b
        with interval(1, None):
            m = 1.0 / (b - a * cp[0, 0, -1])
            cp = c * m
            dp = (d - a * dp[0, 0, -1]) * m
    with computation(BACKWARD):
        with interval(-1, None):
            x = dp
        with interval(0, -1):
            x = dp - cp * x[0, 0, 1]
"""
PLANES = """
def planes(a: Field[np.float64], x: Field[np.float64]):
    with computation(PARALLEL):
        with interval(0, -1):
            x = a[0, 0, 1] - a[0, -1, 0] + a[1, 0, 0]
        with interval(-1, None):
            x = a
"""
MIXED = """
def mixed(
    a: Field[np.float32], flag: Field[np.bool_], total: Field[IJ, np.float32],
    w: Field[K, np.float32], n: Field[np.int32], out: Field[np.float32], s: np.float32, m: np.int32
):
    with computation(FORWARD), interval(...):
        total = total + a * w
        n = n * 3 + m
    with computation(PARALLEL):
        with interval(0, 1):
            out = total
        with interval(1, -1):
            if flag and n > 0:
                out = min(a[1, 0, 0], w) + a[0, -1, 1] ** 2 * s
                n = -n
            else:
                out = max(a, total)
                n = n % 4
        with interval(-1, None):
            out = a[0, 0, -1]
            flag = not flag
"""
PROGRAMS = {
    "diffusion": DIFFUSION,
    "tridiagonal": TRIDIAGONAL,
    "planes": PLANES,
    "mixed": MIXED,
}
SCALARS = {"s": 0.1, "m": 2}
DOMAIN = (9, 7, 5)


@pytest.fixture(scope="module")
def executables() -> dict[str, CpuExecutable]:
    """Compiled once for all tests: layouts are compiled when they come."""
    return {name: CpuBackend().build(plan(*front(text))).load() for name, text in PROGRAMS.items()}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_layout_gives_the_bits_of_the_reference(
    name: str, layout: str, executables: dict[str, CpuExecutable]
) -> None:
    program, facts = front(PROGRAMS[name])
    given = inputs(program, facts, DOMAIN, layout=layout)
    expected = judged(program, facts, given, DOMAIN, SCALARS)
    assert_same(run(executables[name], given, DOMAIN, SCALARS), expected)


def test_fields_may_lie_differently_in_one_call(executables: dict[str, CpuExecutable]) -> None:
    program, facts = front(DIFFUSION)
    given = inputs(program, facts, DOMAIN)
    along_k = inputs(program, facts, DOMAIN, layout="along K")
    given.arrays["coeff"] = along_k.arrays["coeff"]
    expected = judged(program, facts, given, DOMAIN, {})
    assert_same(run(executables["diffusion"], given, DOMAIN, {}), expected)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ["diffusion", "tridiagonal", "planes"])
@pytest.mark.parametrize("domain", [(70, 31, 17), (1, 1, SERIAL_POINTS + 9), (SERIAL_POINTS, 2, 2)])
def test_threads_change_no_bit(
    name: str,
    domain: tuple[int, int, int],
    threads: int,
    executables: dict[str, CpuExecutable],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here with more threads than there may be processors."""
    if name == "tridiagonal" and domain[2] > 99:
        domain = (domain[2], 1, 3)
    program, facts = front(PROGRAMS[name])
    given = inputs(program, facts, domain)
    expected = judged(program, facts, given, domain, {})
    monkeypatch.setattr("halocline_engine.backends.cpu.run.threads_of_calls", lambda: threads)
    assert_same(run(executables[name], given, domain, {}), expected)


@pytest.mark.parametrize("name", ["diffusion", "tridiagonal"])
def test_pieces_of_the_domain_give_the_bits_of_the_whole(
    name: str, executables: dict[str, CpuExecutable]
) -> None:
    domain = (13, 11, 6)
    program, facts = front(PROGRAMS[name])
    whole = inputs(program, facts, domain)
    pieces = copied(whole)
    run(executables[name], whole, domain, {})
    for i_low, i_high in ((0, 1), (1, 8), (8, 13)):
        for j_low, j_high in ((0, 5), (5, 11)):
            moved = {n: (i + i_low, j + j_low, k) for n, (i, j, k) in pieces.origins.items()}
            piece = (i_high - i_low, j_high - j_low, domain[2])
            run(executables[name], replace(pieces, origins=moved), piece, {})
    assert_same(pieces.arrays, whole.arrays)


def test_calls_from_several_threads_do_not_meet(executables: dict[str, CpuExecutable]) -> None:
    program, facts = front(TRIDIAGONAL)
    given = [inputs(program, facts, (40, 30, 20), seed=n) for n in range(6)]
    expected = [judged(program, facts, one, (40, 30, 20), {}) for one in given]

    def call(one: Inputs) -> None:
        for _ in range(5):
            run(executables["tridiagonal"], one, (40, 30, 20), {})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, given))
    for one, right in zip(given, expected, strict=True):
        assert_same(one.arrays, right)


def test_a_second_call_does_not_see_the_temporaries_of_the_first() -> None:
    text = """
def kept(a: Field[np.float64], out: Field[np.float64]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a
        with interval(1, -1):
            if a > 0.0:
                t = a
    with computation(BACKWARD), interval(...):
        out = t
"""
    program, facts = front(text)
    executable = CpuBackend().build(plan(program, facts)).load()
    for seed in (1, 2):
        given = inputs(program, facts, DOMAIN, seed=seed)
        expected = judged(program, facts, given, DOMAIN, {})
        assert_same(run(executable, given, DOMAIN, {}), expected)


def test_an_empty_domain_touches_nothing(executables: dict[str, CpuExecutable]) -> None:
    program, facts = front(DIFFUSION)
    given = inputs(program, facts, DOMAIN)
    before = copied(given)
    run(executables["diffusion"], given, (0, 4, 4), {})
    assert_same(given.arrays, before.arrays)


def test_an_artifact_travels() -> None:
    artifact = CpuBackend().build(plan(*front(TRIDIAGONAL)))
    again = pickle.loads(pickle.dumps(artifact))
    assert again == artifact
    assert isinstance(again, CpuArtifact)
    assert again.source == artifact.source


def test_no_name_of_the_user_reaches_the_text() -> None:
    schedule = plan(*front(MIXED))
    text = emit(schedule, contiguous(schedule.program)).text
    words = set(text.replace("(", " ").replace(",", " ").replace(")", " ").split())
    assert not words & {"total", "flag", "out", "mixed", "a", "w", "n", "s", "m"}


def test_the_inner_loop_runs_along_the_axis_that_most_fields_are_adjacent_along() -> None:
    program, _ = front(DIFFUSION)
    i, k = (8, 80, 800), (800, 80, 8)
    assert layout_of(program, {"inp": i, "coeff": k, "out": i}).inner is Axis.I
    assert layout_of(program, {"inp": k, "coeff": k, "out": i}).inner is Axis.K
    assert layout_of(program, {"inp": i, "coeff": k, "out": i}).adjacent == {"inp", "out"}


def _many_arrays(count: int) -> str:
    fields = ", ".join(f"x{n}: Field[np.float64]" for n in range(count))
    lines = "\n        ".join(f"x{n} = 1.5 * x{n}" for n in range(count))
    head = f"def many(q: Field[np.float64], {fields}):"
    return f"{head}\n    with computation(PARALLEL), interval(...):\n        {lines}\n"


@pytest.mark.parametrize("text", [DIFFUSION, _many_arrays(40)], ids=["diffusion", "40 arrays"])
def test_inner_loops_are_vectorised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    # Numba shows no code that it has loaded.
    monkeypatch.setattr(cpu_code, "code_folder", tmp_path.joinpath)
    executable = CpuBackend().build(plan(*front(text))).load()
    program, facts = front(text)
    run(executable, inputs(program, facts, DOMAIN), DOMAIN, {})
    (code,) = executable.machine_code()
    assert "mulpd" in code or "fmul\tv" in code
    assert "vfmadd" not in code


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("inner", [Axis.I, Axis.K])
@pytest.mark.parametrize("box", [((-1, 9), (0, 1), (0, 3)), ((0, 1), (0, 1), (0, 99))])
def test_split_covers_every_point_once(
    box: tuple[tuple[int, int], tuple[int, int], tuple[int, int]], inner: Axis, sequential: bool
) -> None:
    count = np.zeros((12, 4, 120), int)
    pieces = split(box, 3, inner, sequential=sequential)
    for (i0, i1), (j0, j1), (k0, k1) in pieces:
        count[i0 + 1 : i1 + 1, j0:j1, k0:k1] += 1
        assert not sequential or (k0, k1) == box[2]
    assert count.max() == 1
    assert count.sum() == np.prod([high - low for low, high in box])
