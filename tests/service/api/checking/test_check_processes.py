"""Checks in processes: limits of time and memory, and turns of owners."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from halocline_engine.datasets.storing.outline import outline_of
from halocline_service.api.checking.processes import COMMAND, CheckProcesses
from halocline_service.api.problems import ProblemError

#: A child that does what the name of the process says, with the limits of the real one.
_CHILD = textwrap.dedent(
    """
    import json, os, sys
    from halocline_service.api.checking import child

    def checked(process, inputs, *, facts):
        match process:
            case "spin":
                while True:
                    pass
            case "power":  # one call of a library written in C
                10 ** (10**9)
            case "grow":
                bytearray(2 * 2**30)
            case "recurse":
                return checked(process, inputs, facts=facts)
            case "die":
                os.kill(os.getpid(), 9)
            case "end":
                sys.exit(3)
            case "fail":
                raise ZeroDivisionError
        return {"inputs": inputs, "by": os.getpid()}

    child.checked, child._warm = checked, lambda: None
    child.fitting.fitted = lambda process, inputs, _: checked(process, inputs, facts=False)
    child.main()
    """
)
_PROGRAM = """
def copy(t: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = t
"""

pytestmark = pytest.mark.timeout(120)


def played(play: Callable[[CheckProcesses], Awaitable[None]], count: int = 2) -> None:
    async def main() -> None:
        command = (sys.executable, "-c", _CHILD)
        async with CheckProcesses(count, seconds=1.0, memory=2**28, command=command) as checks:
            await play(checks)

    asyncio.run(main())


async def detail(checks: CheckProcesses, process: str) -> tuple[str, int, str]:
    with pytest.raises(ProblemError) as caught:
        await checks("eve", process, {})
    return caught.value.detail, caught.value.status, caught.value.hint


def test_a_check_that_meets_a_limit_is_answered_and_the_next_one_is_made() -> None:
    hint = "Make the program smaller, or split it into several."

    async def play(checks: CheckProcesses) -> None:
        for process, reason in [
            ("spin", "took more than the allowed 1 seconds of processor time"),
            ("power", "took more than the allowed 1 seconds of processor time"),
            ("grow", "took more than the allowed memory"),
            ("recurse", "met terms that are nested too deeply"),
            ("die", "ended its process by signal 9"),
            ("end", "ended its process by status 3"),
        ]:
            told = await detail(checks, process)
            assert told == (f"The check of the request {reason}.", 413, hint)
        with pytest.raises(RuntimeError):
            await checks("eve", "fail", {})
        assert (await checks("ann", "ok", {"a": 1}))["inputs"] == {"a": 1}

    played(play)


def test_hard_checks_of_one_owner_delay_nobody_else() -> None:
    async def play(checks: CheckProcesses) -> None:
        for _ in range(2):  # both have loaded what they need
            await checks("ann", "ok", {})
        hard = [asyncio.ensure_future(checks("eve", "spin", {})) for _ in range(8)]
        await asyncio.sleep(0.1)
        began = time.monotonic()
        answers = [await checks("ann", "ok", {"n": n}) for n in range(20)]
        assert time.monotonic() - began < 1.0
        assert [answer["inputs"]["n"] for answer in answers] == list(range(20))
        assert not any(one.done() for one in hard)
        for one in hard:
            one.cancel()
        await asyncio.gather(*hard, return_exceptions=True)
        assert (await checks("eve", "ok", {"a": 1}))["inputs"] == {"a": 1}

    played(play)


def test_a_process_is_used_again() -> None:
    async def play(checks: CheckProcesses) -> None:
        pids: set[Any] = {(await checks("ann", "ok", {}))["by"] for _ in range(4)}
        assert len(pids) == 1

    played(play, count=1)


def test_the_real_process_checks_programs() -> None:
    async def main() -> None:
        async with CheckProcesses(1, seconds=10.0, memory=2**29, command=COMMAND) as checks:
            inputs = {"program": _PROGRAM, "dataset": "upload:x"}
            outcome = await checks("ann", "stencil", inputs, facts=True)
            assert outcome["inputs"] == inputs
            assert outcome["references"] == {"dataset": "upload:x"}
            assert outcome["program"]["name"] == "copy"
            wrong = await checks("ann", "stencil", {**inputs, "program": "x"})
            assert wrong["problem"]["code"] == "program-syntax"
            assert wrong["problem"]["status"] == 400

    asyncio.run(main())


def test_the_real_process_checks_datasets(tmp_path: Path) -> None:
    stored: Any = xr.Dataset({"t": (("y", "x"), np.ones((2, 3)))})
    stored.to_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=False)
    stored.to_netcdf(tmp_path / "a.nc")
    (tmp_path / "nothing").mkdir()
    places = {
        name: {"place": str(tmp_path / name), "largest_chunk": 2**30}
        for name in ("a.zarr", "a.nc", "nothing")
    }
    outline = {"outline": outline_of(stored)}

    async def main() -> None:
        async with CheckProcesses(1, seconds=30.0, memory=2**30, command=COMMAND) as checks:
            inputs = {"program": _PROGRAM, "dataset": "upload:x"}
            for one in (places["a.zarr"], places["a.nc"], outline):
                assert await checks.fit("ann", "stencil", inputs, {"dataset": one}) == {}
                steps = await checks.fit("ann", "stencil", {**inputs, "steps": 2}, {"dataset": one})
                assert steps["problem"]["hint"] == "Say which one: feedback={'out': 't'}."
                plan = {"process": "stencil", "inputs": {**inputs, "boundary": {"q": "edge"}}}
                planned = await checks.fit("ann", "plan", plan, {"dataset": one})
                assert planned["problem"]["code"] == "boundary"
            broken = await checks.fit("ann", "stencil", inputs, {"dataset": places["nothing"]})
            assert broken["problem"]["code"] == "dataset"

    asyncio.run(main())


def test_a_check_of_datasets_that_meets_a_limit_refuses_nothing() -> None:
    async def play(checks: CheckProcesses) -> None:
        for process in ("spin", "grow", "die", "fail"):
            assert await checks.fit("ann", process, {}, {}) == {}

    played(play, count=1)
