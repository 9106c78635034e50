"""Long loops of the CPU target are cut into functions, which compute the same."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from differential import LAYOUTS, front
from drawing import program
from general_runs import OPTIONS, agree
from interpreted import patch

import halocline_engine as he
from halocline_engine.backends.cpu.text import outline
from halocline_engine.backends.cpu.text.outline import outlined
from halocline_engine.errors import ProgramError


def test_any_cut_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch)
    monkeypatch.setattr(outline, "_WHOLE", 0)
    compared = 0
    for number in range(7000, 7070):
        random = Random(number)
        monkeypatch.setattr(outline, "_PART", random.choice([30, 120, 500]))
        try:
            meaning, facts = front(program(number, general=number % 2 == 0))
        except ProgramError:
            continue
        domain = (random.randint(1, 5), random.randint(1, 4), random.randint(facts.min_levels, 8))
        agree(meaning, facts, domain, random.choice(LAYOUTS), number % 10, *OPTIONS)
        compared += 1
    assert compared > 14


def test_short_functions_stay_whole() -> None:
    text = "def kernel0(a):\n    b = a\n    return b\n"
    assert outlined(text, "part") == (text, ())


def test_parts_take_what_they_read_and_return_what_others_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outline, "_WHOLE", 0)
    monkeypatch.setattr(outline, "_PART", 12)
    text = """\
def kernel0(n, p):
    total = 0.0
    for i in range(n):
        a = load(p, i)
        b = a * 2.0
        c = a + b
        total = total + c
        if total > 9.0:
            store(p, i, c)
"""
    found, parts = outlined(text, "part")
    assert len(parts) == 6
    assert "def part3(a, b):\n    c = a + b\n    return (c,)\n" in found
    assert "def part4(c, total):\n    total = total + c\n    return (total,)\n" in found
    assert "        if total > 9.0:\n            part5(c, i, p)\n" in found


def test_parts_return_nothing_that_is_assigned_again_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outline, "_WHOLE", 0)
    monkeypatch.setattr(outline, "_PART", 40)
    text = """\
def kernel0(n, p):
    for i in range(n):
        a = load(p, i)
        store(p, i, a * a)
        if load(p, i) > 1.0:
            a = load(p, i) * 2.0
            store(p, i, a + 1.0)
"""
    found, parts = outlined(text, "part")
    assert len(parts) == 2
    assert found.endswith("        part0(i, p)\n        part1(i, p)\n")


def column_physics(statements: int) -> str:
    """Return a program as long as the largest of weather models."""
    lines = [
        f"        x{n} = x{n - 1} * 0.5 + min(a, {n}.0) / (1.0 + x{n - 1})"
        for n in range(1, statements // 4)
    ]
    for n in range(1, statements // 4):
        lines += [
            f"        if x{n} > 1.{n}:",
            f"            t = t + x{n} * x{n % 7 + 1}",
            "        else:",
            f"            s = max(s, t - {n}.0)",
        ]
    return (
        "def physics(a: Field[float], s: Field[float], out: Field[float]):\n"
        "    with computation(FORWARD), interval(...):\n        x0 = a\n        t = 0.0\n"
        + "\n".join(lines)
        + "\n        out = t + s\n"
    )


def test_long_programs_compile_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "_WHOLE", 2000)
    monkeypatch.setattr(outline, "_PART", 800)
    text = column_physics(160)
    assert "def part0_1(" in he.stencil(text, target="cpu").source
    results: list[Any] = []
    for target in ("reference", "cpu"):
        a = np.random.default_rng(3).uniform(0.1, 2.0, (3, 2, 4))
        s, out = np.zeros_like(a), np.full_like(a, np.nan)
        he.stencil(text, target=target)(a, s, out)
        results += [s, out]
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[1], results[3])
