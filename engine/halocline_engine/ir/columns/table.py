"""The operators of the column language: what they take, where they live, how they end.

Formulas stand in `columns_linear` and `columns_limited`; names and boundary conditions are those of
ClimaCore's operators. All vertical vectors are physical components (a velocity in m/s, positive
from bottom to top), so a divergence is the difference of fluxes over the width of the cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["CONDITIONS", "OPERATORS", "At", "Operator"]


class At(StrEnum):
    """Position of values along the column; FLAT ones have no level."""

    CENTRE = "centres"
    FACE = "faces"
    FLAT = "no level"


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    `arguments` and `result` say where they live, None wherever the first argument does. `bottom`
    and `top` are the boundary conditions that it takes there. `option` is the name of a choice
    among `words`, the first of which is the default (none where `needed`). `reach` is how many half
    levels away it reads. `linear` names the argument in which it is linear, -1 if there is none.
    """

    name: str
    arguments: tuple[At | None, ...]
    result: At | None
    bottom: tuple[str, ...] = ()
    top: tuple[str, ...] = ()
    option: str = ""
    words: tuple[str, ...] = ()
    reach: int = 1
    linear: int = 0


#: Boundary conditions and how many values each takes.
CONDITIONS = {
    "SetValue": 1,
    "SetGradient": 1,
    "SetDivergence": 1,
    "SetCurl": 1,
    "Extrapolate": 0,
    "ExtrapolateComponents": 0,
    "FirstOrderOneSided": 0,
    "ThirdOrderOneSided": 0,
}

_C, _F, _0 = At.CENTRE, At.FACE, At.FLAT
_VALUE = ("SetValue",)
_POINT = ("SetValue", "SetGradient", "Extrapolate")
_COPY = ("SetValue", "Extrapolate", "ExtrapolateComponents")
_SIDED = ("FirstOrderOneSided", "ThirdOrderOneSided")
_FIRST = ("FirstOrderOneSided",)
_SLOPES = (
    "AlgebraicMean",
    "MonotoneLocalExtrema",
    "MonotoneHarmonic",
    "PositiveDefinite",
    "PositiveDefiniteAsCoded",
)
_LIMITERS = ("Koren", "Zero", "Half", "Max", "Minmod", "Superbee", "SuperbeeAsCoded", "MC")


def _both(
    name: str,
    arguments: tuple[At | None, ...],
    result: At | None,
    ends: tuple[str, ...],
    reach: int = 1,
    linear: int = 0,
) -> Operator:
    return Operator(name, arguments, result, ends, ends, reach=reach, linear=linear)


OPERATORS = {
    operator.name: operator
    for operator in (
        _both("InterpolateF2C", (_F,), _C, ()),
        _both("InterpolateC2F", (_C,), _F, _POINT),
        Operator("LeftBiasedC2F", (_C,), _F, bottom=_VALUE),
        Operator("LeftBiasedF2C", (_F,), _C, bottom=_VALUE),
        Operator("RightBiasedC2F", (_C,), _F, top=_VALUE),
        Operator("RightBiasedF2C", (_F,), _C, top=_VALUE),
        Operator("LeftBiased3rdOrderC2F", (_C,), _F, bottom=_VALUE, reach=3),
        Operator("LeftBiased3rdOrderF2C", (_F,), _C, bottom=_VALUE, reach=3),
        Operator("RightBiased3rdOrderC2F", (_C,), _F, top=_VALUE, reach=3),
        Operator("RightBiased3rdOrderF2C", (_F,), _C, top=_VALUE, reach=3),
        _both("WeightedInterpolateF2C", (_F, _F), _C, (), linear=1),
        _both("WeightedInterpolateC2F", (_C, _C), _F, _POINT, linear=1),
        _both("UpwindBiasedProductC2F", (_F, _C), _F, _COPY, reach=3, linear=1),
        _both("Upwind3rdOrderBiasedProductC2F", (_F, _C), _F, _SIDED, reach=3, linear=1),
        Operator(
            "LinVanLeerC2F",
            (_F, _C, _0),
            _F,
            _SIDED,
            _SIDED,
            "constraint",
            _SLOPES,
            reach=3,
            linear=-1,
        ),
        _both("FCTBorisBook", (_F, _C), _F, _FIRST, reach=3, linear=-1),
        _both("FCTZalesak", (_F, _C, _C), _F, _FIRST, reach=3, linear=-1),
        Operator(
            "TVDLimitedFluxC2F",
            (_F, _C, _F),
            _F,
            _FIRST,
            _FIRST,
            "method",
            _LIMITERS,
            reach=3,
            linear=-1,
        ),
        _both("AdvectionF2F", (_F, _F), _F, (), reach=2, linear=1),
        _both("AdvectionC2C", (_F, _C), _C, ("SetValue", "Extrapolate"), reach=2, linear=1),
        _both("FluxCorrectionC2C", (_F, _C), _C, ("Extrapolate",), reach=2, linear=1),
        _both("FluxCorrectionF2F", (_C, _F), _F, ("Extrapolate",), reach=2, linear=1),
        _both("SetBoundaryOperator", (_F,), _F, _VALUE, reach=0),
        _both("GradientF2C", (_F,), _C, _COPY, reach=3),
        _both("GradientC2F", (_C,), _F, ("SetValue", "SetGradient")),
        _both("UpwindBiasedGradient", (None, None), None, (), reach=2, linear=1),
        _both("DivergenceF2C", (_F,), _C, ("SetValue", "SetDivergence", "Extrapolate"), reach=3),
        _both("DivergenceC2F", (_C,), _F, ("SetValue", "SetDivergence")),
        Operator(
            "CurlC2F",
            (_C,),
            _F,
            ("SetValue", "SetCurl"),
            ("SetValue", "SetCurl"),
            "component",
            ("1", "2"),
        ),
    )
}
