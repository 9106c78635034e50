"""Analytic columns in time: one stage of a Runge-Kutta scheme as one program, on any target.

The scheme is Shu and Osher's of third order that keeps extrema. Every stage is the same program
with other numbers, (a old + b (now + step rate)) / c, and time is a variable as others are, so that
nothing is done on the host between the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from column_cases import Array, Column, Loader, executable_of, lowered, norm, uniform
from numpy.typing import NDArray

from halocline_engine.backends.base import Executable, prepare
from halocline_engine.ir.columns.formulas.metric import CENTRE_WIDTH, FACE_WIDTH
from halocline_engine.ir.columns.table import At

__all__ = ["CASES", "Case", "States", "advect", "carried", "heat", "rest", "run_case", "wave"]

PI = math.pi
States: TypeAlias = dict[str, NDArray[Any]]
_STAGES = (
    {"a": 0.0, "b": 1.0, "c": 1.0},
    {"a": 3.0, "b": 1.0, "c": 4.0},
    {"a": 1.0, "b": 2.0, "c": 3.0},
)


@dataclass(frozen=True, eq=False)
class Case:
    """A column in time: `rates` gives a line `_dx` for each x of `start`.

    `steps` of length `step` lead to the end, `every` of them to the next state that is judged; both
    numbers are even. `judge` gets those states by their times, the first one included, and returns
    figures by name; `bounds` are what they must stay below in absolute value, `near` what they
    must be, within a share.
    """

    name: str
    rates: str
    column: Column
    start: States
    step: float
    steps: int
    every: int
    judge: Callable[[Mapping[float, States]], dict[str, float]]
    bounds: Mapping[str, float]
    near: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    constants: States = field(default_factory=States)

    @property
    def text(self) -> str:
        """The program of a stage."""
        lines = [
            f"next_{name} = (a * old_{name} + b * ({name} + step * _d{name})) / c"
            for name in self.start
        ]
        return "\n".join([self.rates, *lines])


def run_case(
    case: Case, target: str | Loader, *, steps: int | None = None, every: int | None = None
) -> Iterator[tuple[float, States]]:
    """Yield the states of a case that are judged, with their times, up to so many steps."""
    places = {name: _place(v, case.column) for name, v in (case.start | case.constants).items()}
    places |= {f"old_{name}": places[name] for name in case.start}
    program = lowered(case.text, places, case.column.shape, scalars=("a", "b", "c", "step"))
    executable = executable_of(program, target)
    names = [item.name for item in program.fields]
    numbers = [scalar.name for scalar in program.scalars]
    arrays = _Arrays(case, executable)
    calls = [
        prepare(
            executable,
            {name: fields[name] for name in names},
            {name: scalars[name] for name in numbers},
            dict.fromkeys(names, (0, 0, 0)),
            (1, 1, case.column.shape.domain),
        )
        for fields, scalars in arrays.stages()
    ]

    def two() -> None:
        for call in calls:
            call()

    each = every or case.every
    yield 0.0, arrays.state()
    for done in range(0, steps or case.steps, each):
        executable.repeat(two, each // 2)
        yield (done + each) * case.step, arrays.state()


class _Arrays:
    """The arrays of a case in the memory of a target; two of its states change places."""

    def __init__(self, case: Case, executable: Executable) -> None:
        self._case, self._memory = case, executable.memory
        column = case.column
        self._fixed = {
            CENTRE_WIDTH: self._uploaded(column.centre_widths),
            FACE_WIDTH: self._uploaded(column.face_widths),
            **{name: self._uploaded(values) for name, values in case.constants.items()},
        }
        empty = {name: np.full_like(v, np.nan) for name, v in case.start.items()}
        nothing = {name: np.zeros_like(v) for name, v in case.start.items()}
        kinds = (case.start, empty, empty, empty, nothing)
        self._states = [{n: self._uploaded(v) for n, v in kind.items()} for kind in kinds]

    def stages(self) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
        """Yield the fields and scalars of the six stages of two steps."""
        state, one, two, other, nothing = self._states
        for begin, end in ((state, other), (other, state)):
            there = ((nothing, begin, one), (begin, one, two), (begin, two, end))
            for (old, now, then), digits in zip(there, _STAGES, strict=True):
                fields = {f"old_{name}": array for name, array in old.items()}
                fields |= now | {f"next_{name}": array for name, array in then.items()}
                yield self._fixed | fields, {**digits, "step": self._case.step}

    def state(self) -> States:
        """Return the state on the host, from bottom to top."""
        return {
            name: self._memory.download(array)[0, 0].copy()
            for name, array in self._states[0].items()
        }

    def _uploaded(self, values: Array) -> Any:
        """Return values along K, beside each other, in the target's memory."""
        host = np.atleast_1d(np.asarray(values, np.float64))
        array = self._memory.empty((host.size, 1, 1), host.dtype, (0, 0, 0))
        self._memory.upload(host[:, None, None], array)
        return array.transpose(2, 1, 0)


def _place(values: Array, column: Column) -> At:
    if values.size == 1:
        return At.FLAT
    return At.CENTRE if values.size == column.levels else At.FACE


def _largest(states: Mapping[float, States], name: str, exact: Callable[[float], Array]) -> float:
    """Return the largest difference of a variable from what it should be, at any time."""
    return max(float(abs(state[name] - exact(time)).max()) for time, state in states.items())


def heat(levels: int = 10, step: float = 0.02, until: float = 10.0) -> Case:
    """Return heat conduction between a cold end and one with a given flux."""
    column = uniform(levels, 0.0, 1.0)
    z = column.centres
    m = np.arange(1, 201)[:, None]
    decay = (m - 0.5) * PI

    def exact(time: float) -> Array:
        if time == 0.0:
            return np.zeros_like(z)
        series = (-1.0) ** (m + 1) * np.sin(decay * z) * np.exp(-0.1 * decay**2 * time)
        return z - 2 * (series / decay**2).sum(0)

    def judge(states: Mapping[float, States]) -> dict[str, float]:
        excess = max(max((s["T"] - z).max(), (-s["T"]).max()) for s in states.values())
        return {"error": _largest(states, "T", exact), "outside": max(0.0, float(excess))}

    return Case(
        name="heat",
        rates="_dT = DivergenceF2C()("
        "0.1 * GradientC2F(bottom=SetValue(0.0), top=SetGradient(1.0))(T))",
        column=column,
        start={"T": np.zeros(levels)},
        step=step,
        steps=round(until / step),
        every=round(0.2 / step),
        judge=judge,
        bounds={"error": 2e-3, "outside": 1e-14},
        near={"error": (1.2008e-3, 1e-3)} if levels == 10 and step == 0.02 else {},
    )


def wave() -> Case:
    """Return a standing wave, from which energy drifts with the cube of the step."""
    column, steps = uniform(30, 0.0, 4 * PI), 1258
    step = 4 * PI / steps
    start = {"u": np.sin(column.centres), "p": np.zeros(31)}
    weights = column.face_widths.copy()
    weights[[0, -1]] *= 0.5

    def energy(now: States) -> float:
        return float((now["u"] ** 2 * column.centre_widths).sum() + (now["p"] ** 2 * weights).sum())

    def judge(states: Mapping[float, States]) -> dict[str, float]:
        last = states[max(states)]
        return {
            "u": _largest(states, "u", lambda t: np.sin(column.centres) * math.cos(t)),
            "p": _largest(states, "p", lambda t: -np.cos(column.faces) * math.sin(t)),
            "energy": energy(last) / energy(start) - 1.0,
            "return": float(abs(last["u"] - start["u"]).max()),
        }

    return Case(
        name="wave",
        rates="_du = -DivergenceF2C()(p)\n"
        "_dp = -GradientC2F(bottom=SetValue(0.0), top=SetValue(0.0))(u)",
        column=column,
        start=start,
        step=step,
        steps=steps,
        every=2,
        judge=judge,
        bounds={"u": 0.15, "p": 0.15, "energy": 1e-5, "return": 2e-2},
        near={
            "u": (0.0804, 2e-3),
            "p": (0.0915, 2e-3),
            "energy": (-1.02e-6 * (step / 0.01) ** 3, 0.01),
            "return": (4.20e-3, 1e-2),
        },
    )


_UPWIND = "DivergenceF2C()(UpwindBiasedProductC2F(bottom=SetValue(_s), top=SetValue(_e))(w, {0}))"
_CENTRED = "AdvectionC2C(bottom=SetValue(_s), top=Extrapolate())(w, {0})"
_CORRECTION = "FluxCorrectionC2C(bottom=Extrapolate(), top=Extrapolate())(w, {0})"


def advect() -> Case:
    """Return a sine that a wind carries, with and without upwinding and flux correction."""
    column = uniform(128, 0.0, 4 * PI)
    schemes = ("upwind", "upwind_corrected", "centred", "centred_corrected")

    def judge(states: Mapping[float, States]) -> dict[str, float]:
        last = max(states)
        exact = np.sin(column.centres - last)
        found = {name: states[last][name] for name in schemes}
        errors = {name: float(abs(values - exact).max()) for name, values in found.items()}
        return {**errors, "largest": max(float(abs(values).max()) for values in found.values())}

    lines = ["_s = sin(-clock)", f"_e = sin({4 * PI!r} - clock)", "_dclock = 1.0"]
    for name in schemes:
        formula = f"-{_UPWIND if name.startswith('upwind') else _CENTRED}"
        formula += f" + {_CORRECTION}" if name.endswith("corrected") else ""
        lines.append(f"_d{name} = {formula.format(name)}")
    return Case(
        name="advection",
        rates="\n".join(lines),
        column=column,
        start={"clock": np.zeros(1), **dict.fromkeys(schemes, np.sin(column.centres))},
        step=1e-3,
        steps=10_000,
        every=10_000,
        judge=judge,
        bounds={
            "upwind": 0.5,
            "upwind_corrected": 1.0,
            "centred": 0.05,
            "centred_corrected": 1.0,
            "largest": 1.05,
        },
        near={
            "upwind": (0.386, 2e-3),
            "upwind_corrected": (0.770, 2e-3),
            "centred": (0.0181, 3e-3),
            "centred_corrected": (0.621, 2e-3),
        },
        constants={"w": np.ones(129)},
    )


#: A wind of 1 and a diffusivity of 5 carry and spread what is at -1/2 when time is -1.
_START, _WIDTH, _AGE = -0.5, 5.0, 1.0
_CARRIED = f"""_age = {_AGE} + clock
_scale = sqrt(_age / {_AGE})
_low = 0.0 - {_START} - clock
_high = 10.0 - {_START} - clock
_under = exp(-_low * _low / ({4 * _WIDTH} * _age)) / _scale
_above = exp(-_high * _high / ({4 * _WIDTH} * _age)) / _scale
_below = -_low / ({2 * _WIDTH} * _age) * _under
_dclock = 1.0
_dT = DivergenceF2C()(
    {_WIDTH} * GradientC2F(bottom=SetGradient(_below), top=SetValue(_above))(T)
    - InterpolateC2F(bottom=SetValue(_under), top=SetValue(_above))(T))"""


def carried(levels: int) -> Case:
    """Return transport and diffusion together, with a known solution at both ends."""
    column = uniform(levels, 0.0, 10.0)

    def exact(time: float) -> Array:
        age = _AGE + time
        away = column.centres - _START - time
        return np.exp(-(away**2) / (4 * _WIDTH * age)) / math.sqrt(age / _AGE)

    def judge(states: Mapping[float, States]) -> dict[str, float]:
        last = max(states)
        return {"error": norm(states[last]["T"] - exact(last), column, At.CENTRE)}

    return Case(
        name=f"carried_{levels}",
        rates=_CARRIED,
        column=column,
        start={"clock": np.zeros(1), "T": exact(0.0)},
        step=5e-4,
        steps=20_000,
        every=20_000,
        judge=judge,
        bounds={},
    )


_GAS, _HEAT, _GRAVITY, _SURFACE = 287.0, 1004.0, 9.81, 1e5
#: Air in flux form, with the pressure of an ideal gas; it stays inside.
_AIR = f"""_p = {_SURFACE} * ({_GAS / _SURFACE} * m) ** {_HEAT / (_HEAT - _GAS)}
_drho = -DivergenceF2C()(w * InterpolateC2F(bottom=Extrapolate(), top=Extrapolate())(rho))
_dm = -DivergenceF2C()(w * InterpolateC2F(bottom=Extrapolate(), top=Extrapolate())(m))
_dw = SetBoundaryOperator(bottom=SetValue(0.0), top=SetValue(0.0))(
    -GradientC2F()(_p) / InterpolateC2F()(rho) - {_GRAVITY})"""


def rest() -> Case:
    """Return air of 250 K at rest for ten days; its pressure carries its weight."""
    column, kelvin = uniform(30, 0.0, 30e3), 250.0
    pressures = [0.93 * _SURFACE]
    for width in column.face_widths[1:-1]:
        half = 0.5 * _GRAVITY * width / (_GAS * kelvin)
        pressures.append(pressures[-1] * (1.0 - half) / (1.0 + half))
    pressure = np.array(pressures)
    start = {
        "rho": pressure / (_GAS * kelvin),
        "m": _SURFACE / _GAS * (pressure / _SURFACE) ** ((_HEAT - _GAS) / _HEAT),
        "w": np.zeros(column.levels + 1),
    }

    def mass(now: States) -> float:
        return float((now["rho"] * column.centre_widths).sum())

    def judge(states: Mapping[float, States]) -> dict[str, float]:
        speeds = (float(abs(state["w"]).max()) for state in states.values())
        drifts = (abs(mass(state) / mass(start) - 1.0) for state in states.values())
        return {"speed": max(speeds), "mass": max(drifts)}

    return Case(
        name="rest",
        rates=_AIR,
        column=column,
        start=start,
        step=1.0,
        steps=864_000,
        every=3600,
        judge=judge,
        bounds={"speed": 1e-8, "mass": 1e-10},
    )


#: All cases by name; what `carried` gives is judged together, by how fast the error falls.
CASES: Mapping[str, Callable[[], Case]] = {
    "heat": heat,
    "wave": wave,
    "advection": advect,
    **{f"carried_{levels}": partial(carried, levels) for levels in (32, 64, 128)},
    "rest": rest,
}
