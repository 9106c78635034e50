"""Drawn programs on a device, compiled by a chosen NVRTC, between guards and beside the reference.

    python tests/support/drawn_on_device.py --seed 0 --seconds 120 --processes 14 --out draws.jsonl
        [--nvrtc LIBRARY] [--devices 0,1]

Prints how many programs of each kind gave the same bits, differ in the last digits of library
functions, differ otherwise, wrote outside of their arrays, or raised; all but the first kind are
written to the file, a line each.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing as mp
import os
import random
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from device_guards import compile_with, guards
from differential import front
from drawing import GIVEN, SCALARS, literals, program
from drawing_columns import column_program
from drawing_integers import integer_program
from drawing_intervals import interval_program
from drawing_loops import loop_program
from general_runs import complete, for_scalars, given_arrays, judged

from halocline_engine.device import cupy_types
from halocline_engine.device.compile import compiler, nvrtc
from halocline_engine.errors import DeviceError, ProgramError

__all__ = ["main"]

#: The largest relative difference that library functions may make.
_ROUNDING = 1e-4


class _Draw(NamedTuple):
    kind: str
    seed: int
    verdict: str
    reason: str = ""
    text: str = ""


_TEXTS: dict[str, Callable[[int], str]] = {
    "whole": lambda seed: program(seed, whole=True),
    "general": lambda seed: program(seed, general=True),
    "plain": program,
    "columns": column_program,
    "intervals": interval_program,
    "loops": loop_program,
    "integers": integer_program,
}


def run_one(kind: str, seed: int, cupy: Any) -> _Draw:
    """Compare a drawn program with the reference, as a whole and for its scalars."""
    from halocline_engine.backends.cuda.build import CudaBackend
    from halocline_engine.schedule.plan import plan

    generator = random.Random(seed)
    layout = generator.choice(["along I", "along K", "along I", "padded"])
    text = _TEXTS[kind](seed)
    try:
        given = dict(GIVEN, **literals(seed)) if kind == "whole" else {}
        meaning, facts = front(text, **given)
    except ProgramError as error:
        return _Draw(kind, seed, "refused", str(error)[:200], text)
    domain = _domain(generator, facts.min_levels)
    with np.errstate(all="ignore"):
        expected = judged(meaning, facts, given_arrays(meaning, facts, domain, seed=seed), domain)
    own = given_arrays(meaning, facts, domain, layout, seed)
    for schedule in (plan(meaning, facts), plan(*for_scalars(meaning, facts))):
        with guards(cupy) as memory:
            placed = {name: _Placed.of(array, cupy) for name, array in own.arrays.items()}
            moved = {name: one.view(cupy) for name, one in placed.items()}
            artifact = CudaBackend().build(schedule)
            kernels = complete(artifact, meaning, facts, schedule.program.choices).load()
            kernels(moved, SCALARS, own.origins, domain)
            got = {name: placed[name].fetched(cupy) for name in expected.arrays}
            changed = memory.count_changed()
        worst = _differences(got, expected.arrays)
        reason = f"{layout} {domain}: {changed} bytes of guards, {worst}"
        if changed:
            return _Draw(kind, seed, "outside", reason, text)
        if worst:
            rounding = all(largest < _ROUNDING for _, largest in worst.values())
            return _Draw(kind, seed, "rounding" if rounding else "differs", reason, text)
    return _Draw(kind, seed, "same")


def _domain(generator: random.Random, least: int) -> tuple[int, int, int]:
    small = generator.random() < 0.6
    i, j, k = (
        (generator.randint(1, 70), generator.randint(1, 20), generator.randint(4, 12))
        if small
        else (generator.randint(60, 260), generator.randint(8, 60), generator.randint(4, 40))
    )
    return i, j, max(k, least)


class _Placed(NamedTuple):
    """A copy of an array on the device: the same order of axes, and strides of 0 where it has."""

    packed: Any
    axes: tuple[int, ...]
    shape: tuple[int, ...]

    @staticmethod
    def of(array: np.ndarray[Any, Any], cupy: Any) -> _Placed:
        points = tuple(slice(None) if step else slice(0, 1) for step in array.strides)
        own = array[points]
        order = np.argsort([-step for step in own.strides], kind="stable")
        packed = cupy.asarray(np.ascontiguousarray(own.transpose(order)))
        return _Placed(packed, tuple(map(int, np.argsort(order))), array.shape)

    def view(self, cupy: Any) -> Any:
        return cupy.broadcast_to(self.packed.transpose(self.axes), self.shape)

    def fetched(self, cupy: Any) -> np.ndarray[Any, Any]:
        """Return the values; no kernel of CuPy copies them."""
        return np.broadcast_to(cupy.asnumpy(self.packed).transpose(self.axes), self.shape)


def _differences(
    got: dict[str, np.ndarray[Any, Any]], expected: dict[str, np.ndarray[Any, Any]]
) -> dict[str, tuple[int, float]]:
    """Return how many elements of each array differ, and the largest relative difference."""
    worst: dict[str, tuple[int, float]] = {}
    for name, right in expected.items():
        one = got[name]
        other = ~((one == right) | ((one != one) & (right != right)))
        if other.any():
            a, b = one[other].astype(float), right[other].astype(float)
            with np.errstate(all="ignore"):
                relative = np.abs(a - b) / np.maximum(np.abs(b), 1e-30)
            relative = np.where(np.isfinite(relative), relative, np.inf)
            worst[name] = (int(other.sum()), float(f"{relative.max():.2g}"))
    return worst


#: A process that answers requests to the compiler, a line of JSON each, until its input ends.
_SERVER = """
import base64, json, sys
sys.path.insert(0, sys.argv[1])
import nvrtc
for line in sys.stdin:
    request = json.loads(line)
    if "source" in request:
        code, messages = nvrtc.compile_source(**request)
    else:
        code, messages = json.dumps(nvrtc.version(**request)).encode(), ""
    print(json.dumps([base64.b64encode(code).decode(), messages]), flush=True)
"""


def _keep_a_compiler() -> None:
    """Compile in one process for all programs; starting it takes longer than most of them."""
    folder = str(Path(nvrtc.__file__).parent)
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    send, receive = server.stdin, server.stdout

    def run(request: Mapping[str, Any], _architecture: str, _limit: float) -> bytes:
        print(json.dumps(request), file=send, flush=True)
        code, messages = json.loads(receive.readline())
        if not code:
            raise DeviceError(messages)
        return base64.b64decode(code)

    compiler._run = run  # pyright: ignore[reportPrivateUsage]


def _work(arguments: argparse.Namespace, number: int, end: float, results: Any) -> None:
    warnings.simplefilter("ignore")
    devices = str(arguments.devices).split(",")
    os.environ["CUDA_VISIBLE_DEVICES"] = devices[number % len(devices)]
    _keep_a_compiler()
    if arguments.nvrtc:
        compile_with(str(arguments.nvrtc))
    kinds, step = list(_TEXTS), int(arguments.processes)
    seed = int(arguments.seed) + number
    while time.time() < end:
        kind = kinds[seed // step % len(kinds)]
        try:
            draw = run_one(kind, seed, cupy_types.cupy())
        except Exception as error:  # a fault of any kind is the result of a draw
            reason = f"{type(error).__name__}: {error}"[:400] + traceback.format_exc()[-300:]
            draw = _Draw(kind, seed, "raised", reason)
        results.put(draw)
        seed += step
    results.put(None)


def main() -> int:
    """Draw, print the tally, and return 1 where a program was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--devices", default="0")
    parser.add_argument("--nvrtc", default="")
    parser.add_argument("--out", type=Path, default=Path("draws.jsonl"))
    arguments = parser.parse_args()
    context = mp.get_context("spawn")
    results: Any = context.Queue()
    end = time.time() + arguments.seconds
    processes = [
        context.Process(target=_work, args=(arguments, number, end, results), daemon=True)
        for number in range(arguments.processes)
    ]
    for process in processes:
        process.start()
    tally: Counter[str] = Counter()
    running = len(processes)
    with arguments.out.open("w") as file:
        while running and time.time() < end + 60:
            try:
                draw = results.get(timeout=5)
            except Exception:  # the queue's own class depends on the context
                if not any(process.is_alive() for process in processes):
                    break
                continue
            if draw is None:
                running -= 1
                continue
            tally[f"{draw.kind} {draw.verdict}"] += 1
            if draw.verdict not in ("same", "refused"):
                file.write(json.dumps(draw._asdict()) + "\n")
                file.flush()
    print(json.dumps(dict(sorted(tally.items()))))
    return int(any(name.split()[1] in ("outside", "differs", "raised") for name in tally))


if __name__ == "__main__":
    sys.exit(main())
