"""All names of a module as externals: objects of every kind, of which programs use a few."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import halocline_engine as he
from halocline.inputs.arguments import plain
from halocline_engine.language.python.sources import program_source, used_externals

MODULE = """
import enum
import math
from collections import namedtuple
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from halocline.gtscript import PARALLEL, Field, computation, function, interval

Pair = namedtuple("Pair", "a b")
pair = Pair(2.0, 3)
named = Pair(b=2.0, a=3)


class Typed(NamedTuple):
    c: float = 4.0
    k: int = 2


typed = Typed()
placed = Typed(6.0)


@dataclass
class Data:
    d: float = 5.0
    s: str = "x"

    @property
    def twice(self):
        return 2.0 * self.d

    @property
    def broken(self):
        raise RuntimeError("never read")


data = Data(8.0)


@dataclass(frozen=True, slots=True)
class Frozen:
    f: float = 7.0


frozen = Frozen()


class Kind(enum.Enum):
    ONE = 1.5
    TWO = 2


class Count(enum.IntEnum):
    THREE = 3


class Made:
    g = 1.0

    def __init__(self, g):
        self.g = 2.0 * g


class Odd:
    def __getattr__(self, name):
        raise RuntimeError(name)


made, odd = Made(3.0), Odd()
narrow = np.float32(2.5)
alone, several = np.array(3.5), np.ones(3)
nothing, text, missing, large, helper = None, "text", float("nan"), 10**400, len


def joined(x):
    import os

    return os.path.join("a", str(x))


@function
def doubled(x):
    return 2.0 * x
"""
PROGRAM = """

def program(t: Field[float], o: Field[float]):
{}    with computation(PARALLEL), interval(...):
        o = t * {}
"""
#: What programs use, what it is, and whether a text says so by itself.
USED = {
    "1.0": (1.0, True),
    "pair.a": (2.0, True),
    "pair.b": (3.0, True),
    "named.a": (3.0, True),
    "typed.c": (4.0, True),
    "placed.c": (6.0, True),
    "placed.k": (2.0, True),
    "data.d": (8.0, True),
    "data.twice": (16.0, False),
    "frozen.f": (7.0, True),
    "Kind.ONE.value": (1.5, True),
    "Kind.TWO": (2.0, True),
    "Count.THREE": (3.0, True),
    "made.g": (6.0, False),
    "narrow": (2.5, True),
    "alone": (3.5, False),
    "math.pi": (np.pi, True),
    "doubled(t)": (2.0, True),
}


def module_of(folder: Path, used: str, monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, Path]:
    name = f"externals_{abs(hash(used))}"
    path = folder / f"{name}.py"
    path.write_text(MODULE + PROGRAM.format("", used))
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    importlib.invalidate_caches()
    return importlib.import_module(name), path


def computed(program: Any, **more: Any) -> float:
    out = np.zeros((1, 1, 1))
    he.stencil(program, stencil_name="program", target="reference", **more)(np.ones((1, 1, 1)), out)
    return float(out[0, 0, 0])


@pytest.mark.parametrize("used", USED)
def test_what_is_used_is_what_python_has(
    used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, path = module_of(tmp_path, used, monkeypatch)
    given, (value, in_text) = vars(module), USED[used]
    assert computed(module.program) == value
    assert computed(module.program, externals=given) == value
    assert computed(path, externals=given) == value
    if in_text:
        assert computed(path) == value
    else:
        with pytest.raises(he.ProgramError):
            computed(path)
    root = used.partition(".")[0].partition("(")[0]
    if root.isidentifier():
        imported = PROGRAM.format(f"    from __externals__ import {root}\n", used)
        assert computed(imported, externals=given) == value


@pytest.mark.parametrize("used", ["pair.a", "data.twice", "frozen.f", "Kind.TWO", "alone"])
def test_the_client_sends_what_is_used(
    used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _ = module_of(tmp_path, used, monkeypatch)
    root = used.partition(".")[0]
    text = PROGRAM.format(f"    from __externals__ import {root}\n", used)
    used_here = used_externals(program_source(text), vars(module), None)
    sent = plain({"externals": used_here})["externals"]
    assert list(sent) == [root]
    assert computed(text, externals=sent) == USED[used][0]


def test_a_property_that_fails_is_no_constant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _ = module_of(tmp_path, "1.0", monkeypatch)
    text = PROGRAM.format("    from __externals__ import data\n", "data.broken")
    with pytest.raises(he.ArgumentError, match="'data' has no 'broken'"):
        computed(text, externals=vars(module))
