"""Planning takes time in proportion to a program, and takes any that the front end accepts."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
from differential import front

import halocline_engine as he
from halocline_engine.backends.cuda.build import CudaBackend
from halocline_engine.schedule.passes.knots import knots
from halocline_engine.schedule.plan import plan

HEAD = "def f(a: Field[float], out: Field[float]):\n    with computation({}), interval({}):\n"


def up_a_column(count: int) -> str:
    """Return temporaries that each read the one before it a level below."""
    lines = [f"        t{n} = 0.5 * t{n - 1}[0, 0, -1] + a\n" for n in range(1, count)]
    head = HEAD.format("FORWARD", "1, None") + "        t0 = a\n"
    return head + "".join(lines) + f"        out = t{count - 1}\n"


def across_columns(count: int) -> str:
    """Return temporaries that columns beside theirs read, in one sum."""
    lines = [f"        t{n} = a[{n % 3 - 1}, 0, 0]\n" for n in range(count)]
    lines += [
        f"        out = out + t{n}[0, 0, -1] * t{7 * n % count}[1, 0, 0]\n" for n in range(count)
    ]
    return HEAD.format("FORWARD", "1, None") + "        out = 0.0\n" + "".join(lines)


def chain(count: int, step: int = 0) -> str:
    """Return temporaries that each read the one before it, some of them `step` points beside."""
    lines = [
        f"        t{n} = 0.5 * t{n - 1}[{0 if n % 50 else step}, 0, 0] + a\n"
        for n in range(1, count)
    ]
    head = HEAD.format("PARALLEL", "...") + "        t0 = a\n"
    return head + "".join(lines) + f"        out = t{count - 1}\n"


def side_by_side(count: int) -> str:
    """Return temporaries that are read once each, beside the point."""
    lines = [f"        t{n} = a[{n % 3 - 1}, 0, 0] * {n}.5\n" for n in range(count)]
    lines += [f"        out = out + t{n}[{n % 3 - 1}, 0, 0]\n" for n in range(count)]
    return HEAD.format("PARALLEL", "...") + "        out = 0.0\n" + "".join(lines)


def scratch_space(count: int) -> str:
    """Return temporaries that one computation after the other assigns anew, and reads at once."""
    lines = [
        f"        t{n} = 0.5 * out[0, 0, -1] + a\n"
        f"        if a > {n}.0:\n"
        f"            out = out + t{n}\n"
        for n in range(count)
    ]
    head, _, rest = HEAD.format("FORWARD", "1, None").partition("\n")
    return f"{head}\n" + 3 * (rest + "".join(lines))


def calls_to_plan(text: str) -> int:
    """Return how many functions are called until a program is planned."""
    program, facts = front(text)
    return calls_of(lambda: plan(program, facts))


def calls_to_write(text: str) -> int:
    """Return how many functions are called until the CUDA C++ of a program is there."""
    program, facts = front(text)
    artifact = CudaBackend().build(plan(program, facts))
    return calls_of(lambda: artifact.source)


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions are called, and generators resumed."""
    calls = 0

    def count(_frame: object, event: str, _given: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("text", [up_a_column, across_columns, chain, side_by_side, scratch_space])
def test_twice_the_statements_take_twice_the_time(text: Callable[[int], str]) -> None:
    assert calls_to_plan(text(240)) < 2.5 * calls_to_plan(text(120))


def test_twice_the_statements_of_a_column_take_twice_the_time_to_write() -> None:
    assert calls_to_write(scratch_space(120)) < 2.5 * calls_to_write(scratch_space(60))


@pytest.mark.parametrize("step", [0, -1])
def test_a_long_chain_is_not_nested_too_deeply(step: int) -> None:
    """Where one temporary after the other is recomputed, the last one's value would nest them."""
    compiled = he.stencil(chain(500, step), target="reference")
    a = np.random.default_rng(1).normal(size=(16, 1, 1))
    out = np.zeros_like(a)
    compiled(a, out, origin=(10, 0, 0), domain=(6, 1, 1))
    expected = a
    for n in range(1, 500):
        expected = 0.5 * (expected if n % 50 else np.roll(expected, -step)) + a
    np.testing.assert_array_equal(out[10:], expected[10:])
    source = he.stencil(chain(500, step), target="cpu").show("kernel")
    assert max(line.count("(") for line in source.splitlines()) < 400
    compile(source, "kernel", "exec")


def test_knots_are_what_reaches_each_other_in_order() -> None:
    random = np.random.default_rng(2)
    for _ in range(300):
        size = int(random.integers(1, 9))
        pairs = {(int(a), int(b)) for a, b in random.integers(0, size, (random.integers(12), 2))}
        reach = np.eye(size, dtype=bool)
        for a, b in pairs:
            reach[a, b] = True
        for middle in range(size):
            reach |= reach[:, middle : middle + 1] & reach[middle]
        found = knots(size, pairs)
        assert sorted(n for knot in found for n in knot) == [*range(size)]
        for at, knot in enumerate(found):
            mutual = reach[knot[0]] & reach[:, knot[0]]
            assert np.flatnonzero(mutual).tolist() == knot
            waiting = [other for other in found[at:] if other != knot]
            assert not any(reach[other[0], knot[0]] for other in waiting)
            ready = [
                one
                for one in found[at:]
                if not any(reach[other[0], one[0]] for other in found[at:] if other != one)
            ]
            assert knot == min(ready)
