"""The constructs of the stencil language, each with examples and what NumPy computes for them.

The tables of docs/language.md are written from here, and the examples run on every target.

An example is a list of statements for `with computation(PARALLEL), interval(...)`, or computations
of its own. It assigns `out`, a float64 field, or `ground`, one over I and J, from the fields of
`FIELDS`; other names that it assigns begin with `t`. `above` is text of the module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["DOMAIN", "FIELDS", "HALO", "SECTIONS", "Construct", "Example", "Sample", "sample"]

Array: TypeAlias = NDArray[Any]

DOMAIN = (7, 6, 5)
#: Cells around the domain, along every axis that a field has.
HALO = 2

#: The inputs that examples read, by their annotations.
FIELDS: Mapping[str, str] = {
    "a": "Field[np.float64]",
    "b": "Field[np.float64]",
    "small": "Field[np.float32]",
    "n": "Field[np.int64]",
    "mask": "Field[bool]",
    "surface": "Field[IJ, np.float64]",
    "level": "Field[IJ, np.int64]",
    "profile": "Field[K, np.float64]",
    "v": "Field[(np.float64, (3,))]",
    "matrix": "Field[(np.float64, (3, 3))]",
    "table": "GlobalTable[(np.float64, (4, 5))]",
    "s": "float",
    "m": "int",
}


@dataclass(frozen=True)
class Sample:
    """Input arrays, indexed [i, j, k] and then by data dimensions, with halos."""

    arrays: Mapping[str, Any]

    def __call__(self, name: str, i: int = 0, j: int = 0, k: int = 0) -> Array:
        """Return a field on the domain, moved by an offset."""
        whole = self.arrays[name]
        if np.ndim(whole) == 0 or name == "table":
            return whole
        moved = zip((i, j, k), DOMAIN, whole.shape, strict=False)
        return whole[
            tuple(slice(HALO + o, HALO + o + n) if m > 1 else slice(None) for o, n, m in moved)
        ]

    def at(self, name: str, levels: Array) -> Array:
        """Return a field on levels counted from the domain's first, the nearest that it has."""
        whole = self.arrays[name]
        i, j, k = np.broadcast_arrays(*np.ogrid[tuple(slice(n) for n in DOMAIN)], levels)[:3]
        return whole[i + HALO, j + HALO, np.clip(levels + HALO, 0, whole.shape[2] - 1) + 0 * k]

    @property
    def k(self) -> Array:
        """The index of each level."""
        return np.broadcast_to(np.arange(DOMAIN[2]), DOMAIN)


def sample(seed: int = 0) -> Sample:
    """Return rough random inputs."""
    random = np.random.default_rng(seed)
    shape = tuple(n + 2 * HALO for n in DOMAIN)
    plane = (*shape[:2], 1)
    return Sample(
        {
            "a": random.uniform(-2, 2, shape),
            "b": random.uniform(0.1, 0.9, shape),
            "small": random.uniform(-2, 2, shape).astype(np.float32),
            "n": random.integers(-3, 4, shape),
            "mask": random.random(shape) < 0.5,
            "surface": random.uniform(-2, 2, plane),
            "level": random.integers(0, DOMAIN[2], plane),
            "profile": random.uniform(-2, 2, (1, 1, shape[2])),
            "v": random.uniform(-2, 2, (*shape, 3)),
            "matrix": random.uniform(-2, 2, (*shape, 3, 3)),
            "table": random.uniform(-2, 2, (4, 5)),
            "s": 1.75,
            "m": 2,
        }
    )


@dataclass(frozen=True)
class Example:
    """Statements, and the values of `out` or `ground` on the domain."""

    code: str
    expected: Callable[[Sample], Any]
    above: str = ""


@dataclass(frozen=True)
class Construct:
    """One row of a table: what to write, what it means, and examples of it."""

    forms: tuple[str, ...]
    meaning: str
    examples: tuple[Example, ...]


def _row(forms: str, meaning: str, *examples: Example) -> Construct:
    return Construct(tuple(forms.split("; ")), meaning, examples)


def _each(**functions: Callable[..., Any]) -> tuple[Example, ...]:
    """Return an example for each function of one operand between 0.1 and 0.9."""
    return tuple(
        Example(f"out = {name}(b)", lambda e, one=one: one(e("b")))
        for name, one in functions.items()
    )


def _upwards(first: Array, add: Callable[[int], Array]) -> Array:
    """Return a sum from the first level to the last, each level added to the one below."""
    levels = [first]
    for k in range(1, DOMAIN[2]):
        levels.append(levels[-1] + add(k))
    return np.stack(levels, axis=2)


def _while_halving(e: Sample) -> Array:
    value = np.abs(e("a"))
    while (value > 0.25).any():
        value = np.where(value > 0.25, value * 0.5, value)
    return value


def _corner(e: Sample) -> Array:
    value = e("a").copy()
    value[0] = 1.0
    value[-1, -1] = 2.0
    return value


def _in_range(e: Sample) -> Array:
    value = e("a").copy()
    value[1:-1, :2] = e("b")[1:-1, :2]
    return value


def _above_written(e: Sample) -> Array:
    value = np.zeros(DOMAIN)
    value[:, :, 1:] = e("a")[:, :, :-1]
    return value


def _top(e: Sample) -> Array:
    value = e("a").copy()
    value[:, :, -1] = e("b")[:, :, -1]
    return value


def _downwards(e: Sample) -> Array:
    return np.cumsum(e("a")[:, :, ::-1], axis=2)[:, :, ::-1]


TEXT = (
    _row(
        "NAME = number; grid.NAME",
        "constants of the module, with arithmetic and functions of `math` and `numpy` (`HALF = "
        "np.sqrt(0.25)`). Attributes of classes, instances (`grid = Grid(DX=0.5)`) and "
        "`SimpleNamespace(DX=0.5)` count too; an `IntEnum` or `@gtscript.enum` is such a class",
        Example("out = HALF * a", lambda e: 0.5 * e("a"), "HALF = 1.0 / 2.0"),
        Example("out = Grid.DX * a", lambda e: 0.25 * e("a"), "class Grid:\n    DX = 0.25"),
        Example("out = ROOT * a", lambda e: 0.5 * e("a"), "ROOT = np.sqrt(0.25)"),
        Example(
            "out = grid.DX * a + grid.DY * b + edge.low.X",
            lambda e: 0.5 * e("a") + 2.0 * e("b") + 3.0,
            "class Square:\n    DX = 0.25\n    DY = 2.0\n\n\ngrid = Square(DX=0.5)\n"
            "edge = SimpleNamespace(low=SimpleNamespace(X=3.0))",
        ),
        Example(
            "if m == Phase.ICE:\n    out = a\nelse:\n    out = b",
            lambda e: e("a"),
            "class Phase(IntEnum):\n    WATER = 1\n    ICE = 2",
        ),
    ),
    _row(
        "Real = Field[np.float64]; Real = np.float64",
        "names of types. The types of NDSL, such as `FloatFieldIJ`, are known if they are "
        "imported. Calling a type converts: `Real(0.5)`",
        Example("t1: Real = n\nout = t1 / Real(2)", lambda e: e("n") / 2.0, "Real = np.float64"),
    ),
    _row(
        "def function(x, y=1.0)",
        "an inlined function: no computation, and one `return` as the last statement, of one or "
        "several values. The `return` may end a last `if` with a constant condition. Decorators "
        "are ignored. Parameters are variables of the caller unless the function assigns them "
        "with `=`, so `x *= 2` changes the variable of the caller",
        Example(
            "out = average(a)",
            lambda e: 0.5 * (e("a", -1) + e("a", 1)),
            "@function\ndef average(q):\n    return 0.5 * (q[-1, 0, 0] + q[1, 0, 0])",
        ),
        Example(
            "t1, t2 = both(a, factor=3.0)\nout = t1 + t2",
            lambda e: e("a") * 3.0 + (e("a") + 1.0),
            "def both(q, factor=2.0):\n    return q * factor, q + 1.0",
        ),
        Example(
            "t1 = a\nt2 = twice(t1)\nout = t1 + t2",
            lambda e: e("a") * 2.0 + e("a") * 2.0,
            "def twice(q):\n    q *= 2.0\n    return q",
        ),
        Example(
            "out = scheme(a, b)",
            lambda e: e("a") * e("b"),
            "KIND = 2\ndef scheme(x, y):\n    if KIND == 1:\n        x = y\n"
            "    elif KIND == 2:\n        t = x * y\n        return t",
        ),
    ),
    _row(
        "from __externals__ import NAME",
        'anywhere in a definition: a value of `externals={"NAME": 3}`. It may be a number, an '
        "axis or an index of one (`gtscript.I[0]`), a function (read, not executed), or a "
        "class, module or mapping of such values",
        Example("from __externals__ import FACTOR\nout = FACTOR * a", lambda e: 4.0 * e("a")),
    ),
    _row(
        "if __INLINED(N > 1):; compile_assert(N > 0)",
        "decided at compile time, as in Python: numbers may be conditions, and comparisons may "
        "be chained. In the branch that is left out, only names are checked, and modules are not "
        "needed. An `if __INLINED` may contain computations and intervals",
        Example(
            "from __externals__ import FACTOR\n"
            "compile_assert(FACTOR > 0)\n"
            "if __INLINED(FACTOR > 1):\n"
            "    out = a\n"
            "else:\n"
            "    compile_assert(FACTOR > 9)\n"
            "    out = b",
            lambda e: e("a"),
        ),
        Example(
            "from __externals__ import FACTOR\n"
            "compile_assert(0 < FACTOR <= 4)\n"
            "if __INLINED(FACTOR):\n"
            "    out = a",
            lambda e: e("a"),
        ),
        Example(
            "from __externals__ import FACTOR\n"
            "if __INLINED(FACTOR > 9):\n"
            "    with computation(PARALLEL), interval(...):\n"
            "        out = a\n"
            "else:\n"
            "    with computation(PARALLEL):\n"
            "        if __INLINED(FACTOR):\n"
            "            with interval(...):\n"
            "                out = b",
            lambda e: e("b"),
        ),
    ),
)

COMPUTATIONS = (
    _row(
        "computation(PARALLEL)",
        "each statement runs on all points before the next one",
        Example("t1 = a * 2.0\nout = t1[1, 0, 0] + t1", lambda e: e("a", 1) * 2.0 + e("a") * 2.0),
    ),
    _row(
        "computation(FORWARD); computation(BACKWARD)",
        "level by level, upwards or downwards; each statement on the whole level before"
        " the next one",
        Example(
            "with computation(FORWARD):\n"
            "    with interval(0, 1):\n"
            "        out = a\n"
            "    with interval(1, None):\n"
            "        out = out[0, 0, -1] + a",
            lambda e: _upwards(e("a")[:, :, 0], lambda k: e("a")[:, :, k]),
        ),
        Example(
            "with computation(BACKWARD):\n"
            "    with interval(-1, None):\n"
            "        out = a\n"
            "    with interval(0, -1):\n"
            "        out = out[0, 0, 1] + a",
            _downwards,
        ),
    ),
    _row(
        "interval(...); interval(0, 1); interval(1, None); interval(1, -1); "
        "interval(start=0, end=2)",
        "the levels. The end is excluded, and negative numbers count from the end. The "
        "intervals of a computation are in the order of execution and do not overlap",
        Example(
            "with computation(PARALLEL):\n"
            "    with interval(0, -1):\n"
            "        out = a\n"
            "    with interval(-1, None):\n"
            "        out = b",
            _top,
        ),
    ),
    _row(
        "interval(0, n)",
        "bounds that are scalars or fields over I and J, known at run time only. They are "
        "absolute levels; levels outside the domain are skipped",
        Example(
            "with computation(PARALLEL), interval(...):\n"
            "    out = b\n"
            "with computation(FORWARD), interval(0, level):\n"
            "    out = a",
            lambda e: np.where(e.k < e("level"), e("a"), e("b")),
        ),
        Example(
            "with computation(PARALLEL), interval(...):\n"
            "    out = b\n"
            "with computation(PARALLEL), interval(m, None):\n"
            "    out = a",
            lambda e: np.where(e.k >= 2, e("a"), e("b")),
        ),
    ),
    _row(
        "with horizontal(region[I[0], :]):",
        "inside an interval: a part of the points of I and J, see [below](#regions)",
        Example(
            "out = a\n"
            "with horizontal(region[I[0], :]):\n"
            "    out = 1.0\n"
            "with horizontal(region[I[-1], J[-1]]):\n"
            "    out = 2.0",
            _corner,
        ),
        Example(
            "out = a\nwith horizontal(region[1 : I[-1], J[0] : J[0] + 2]):\n    out = b", _in_range
        ),
    ),
)

STATEMENTS = (
    _row(
        "b = expression; b += expression",
        "an assignment to a field, or to a temporary: a name that is first assigned in the "
        "program. A temporary is three-dimensional, has the type of its first assignment, and "
        "is 0 before it",
        Example("t1 = a\nt1 -= b\nout = t1", lambda e: e("a") - e("b")),
        Example("if mask:\n    t1 = a\nout = t1", lambda e: np.where(e("mask"), e("a"), 0.0)),
    ),
    _row(
        "c, d = x, y",
        "assigned in turn: `b, a = a, b` does not swap",
        Example("t1 = a\nt2 = b\nt2, t1 = t1, t2\nout = t1", lambda e: e("a")),
    ),
    _row(
        "t: np.float32 = a",
        "a temporary with a type. It may be declared again with the same type",
        Example("t1: np.float32 = a\nout = t1", lambda e: e("a").astype(np.float32)),
        Example("t1: np.int64 = a\nt1: np.int64 = a * 2\nout = t1", lambda e: np.trunc(e("a") * 2)),
    ),
    _row(
        "s: Field[IJ, np.float64] = 0.0",
        "a temporary over I and J, assigned in FORWARD and BACKWARD. It keeps its value from "
        "level to level",
        Example(
            "with computation(FORWARD), interval(...):\n"
            "    t1: Field[IJ, np.float64] = 1.0\n"
            "    t1 = t1 + a\n"
            "    out = t1",
            lambda e: 1.0 + e("a"),
        ),
        Example(
            "with computation(FORWARD), interval(0, 1):\n"
            "    t1: Field[IJ, np.float64] = a\n"
            "with computation(PARALLEL), interval(...):\n"
            "    out = t1[1, 0] - t1[0, -1]",
            lambda e: (e("a", 1) - e("a", 0, -1))[:, :, :1] + 0.0 * e("a"),
        ),
    ),
    _row(
        "total = total + a",
        "a field over I and J is assigned in FORWARD and BACKWARD, once for each level",
        Example(
            "with computation(FORWARD):\n"
            "    with interval(0, 1):\n"
            "        ground = a\n"
            "    with interval(1, None):\n"
            "        ground = ground + a",
            lambda e: _upwards(e("a")[:, :, 0], lambda k: e("a")[:, :, k])[:, :, -1:],
        ),
    ),
    _row(
        "if; elif; else",
        "the condition is evaluated once at each point, before the branches",
        Example(
            "if mask:\n    out = a\nelif a > 1.0:\n    out = b\nelse:\n    out = 3.0",
            lambda e: np.where(e("mask"), e("a"), np.where(e("a") > 1.0, e("b"), 3.0)),
        ),
        Example("if s > 1.0 and m < 2:\n    out = a\nelse:\n    out = b", lambda e: e("b")),
    ),
    _row(
        "while",
        "repeats the body at each point while its condition holds. Loops without a counter are "
        "an error after 100,000 iterations",
        Example("t1 = abs(a)\nwhile t1 > 0.25:\n    t1 *= 0.5\nout = t1", _while_halving),
    ),
    _row(
        "a[0, 0, 1] = x; a[0, 0, n] = x",
        "in FORWARD and BACKWARD: assigns another level of the column, if the array has it",
        Example(
            "with computation(FORWARD), interval(...):\n"
            "    out = 0.0\n"
            "with computation(FORWARD), interval(0, -1):\n"
            "    out[0, 0, 1] = a",
            _above_written,
        ),
        Example(
            "with computation(FORWARD), interval(...):\n"
            "    out = 0.0\n"
            "with computation(FORWARD), interval(0, -1):\n"
            "    out[0, 0, m - 1] = a",
            _above_written,
        ),
    ),
)

EXPRESSIONS = (
    _row(
        "a[1, 0, -1]; a[-1]; a[0, 1]; a[I+1]; a[J-1, K+1]",
        "a neighbour at constant offsets: along all axes of the field, along K only, along I "
        "and J of a field over them, or along named axes",
        Example("out = a[1, 0, -1]", lambda e: e("a", 1, 0, -1)),
        Example("out = profile[-1]", lambda e: np.broadcast_to(e("profile", k=-1), DOMAIN)),
        Example("out = surface[0, 1] + a", lambda e: e("surface", 0, 1) + e("a")),
        Example("out = a[I+1] - a[J-1, K+1]", lambda e: e("a", 1) - e("a", 0, -1, 1)),
    ),
    _row(
        "a[0, 0, n]; a.at(K=n)",
        "another level of the column: `n` levels away, or counted from the first level of the "
        "domain; see [below](#runtime-levels)",
        Example("out = a[0, 0, n]", lambda e: e.at("a", e.k + e("n"))),
        Example("out = a.at(K=level)", lambda e: e.at("a", e("level"))),
        Example("out = a.at(K=99)", lambda e: e.at("a", np.full(DOMAIN, 99))),
    ),
    _row(
        "v[0, 0, 0][1]; v.A[n]; v.at(K=n, ddim=[m])",
        "a component of a field with data dimensions; see [below](#data-dimensions-and-tables)",
        Example("out = v[1, 0, 0][1]", lambda e: e("v", 1)[..., 1]),
        Example(
            "out = v.A[n]",
            lambda e: np.take_along_axis(e("v"), np.clip(e("n"), 0, 2)[..., None], 3)[..., 0],
        ),
        Example("out = v.at(K=1, ddim=[m])", lambda e: e.at("v", np.full(DOMAIN, 1))[..., 2]),
    ),
    _row(
        "v = 2.0 * w; m @ v; m.T",
        "arithmetic of all components, and products of matrices and vectors. They are the whole "
        "right-hand side of an assignment to a field with data dimensions",
        Example(
            "t1: Field[(np.float64, (3,))] = 0\n"
            "with computation(PARALLEL), interval(...):\n"
            "    t1 = matrix @ v\n"
            "    out = t1[0, 0, 0][2]",
            lambda e: (
                e("matrix")[..., 2, 0] * e("v")[..., 0]
                + e("matrix")[..., 2, 1] * e("v")[..., 1]
                + e("matrix")[..., 2, 2] * e("v")[..., 2]
            ),
        ),
    ),
    _row(
        "table.A[i, j]",
        "an element of a `GlobalTable`",
        Example(
            "out = table.A[m, n + 1]",
            lambda e: e.arrays["table"][2, np.clip(e("n") + 1, 0, 4)],
        ),
    ),
    _row(
        "K; THIS_K",
        "the index of the level, an int64. It is 0 on the first level of the domain",
        Example("out = K * a", lambda e: e.k * e("a")),
    ),
    _row(
        "+ - * / % **",
        "arithmetic; `%` has the sign of the divisor",
        Example("out = (a + b) * a - b / s", lambda e: (e("a") + e("b")) * e("a") - e("b") / 1.75),
        Example("out = a % b", lambda e: np.mod(e("a"), e("b"))),
        Example("out = b ** a", lambda e: np.power(e("b"), e("a"))),
        Example("out = -n % 3", lambda e: np.mod(-e("n"), 3)),
    ),
    _row(
        "< <= > >= == !=; and or not",
        "comparisons of two operands, and logic of bool operands",
        Example(
            "out = 1.0 if not (a < b and n != 0 or mask) else 0.0",
            lambda e: ~((e("a") < e("b")) & (e("n") != 0) | e("mask")),
        ),
    ),
    _row(
        "x if condition else y",
        "point by point",
        Example("out = a if a > b else b", lambda e: np.where(e("a") > e("b"), e("a"), e("b"))),
    ),
    _row(
        "abs; min; max",
        "`min` and `max` take two arguments and propagate NaN",
        Example("out = abs(a)", lambda e: np.abs(e("a"))),
        Example(
            "out = min(a, b) + max(a, s)",
            lambda e: np.minimum(e("a"), e("b")) + np.maximum(e("a"), 1.75),
        ),
        Example(
            "out = max(a, sqrt(a))",
            lambda e: np.where(e("a") < 0, np.nan, np.maximum(e("a"), np.sqrt(np.abs(e("a"))))),
        ),
    ),
    _row(
        "sqrt cbrt exp log log10; sin cos tan asin acos atan atan2; sinh cosh tanh "
        "asinh acosh atanh; erf erfc gamma",
        "of floats, or of integers as [below](#types-of-results)",
        *_each(
            sqrt=np.sqrt,
            cbrt=np.cbrt,
            exp=np.exp,
            log=np.log,
            log10=np.log10,
            sin=np.sin,
            cos=np.cos,
            tan=np.tan,
            asin=np.arcsin,
            acos=np.arccos,
            atan=np.arctan,
            sinh=np.sinh,
            cosh=np.cosh,
            tanh=np.tanh,
            asinh=np.arcsinh,
            atanh=np.arctanh,
            erf=np.vectorize(math.erf),
            erfc=np.vectorize(math.erfc),
            gamma=np.vectorize(math.gamma),
        ),
        Example("out = acosh(b + 1.0)", lambda e: np.arccosh(e("b") + 1.0)),
        Example("out = atan2(a, b)", lambda e: np.arctan2(e("a"), e("b"))),
    ),
    _row(
        "floor ceil trunc round round_away_from_zero; mod",
        "`round` rounds half to even; `mod(x, y)` is `x % y`",
        Example(
            "out = floor(a) + 10.0 * ceil(a)", lambda e: np.floor(e("a")) + 10.0 * np.ceil(e("a"))
        ),
        Example("out = trunc(a)", lambda e: np.trunc(e("a"))),
        Example("out = round(0.5 * n)", lambda e: np.round(0.5 * e("n"))),
        Example(
            "out = round_away_from_zero(0.5 * n)",
            lambda e: np.copysign(np.floor(np.abs(0.5 * e("n")) + 0.5), e("n")),
        ),
        Example("out = mod(a, b)", lambda e: np.mod(e("a"), e("b"))),
    ),
    _row(
        "isnan isinf isfinite",
        "bool",
        Example(
            "out = 1.0 if isnan(sqrt(a)) or isinf(a / 0.0) and isfinite(a) else 0.0",
            lambda e: np.ones(DOMAIN),
        ),
    ),
    _row(
        "int float; int8 int16 int32 int64 float32 float64",
        "conversion; to an integer it truncates, see [below](#types-of-results)",
        Example("out = int(a * 3)", lambda e: np.trunc(e("a") * 3)),
        Example("out = float32(a)", lambda e: e("a").astype(np.float32)),
        Example("out = float(n) / 3", lambda e: e("n") / 3.0),
        Example("out = int32(a) + int64(b)", lambda e: np.trunc(e("a")) + 0.0),
    ),
    _row(
        "a[near[0]]; neighbor_sum(a[near]); max_over; min_over",
        "a point given by a table, and reductions over the columns of a table; see "
        "[below](#neighbours-by-table)",
    ),
)

TYPES = (
    _row(
        "int64 * float32",
        "float32",
        Example("out = n * small", lambda e: e("n").astype(np.float32) * e("small")),
    ),
    _row(
        "int / int",
        "float32, as in GT4Py, with a warning in programs of float64. Write `float(n) / m` for "
        "double precision",
        Example("out = n / 3", lambda e: e("n").astype(np.float32) / np.float32(3)),
    ),
    _row(
        "sqrt(int); sin(int)",
        "float32, with a warning in programs of float64",
        Example("out = sqrt(n * n)", lambda e: np.sqrt((e("n") * e("n")).astype(np.float32))),
    ),
    _row(
        "float32 * 2.0",
        "float64, converted to float32 when it is assigned to a float32 field",
        Example("out = small * 0.1", lambda e: e("small").astype(np.float64) * 0.1),
    ),
    _row(
        "float64 to an int field",
        "truncated. Values out of range saturate, and NaN becomes 0",
        Example(
            "t1: np.int8 = a * 100\nout = t1", lambda e: np.trunc(np.clip(e("a") * 100, -128, 127))
        ),
        Example("t1: np.int64 = sqrt(-b)\nout = t1", lambda e: np.zeros(DOMAIN)),
    ),
)

SECTIONS: Mapping[str, tuple[Construct, ...]] = {
    "text": TEXT,
    "computations": COMPUTATIONS,
    "statements": STATEMENTS,
    "expressions": EXPRESSIONS,
    "types": TYPES,
}
