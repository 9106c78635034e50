"""The module around a program of the whole language: names that it defines, imports and is given.

`EXTERNALS` and `DTYPES` are what a caller gives for all of these programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ARGUMENTS", "CONSTANTS", "DTYPES", "EXTERNALS", "IMPORTS", "MODULE", "MORE_IMPORTS"]

EXTERNALS: Mapping[str, Any] = {
    "LIMIT": 0.75,
    "STEPS": 2,
    "WET": True,
    "FIRST": 1,
    "TOP": {"axis": "K", "index": -1, "offset": 0},
    "EAST": {"axis": "I", "index": 0, "offset": 1},
    "NOWHERE": {"axis": "J", "index": 0, "offset": -32767},
    "chosen": {"function": "limited"},
    "scheme": {"rate": 0.5, "order": 3},
}
DTYPES: Mapping[str, str] = {"T": "float32", "N": "int32"}

MODULE = """\
HALF = 0.5
ROOT = np.sqrt(0.25) + 2.0 * HALF
NARROW = np.float32(0.1)
COUNT = 2
Real = np.float64
Plane = Field[IJ, Real]

class Phase(IntEnum):
    WATER = 1
    ICE = 2

class Grid:
    DX = 0.25
    LEVELS = 3

@function
def mean(v):
    return HALF * (v[-1, 0, 0] + v[0, 1, 0])

@function
def parts(v, most):
    low = min(v, most)
    return low, v - low

@function
def walled(v, wall=1.5):
    inner = v
    with horizontal(region[I[0], :], region[:, J[-1] : J[-1] + 1]):
        inner = wall * v
    return inner

@function
def limited(v, low=-0.5, high=Grid.DX):
    from __externals__ import LIMIT
    if v < low:
        r = low * LIMIT
    elif v > high:
        r = high
    else:
        r = v
    return r

@function
def grown(v, by):
    v += by
    v *= HALF
    return v

@function
def halved(v):
    rest = abs(limited(v, high=9.0))
    turns = 0
    while rest > 1.0 and turns < Grid.LEVELS:
        rest *= HALF
        turns += 1
    return rest

"""

#: Parameters that stand behind those of a general program.
ARGUMENTS = """\
    hi: Field[I, np.float64], hj: Field[J, np.float32], hik: Field[IK, np.float64],
    hjk: Field[JK, np.float64], base: Field[IJ, np.int64], o: Field[np.bool_],
    gg: GlobalTable[(np.float64, (4, 3))], gi: GlobalTable[(np.int64, (6,))],
    tiny: Field[np.int8], low: Field[np.int16], kn: Field[K, np.int32], fed: Field["T"],
    kd: Field[K, (np.float64, (2,))], mm: Field[(np.float64, (2, 2))], ground: Plane,
    on: Field[np.bool_], few: Field["N"], small: Field[np.int8],
"""
IMPORTS = "    from __externals__ import EAST, FIRST, LIMIT, NOWHERE, STEPS, TOP, WET, chosen\n"
#: What GT4Py does not take as an external.
MORE_IMPORTS = "    from __externals__ import scheme\n"

#: Numbers that are known when a program is compiled; GT4Py takes those of the first line.
CONSTANTS = (
    *("ROOT", "NARROW", "COUNT", "Grid.DX", "Phase.ICE", "LIMIT", "STEPS", "1e-3"),
    *("Real(HALF)", "scheme.rate", "scheme.order", "np.pi"),
)
