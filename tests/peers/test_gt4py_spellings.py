"""Ways to write modules, constants and computations that GT4Py takes: the same text, and values."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import halocline_engine as he

HEAD = """
import dataclasses
import math
import types
from math import gamma as gamma_of, pi as PI

import numpy as np
from gt4py.cartesian import gtscript
from gt4py.cartesian.gtscript import (
    BACKWARD, FORWARD, IJ, IJK, PARALLEL, Field, I, J, K, __INLINED, compile_assert, computation,
    float32, float64, horizontal, int32, interval, region, sqrt,
)

try:
    from gt4py.cartesian.gtscript import exp as exponential
except ImportError:
    exponential = None

A, B = 1.5, 2
C = D = 3.0
LOW, (MID, HIGH) = 1.0, (2.0, 3.0)
ROOT = np.sqrt(2.0) + math.sqrt(3.0) * math.pi + PI + gamma_of(3.5) + max(A, B) ** 2
COUNT = int(A * B)
SHAPE = (3,)
SIZE = 3
Real = np.float64
Vector = (Real, SHAPE)
Plane = IJ
FIRST = gtscript.K[2]
SPACE = types.SimpleNamespace(A=0.5, inner=types.SimpleNamespace(B=0.25))


@dataclasses.dataclass
class Constants:
    G: float = 9.81
    R: float = dataclasses.field(default=287.0)
    N: np.int32 = np.int32(3)
    F: np.float32 = np.float32(0.1)


class Derived(Constants):
    L = 2.5

    class deep:
        X = 7


one = Constants()
other = Derived(G=3.7)
same = other


@gtscript.function
def twice(x):
    return 2 * x


@gtscript.function
def level(x):
    t = x + 1
    return t


@gtscript.function
def inner():
    from gt4py.cartesian.__externals__ import constant

    return constant


@gtscript.function
def outer():
    from gt4py.cartesian.__externals__ import called

    return called() + 1.0


"""

PROGRAMS = {
    "constants": """
        with computation(PARALLEL), interval(...):
            b = a * A + B - C / D + ROOT + COUNT + LOW + MID - HIGH
    """,
    "namespaces": """
        with computation(PARALLEL), interval(...):
            b = a * SPACE.A + SPACE.inner.B + one.G + other.G + other.R + same.L + Derived.deep.X
    """,
    "typed_constants": """
        with computation(PARALLEL), interval(...):
            t = Constants.N
            u = Constants.F
            t = a * 3.7
            b = t + u * one.F
    """,
    "shapes": """
        with computation(PARALLEL), interval(...):
            v = v + w
            v[0, 0, 0][1] = w[0, 0, 0][n] + p.A[1]
            b = v[0, 0, 0][1]
    """,
    "functions_as_externals": """
        from gt4py.cartesian.__externals__ import called
        from gt4py.cartesian.__gtscript__ import PARALLEL, computation, interval

        with computation(PARALLEL), interval(...):
            b = outer() * a + called()
    """,
    "axis_as_external": """
        from gt4py.cartesian.__externals__ import AXIS

        with computation(PARALLEL), interval(...):
            b = a[AXIS - 1] + a[AXIS + 2]
    """,
    "decided_when_compiled": """
        from __externals__ import FLAG, NONE, NUMBER

        with computation(PARALLEL), interval(...):
            compile_assert(0 < NUMBER < 4)
            compile_assert(NUMBER)
            b = a
            if __INLINED(NUMBER):
                b = b + 1
            if __INLINED(NONE):
                b = b + 2
            if __INLINED(FLAG & 1):
                b = b + 4
            if __INLINED(FLAG & 2 | NONE):
                b = b + 8
            if __INLINED(not NONE and 1 < NUMBER <= 3):
                b = b + 16
            if __INLINED(NUMBER == 3.0 and FLAG ^ 1):
                b = b + 32
    """,
    "orders": """
        with computation(order=PARALLEL), interval(...):
            b = a
        with interval(0, 1), computation(FORWARD):
            b = 2.0 * a
        with computation(FORWARD), interval(start=1, end=None):
            b = b + b[0, 0, -1]
        with interval(...), horizontal(region[I[0], :]), computation(PARALLEL):
            b = 0.0
    """,
    "constant_bounds": """
        with computation(PARALLEL), interval(...):
            b = a
        with computation(PARALLEL), interval(FIRST, SIZE):
            b = 2.0
        with computation(PARALLEL):
            with interval(0, SIZE - 1):
                b = 3.0
            with interval(SIZE + 1, None):
                b = 4.0
    """,
    "bounds_of_components": """
        with computation(PARALLEL), interval(...):
            b = a
        with computation(FORWARD), interval(bounds[0, 0][1], None):
            b = 2.0
        with computation(FORWARD), interval(low[0, 0], n):
            b = b + 1.0
    """,
    "calls_in_indices": """
        with computation(PARALLEL), interval(0, 2):
            b = a[0, 0, level(m)] + sqrt(a)
            b += twice(a)
        with computation(FORWARD), interval(0, 2):
            b[0, 0, level(m)] = twice(a) if a > 1.0 else -a
    """,
}

#: What an argument of a program is when the program reads it.
ARGUMENTS = {
    "a": "Field[float]",
    "b": "Field[float]",
    "v": "Field[Vector]",
    "w": "Field[(Real, SIZE)]",
    "p": "Field[Plane, (np.float64, SIZE)]",
    "bounds": "Field[IJ, (np.int64, (2,))]",
    "low": "Field[IJ, np.int64]",
    "m": "Field[np.int64]",
    "n": "int",
}
GIVEN: dict[str, Any] = {
    "called": {"function": "inner"},
    "constant": 1.5,
    "AXIS": {"axis": "J"},
    "FLAG": 5,
    "NONE": 0,
    "NUMBER": 3,
}
DOMAIN, HALO = (3, 2, 6), (2, 2, 1)


def program(name: str) -> tuple[str, list[str]]:
    """Return a module with one stencil, and the stencil's arguments."""
    body = PROGRAMS[name].replace("\n    ", "\n")
    used = [one for one in ARGUMENTS if re.search(rf"\b{one}\b", body)]
    parameters = ", ".join(f"{one}: {ARGUMENTS[one]}" for one in used)
    return f"{HEAD}def program({parameters}):{body}", used


def arrays(used: list[str]) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    """Return arguments, and the origins of those that are arrays."""
    random = np.random.default_rng(5)
    wide = tuple(size + 2 * halo for size, halo in zip(DOMAIN, HALO, strict=True))
    data = {"v": (3,), "w": (3,), "p": (3,), "bounds": (2,)}
    made: dict[str, Any] = {"n": 2}
    for name in used:
        shape = wide[: 2 if "IJ" in ARGUMENTS[name] or name == "p" else 3] + data.get(name, ())
        if name in ("bounds", "low", "m"):
            made[name] = random.integers(0, 3, shape)
        elif name != "n":
            made[name] = random.uniform(0.3, 1.7, shape)
    found = {name: made[name] for name in used}
    flat = ("p", "bounds", "low")
    return found, {name: HALO[: 2 if name in flat else 3] for name in used if name != "n"}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spellings")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_modules_mean_the_same(name: str, folder: Path) -> None:
    text, used = program(name)
    path = folder / f"spelling_{name}.py"
    path.write_text(text)
    gtscript: Any = importlib.import_module("gt4py.cartesian.gtscript")
    config: Any = importlib.import_module("gt4py.cartesian.config")
    config.cache_settings["root_path"] = str(folder)
    expected, origins = arrays(used)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: Any = load(path)
        theirs = gtscript.stencil(
            backend="debug",
            definition=module.program,
            format_source=False,
            externals={**GIVEN, "called": module.inner, "AXIS": gtscript.J},
        )
        theirs(**expected, origin=origins, domain=DOMAIN)
    for target in ("reference", "cpu"):
        got, _ = arrays(used)
        stencil = he.stencil(text, externals=GIVEN, target=target)
        stencil(**got, origin=origins, domain=DOMAIN)
        for each in origins:
            np.testing.assert_allclose(got[each], expected[each], rtol=1e-12, err_msg=each)


def test_the_axes_of_gt4py_are_externals() -> None:
    gtscript: Any = importlib.import_module("gt4py.cartesian.gtscript")
    text, used = program("axis_as_external")
    results: list[Any] = []
    for axis in (gtscript.J, "J", {"axis": "J"}, SimpleNamespace(name="J")):
        got, origins = arrays(used)
        stencil = he.stencil(text, externals={**GIVEN, "AXIS": axis}, target="reference")
        stencil(**got, origin=origins, domain=DOMAIN)
        results.append(got["b"])
    for each in results[1:]:
        np.testing.assert_array_equal(each, results[0])
