"""What small grids and compiling cost, in seconds; a part of `gpu_stencil.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import xarray as xr
from workloads import Domain, case

import halocline_engine as he
from halocline_engine.program import compile_program

__all__ = ["small_grids"]

_SIDE = 512
_STEPS = 1000


def small_grids(cupy: Any, target: str, *, small: bool) -> dict[str, float | str]:
    """Return what was measured, by a sentence that says what it is; errors are text."""
    found: dict[str, float | str] = {}
    steps = 20 if small else _STEPS
    _note(found, "horizontal diffusion float64", partial(_compiling, cupy, target, small))
    for dtype in ("float64", "float32"):
        _note(found, f"2d5pt 512x512 {dtype}", partial(_calls, cupy, target, dtype, steps))
        _note(found, f"2d5pt 512x512 {dtype}, he.run", partial(_run, target, dtype, steps))
    for name, value in found.items():
        print(f"{name:72} {value}", flush=True)
    return found


def _note(
    found: dict[str, float | str], what: str, measure: Callable[[], dict[str, float]]
) -> None:
    try:
        found |= {f"{what}: {name}": value for name, value in measure().items()}
    except Exception as error:
        found[what] = repr(error)[:300]


def _compiling(cupy: Any, target: str, small: bool) -> dict[str, float]:
    """Time a first call with an empty cache, and one of a new executable with a full one."""
    compile_program(case("copy").text.format(dtype="float64"), target=target)
    one = case("horizontal diffusion")
    domain: Domain = (64, 32, 8) if small else (1024, 1024, 128)
    text = one.text.format(dtype="float64")
    began = perf_counter()
    compiled = compile_program(text, target=target)
    front = perf_counter() - began
    fields: dict[str, Any] = {}

    def first() -> float:
        began = perf_counter()
        executable = compiled.artifact.load()
        if not fields:
            shape = (domain[0] + 4, domain[1] + 4, domain[2])
            for name in one.fields:
                fields[name] = executable.memory.empty(shape, np.dtype("float64"), one.halo)
                fields[name][...] = 1.0
            cupy.cuda.get_current_stream().synchronize()
            began = perf_counter()
        executable(fields, {}, dict.fromkeys(fields, one.halo), domain)
        cupy.cuda.get_current_stream().synchronize()
        return perf_counter() - began

    return {
        "text to artifact, seconds": front,
        "first call, empty cache, seconds": first(),
        "first call, code from the disk cache, seconds": min(first() for _ in range(5)),
    }


def _calls(cupy: Any, target: str, dtype: str, steps: int) -> dict[str, float]:
    """Time a loop of calls as a user writes it, and of the executable below it."""
    one = case("2d5pt")
    text = one.text.format(dtype=dtype)
    stencil = he.stencil(text, target=target)
    executable = stencil.compiled.artifact.load()
    shape = (_SIDE + 2, _SIDE + 2, 1)
    u, v = (executable.memory.empty(shape, np.dtype(dtype), one.halo) for _ in range(2))
    u[...], v[...] = 1.0, 1.0
    domain = (_SIDE, _SIDE, 1)
    weight = np.dtype(dtype).type(0.2).item()
    origins = dict.fromkeys(one.fields, one.halo)

    def by_user() -> None:
        for _ in range(steps // 2):
            stencil(u=u, v=v, w=weight, origin=one.halo, domain=domain)
            stencil(u=v, v=u, w=weight, origin=one.halo, domain=domain)

    def below() -> None:
        for _ in range(steps // 2):
            executable({"u": u, "v": v}, {"w": weight}, origins, domain)
            executable({"u": v, "v": u}, {"w": weight}, origins, domain)

    def repeated() -> None:
        stencil.repeat(
            steps, u=u, v=v, w=weight, feedback={"v": "u"}, origin=one.halo, domain=domain
        )

    loops = (
        ("the stencil called", by_user),
        ("the executable called", below),
        ("steps of Stencil.repeat,", repeated),
    )
    return {
        f"{name} {steps} times, microseconds a step": _best(cupy, loop) / steps * 1e6
        for name, loop in loops
    }


def _best(cupy: Any, work: Callable[[], None]) -> float:
    times: list[float] = []
    for _ in range(4):
        cupy.cuda.get_current_stream().synchronize()
        began = perf_counter()
        work()
        cupy.cuda.get_current_stream().synchronize()
        times.append(perf_counter() - began)
    return min(times)


def _run(target: str, dtype: str, steps: int) -> dict[str, float]:
    """Time `he.run` with many steps, and what a step more costs."""
    one = case("2d5pt")
    values = np.random.default_rng(1).random((_SIDE, _SIDE)).astype(dtype)
    dataset = xr.Dataset({"u": (("y", "x"), values)})

    def seconds(count: int) -> float:
        began = perf_counter()
        he.run(
            one.text.format(dtype=dtype),
            dataset,
            scalars={"w": np.dtype(dtype).type(0.2).item()},
            axes={"I": "x", "J": "y", "K": None},
            boundary={"x": "periodic", "y": "periodic"},
            steps=count,
            feedback={"v": "u"},
            target=target,
        )
        return perf_counter() - began

    seconds(2)
    few, many = min(seconds(2) for _ in range(2)), min(seconds(steps) for _ in range(2))
    return {
        f"steps={steps}, microseconds a step": many / steps * 1e6,
        "each step more, microseconds": (many - few) / (steps - 2) * 1e6,
    }
