"""How much a program becomes, and that what is refused would take a compiler long."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import halocline_engine as he
from halocline_engine.program import compile_program
from halocline_engine.schedule.size import Size, check_size, size_of

#: A part of what a service allows.
PART = 3_000
FACES = ("z_face", np.arange(4.0), {"standard_name": "height", "units": "m"})

HEAD = "def f(a: Field[float], b: Field[float], out: Field[float]):\n"
WHOLE = "    with computation(PARALLEL), interval(...):\n"


def branches(count: int) -> str:
    """Return a program of so many branches, one behind the other."""
    lines = [
        f"        if a > {n}.0:\n            out = b[{n % 5 - 2}, 0, 0]\n"
        f"        else:\n            out = out + {n}.5\n"
        for n in range(count)
    ]
    return f"{HEAD}{WHOLE}        out = a\n{''.join(lines)}"


def sweeps(count: int) -> str:
    """Return a program that goes up and down the columns so many times, each time in two loops."""
    up = "    with computation(FORWARD), interval(1, None):\n        out = out[0, 0, -1] + a\n"
    down = "    with computation(BACKWARD), interval(0, -1):\n        out = out[0, 0, 1] * b\n"
    return HEAD + (up + down) * count


def sums(count: int) -> str:
    """Return a program of so many assignments to the same field."""
    lines = [f"        out = out * {n}.5 + a\n" for n in range(count)]
    return f"{HEAD}{WHOLE}        out = a\n{''.join(lines)}"


def test_what_counts() -> None:
    compiled = compile_program(branches(3), target="cpu")
    assert size_of(compiled.schedule) == Size(terms=31, branches=3, loops=1, fields=3)
    assert size_of(compiled.schedule).total == 31 + 3 * 40 + 100 + 3 * 10
    twice = compile_program(sweeps(2), target="cpu")
    assert size_of(twice.schedule).loops == 4


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("text", "parts", "total"),
    [
        (branches(220), (1984, 220, 1, 3), 10914),
        (sweeps(40), (320, 0, 80, 160), 9920),
    ],
)
def test_what_is_refused(text: str, parts: tuple[int, ...], total: int, target: str) -> None:
    with pytest.raises(he.CapacityError) as caught:
        check_size(compile_program(text, target=target).schedule, 8000)
    assert str(caught.value) == (
        "The program is too large to compile: its terms ({}), branches ({}), loops ({}) and fields"
        " in loops ({}) count 1, 40, 100 and 10 each, {} together, but at most 8000 are allowed."
        " Split it into several programs that exchange fields.".format(*parts, total)
    )


def test_runs_are_refused_by_an_option() -> None:
    values = (("z", "y", "x"), np.ones((3, 4, 6)))
    data = xr.Dataset(dict.fromkeys(("a", "b", "out"), values), {"z_face": FACES})
    options = he.Options(program_size=100)
    with pytest.raises(he.CapacityError, match="at most 100 are allowed"):
        he.run(sweeps(1), data, target="cpu", options=options)
    he.run(sweeps(1), data, target="reference", options=options)  # it compiles nothing
    with pytest.raises(he.CapacityError, match="at most 100 are allowed"):
        he.column("2.0 * a", data, axis="z", target="cpu", options=options)


def mixed(shares: tuple[int, ...], size: int) -> str:
    """Return a program of about this size, made of some kinds of code by shares."""
    unit = size / sum(shares)
    down, flips, plain, chosen, rest = (
        range(int(unit * share / cost))
        for share, cost in zip(shares, (244, 49, 6, 10, 8), strict=True)
    )
    lines = [
        "out = a",
        *(
            f"if a > {n}.0:\n            out = b\n        else:\n            out += {n}.5"
            for n in flips
        ),
        *(f"out = out * {n}.5 + a" for n in plain),
        *(f"out = out + (a if b > {n}.0 else sqrt(b))" for n in chosen),
        *(f"out = out + a % (b + {n}.5)" for n in rest),
    ]
    body = "".join(f"        {line}\n" for line in lines)
    return sweeps(len(down)) + WHOLE + body if down else HEAD + WHOLE + body


#: Compiles what comes in, for arrays that leave the caches, which is the longest; tells CPU seconds
#: and bytes.
COMPILING = """
import resource, sys, time
import numpy as np
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.program import compile_program
from halocline_engine.schedule.size import size_of

def calls(text):
    compiled = compile_program(text, target="cpu")
    fields = {f.name: np.ones((12, 8, 8)).T for f in compiled.program.fields}
    origins = dict.fromkeys(fields, (2, 2, 2))
    CpuExecutable(compiled.schedule, Caches(last=64))(fields, {}, origins, (4, 4, 4))
    return size_of(compiled.schedule).total

text = sys.stdin.read()
calls(text[: text.index("with")] + "with computation(PARALLEL), interval(...):\\n      out = a")
began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = calls(text)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(size, time.process_time() - began, after - before << 10)
"""


@pytest.mark.timeout(600)
@settings(max_examples=1, deadline=None, phases=(Phase.generate,))
@given(st.tuples(*[st.integers(0, 3)] * 5).filter(any))
def test_drawn_programs_compile_in_their_share_of_the_bound(
    shares: tuple[int, ...],
) -> None:
    found = subprocess.run(
        [sys.executable, "-c", COMPILING],
        input=mixed(shares, PART),
        capture_output=True,
        text=True,
        check=True,
    )
    size, seconds, taken = (float(word) for word in found.stdout.split())
    assert PART / 2 < size <= PART * 1.1
    assert seconds < 12.0
    assert taken < 1 << 28
