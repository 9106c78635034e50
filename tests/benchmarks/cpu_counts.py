"""Count what loops of the `cpu` target fetch: their machine code under cachegrind.

The generated text is compiled by Numba for a processor that the simulator knows, assembled, and
called from a program of a few lines, so that nothing but the loops is simulated. Two runs differ
by one call, whose misses are the difference. The simulated levels forget what was used longest ago,
prefetch nothing, and the first has no way to the memory but through the second.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numba

from halocline_engine.backends.cpu.builtins import namespace
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.columns import Cut
from halocline_engine.backends.cpu.text.emit import emit
from halocline_engine.backends.cpu.text.layout import contiguous
from halocline_engine.schedule.nodes import Schedule

__all__ = ["PROCESSOR", "Fetched", "Program", "assembly"]

Domain = tuple[int, int, int]
#: A processor with vectors of 256 bits, which the simulator can run.
PROCESSOR = "haswell"
MAIN = """
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef int64_t I;
int kernel(void *, void *, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I);
int main(int count, char **words) {
    I n[9];
    for (int w = 0; w < 9; ++w) n[w] = atoll(words[w + 1]);
    I ni = n[0], nj = n[1], nk = n[2], h = n[3], d = n[4], calls = n[7];
    I si = 8, sj = 8 * (ni + 2 * h), sk = sj * (nj + 2 * h), size = sk * (nk + 2 * d);
    char *a = malloc(size), *x = malloc(size);
    memset(a, 0, size);
    memset(x, 0, size);
    I first = h * si + h * sj + d * sk;
    void *nothing = 0;
    for (I c = 0; c < calls; ++c)
        kernel(&nothing, &nothing, 0, ni, 0, nj, 0, nk, nk, n[5], n[6],
               (I)a + first, si, sj, sk, (I)x + first, si, sj, sk);
    return 0;
}
"""


@dataclass(frozen=True)
class Fetched:
    """Lines fetched into the first and the second level."""

    level1: int
    level2: int


def assembly(schedule: Schedule) -> str:
    """Return the assembly of a schedule's only kernel, which reads `a` and writes `x`."""
    (function,) = (module := emit(schedule, contiguous(schedule.program))).functions
    names = namespace()
    exec(module.text, names)  # noqa: S102 - our emitter's text
    words = ", ".join(["int64"] * (9 + 4 * len(function.arrays)))
    decorate = cast("Any", numba).njit(f"void({words})", nogil=True, error_model="numpy")
    (text,) = decorate(names[function.name]).inspect_asm().values()
    (name,) = re.findall(r"\.globl\s+(_ZN13_3cdynamic\S*)", text)
    return cast("str", text).replace(name, "kernel")


@dataclass(frozen=True)
class Program:
    """An executable file that calls a kernel, made in a folder."""

    path: Path

    @staticmethod
    def of(schedule: Schedule, folder: Path) -> Program:
        """Compile in another process, whose processor Numba takes from the environment."""
        path = folder / "program"
        (folder / "main.c").write_text(MAIN)
        (folder / "kernel.s").write_text(assembly(schedule))
        loose = ["-Wl,--unresolved-symbols=ignore-all", "-no-pie"]
        _run(["gcc", "-O1", "-w", *loose, "main.c", "kernel.s", "-o", str(path)], folder)
        return Program(path)

    def fetched(self, domain: Domain, halo: Domain, cut: Cut, caches: Caches) -> Fetched:
        """Return what one call fetches."""
        few, many = (self._misses(domain, halo, cut, caches, calls) for calls in (1, 2))
        return Fetched(many.level1 - few.level1, many.level2 - few.level2)

    def _misses(
        self, domain: Domain, halo: Domain, cut: Cut, caches: Caches, calls: int
    ) -> Fetched:
        report = self.path.with_suffix(".out")
        words = [*domain, halo[0], halo[2], cut.rows, cut.width, calls, 0]
        command = [
            "valgrind",
            "--tool=cachegrind",
            f"--cachegrind-out-file={report}",
            "--cache-sim=yes",
            f"--D1={caches.level1},8,{caches.line}",
            f"--LL={caches.level2},16,{caches.line}",
            str(self.path),
            *map(str, words),
        ]
        _run(command, self.path.parent)
        text = report.read_text()
        (events,) = re.findall(r"^events: (.*)$", text, re.MULTILINE)
        (summary,) = re.findall(r"^summary: (.*)$", text, re.MULTILINE)
        found = dict(zip(events.split(), map(int, summary.split()), strict=True))
        return Fetched(found["D1mr"] + found["D1mw"], found["DLmr"] + found["DLmw"])


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
