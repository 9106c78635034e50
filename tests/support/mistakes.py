"""A grammar of mistakes: requests that are right but for one thing, and what answers must name.

A `Mistake` is the process and its inputs, as every interface takes them. `draw` takes one of each
kind before it takes a second one, with names, numbers and places that a seed decides upon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import xarray as xr

__all__ = ["BANDS", "FLUX", "PROGRAM", "RIGHT", "Mistake", "draw", "sea"]

PROGRAM = """\
import numpy as np


def smooth(t: Field[np.float64], s: Field[np.float64], *, weight: float):
    with computation(PARALLEL), interval(...):
        around = t[-1, 0, 0] + t[1, 0, 0] - 2.0 * t
        s = t + weight * around
"""
FLUX = "GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(u)"
BANDS = {"lower": "below", "diagonal": "here", "upper": "above", "rhs": "u", "dim": "z"}


def sea() -> xr.Dataset:
    """Make a dataset to which all requests fit."""
    values = np.random.default_rng(1).normal(size=(3, 4, 6))
    column = ("z", np.ones(3))
    return xr.Dataset(
        {
            "t": (("z", "y", "x"), values),
            "u": (("z", "y", "x"), values),
            "cold": (("z", "y", "x"), values.astype("float32")),
            "count": (("z", "y", "x"), np.ones((3, 4, 6), "int64")),
            "name": ("y", np.array(list("abcd"))),
            "below": column,
            "here": column,
            "above": column,
            "nearest": ("at", np.array([0, 2])),
            "left": (("a", "b"), np.ones((2, 3))),
            "right": (("b", "c"), np.ones((3, 2))),
        },
        coords={
            "x": ("x", np.arange(6.0), {"axis": "X"}),
            "y": ("y", np.arange(4.0), {"axis": "Y"}),
            "z": ("z", [0.5, 1.5, 2.5], {"axis": "Z"}),
            "z_f": ("z_f", [0.0, 1.0, 2.0, 3.0], {"axis": "Z", "c_grid_axis_shift": -0.5}),
        },
    )


#: Inputs by process that are right.
RIGHT: Mapping[str, Mapping[str, Any]] = {
    "stencil": {"program": PROGRAM, "scalars": {"weight": 0.25}},
    "column": {"expression": FLUX},
    "tridiagonal": BANDS,
    "gather": {"source": "t", "index": "nearest", "dim": "x"},
    "matmul": {"left": "left", "right": "right", "dim": "b"},
    "regrid": {},
    "neighbours": {"operation": "gradient"},
    "sequence": {
        "stages": [
            {"stencil": {"program": PROGRAM, "scalars": {"weight": 0.25}}},
            {"tridiagonal": {**BANDS, "rhs": "s"}},
        ]
    },
}


@dataclass(frozen=True)
class Mistake:
    """A request with one thing wrong, of a kind; its answer must name `words`."""

    kind: str
    process: str = "stencil"
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    words: tuple[str, ...] = ()

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs but the datasets that all requests have; None leaves one out."""
        merged = {**RIGHT[self.process], **self.changes}
        return {name: value for name, value in merged.items() if value is not None}


def misspelt(random: Random, name: str) -> str:
    """Return a name with a letter doubled, left out, or exchanged."""
    at = random.randrange(len(name))
    forms = [name[:at] + name[at] + name[at:], name + random.choice("xq_2"), name + name]
    if len(name) > 3:
        forms.append(name[:at] + name[at + 1 :])
    return random.choice([form for form in forms if form != name])


def _line(text: str) -> dict[str, Any]:
    """Return a program with another line for the result."""
    return {"program": PROGRAM.replace("s = t + weight * around", text)}


def _calls(random: Random) -> tuple[dict[str, Any], str]:
    """Return a program that calls what NumPy or xarray have."""
    forms = {
        "np.where": "s = np.where(t > 0.0, t, weight * around)",
        "sum": "s = weight * sum(around)",
        "mean": "s = t - around.mean() * weight",
        "np.roll": "s = np.roll(t, 1) * weight + around",
        "np.gradient": "s = np.gradient(t) * weight + around",
        "shape": "s = t.shape[0] * weight + around",
        "clip": "s = np.clip(t, weight, around)",
        "np.maximum": "s = np.maximum(t, weight * around)",
        "isel": "s = t.isel(x=0) * weight + around",
        "np.zeros": "s = np.zeros(3) * weight + around",
        "len": "s = len(t) * weight + around",
        "values": "s = t.values * weight + around",
        "np.power": "s = np.power(t, 2) * weight + around",
        "fillna": "s = t.fillna(0.0) * weight + around",
    }
    name = random.choice([*forms])
    return _line(forms[name]), name


def _texts(random: Random) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what is no program of the language."""
    forms: list[tuple[str, tuple[str, ...]]] = [
        (PROGRAM.replace("def smooth(t:", "def smooth(self, t:"), ("self", "method")),
        ("@gtx.field_operator\ndef f(a: fa.K[float]) -> fa.K[float]:\n    return a\n", ("next",)),
        ("@field_operator\ndef f(a):\n    return a\n", ("next",)),
        ("@njit\ndef f(a, b):\n    for i in range(9):\n        b[i] = a[i - 1]\n", ("offset",)),
        ("import numpy as np\nprint(np.ones(3))\n", ("computation",)),
        (PROGRAM.replace("t: Field[np.float64]", "t"), ("'t'", "type")),
        (PROGRAM.replace("t: Field[np.float64]", "t: np.ndarray"), ("np.ndarray", "Field")),
        (PROGRAM.replace("+ weight * around", "+ weight * (around"), ("brackets",)),
        (PROGRAM.replace("weight * around", "wieght * around"), ("wieght", "weight")),
        (PROGRAM.replace("t[-1, 0, 0]", "t[-1]"), ("3 offsets",)),
        (PROGRAM.replace("t[-1, 0, 0]", "t[1:, 0, 0]"), ("slice",)),
        (PROGRAM.replace("s = t", "weight = t"), ("weight", "scalar")),
        (PROGRAM.replace("PARALLEL", "PARALEL"), ("PARALEL", "PARALLEL")),
        (PROGRAM.replace("interval(...)", "interval(1, 0)"), ("interval",)),
        (PROGRAM.replace("Field[np.float64], s", "Field[np.flaot64], s"), ("flaot64",)),
        ("", ("empty",)),
    ]
    text, words = random.choice(forms)
    return {"program": text}, words


_Made = tuple[str, dict[str, Any], tuple[str, ...]]
_Kind = Callable[[Random], _Made]


def _missing(random: Random) -> _Made:
    wrong = misspelt(random, "temp")
    process, changes = random.choice(
        [
            ("stencil", {"fields": {"t": wrong}}),
            ("column", {"expression": FLUX.replace("(u)", f"({wrong})")}),
            ("tridiagonal", {random.choice(["lower", "upper", "diagonal", "rhs"]): wrong}),
            ("gather", {random.choice(["source", "index"]): wrong}),
            ("matmul", {random.choice(["left", "right"]): wrong}),
            (
                "sequence",
                {
                    "stages": [
                        RIGHT["sequence"]["stages"][0],
                        {"tridiagonal": {**BANDS, "rhs": wrong}},
                    ]
                },
            ),
        ]
    )
    return process, changes, (wrong,)


def _type(random: Random) -> _Made:
    variable, dtype = random.choice([("count", "int64"), ("cold", "float32"), ("name", "U1")])
    return (
        "stencil",
        {"fields": {"t": variable}},
        (variable,) if variable == "name" else (variable, dtype),
    )


def _axes(random: Random) -> _Made:
    wrong = misspelt(random, "lon")
    axes, words = random.choice(
        [
            ({"I": wrong}, (wrong,)),
            ({"X": "x"}, ("X",)),
            ({"I": "x", "J": "x"}, ("x",)),
        ]
    )
    return "stencil", {"axes": axes}, words


def _boundary(random: Random) -> _Made:
    dim, rule = misspelt(random, "lon"), misspelt(random, "periodic")
    boundary, words = random.choice(
        [
            ({dim: "edge"}, (dim, "x")),
            ({"x": rule}, ("x", rule)),
            ({"x": {"low": "periodic", "high": "edge"}}, ("periodic",)),
            ({"x": {"low": "edge", "up": "edge"}}, ("up",)),
        ]
    )
    return "stencil", {"boundary": boundary}, words


def _feedback(random: Random) -> _Made:
    wrong = misspelt(random, "temp")
    feedback = random.choice([{"s": wrong}, {wrong: "t"}, {"t": "s"}])
    ((word, other),) = feedback.items()
    return "stencil", {"steps": 3, "feedback": feedback}, (word if other == "t" else other,)


def _steps(random: Random) -> _Made:
    steps = random.choice([2, 3, 50, 0, -1])
    words = ("steps", str(steps)) if steps > 1 else (str(steps),)
    return "stencil", {"steps": steps}, words


def _scalars(random: Random) -> _Made:
    wrong = misspelt(random, "weight")
    forms: list[tuple[dict[str, float], str]] = [
        ({}, "weight"),
        ({wrong: 0.5}, wrong),
        ({"weight": 0.5, wrong: 1}, wrong),
    ]
    scalars, word = random.choice(forms)
    return "stencil", {"scalars": scalars}, (word,)


def _call(random: Random) -> _Made:
    changes, word = _calls(random)
    return "stencil", changes, (word,)


def _text(random: Random) -> _Made:
    return "stencil", *_texts(random)


def _choice(random: Random) -> _Made:
    argument, value = random.choice(
        [
            ("target", "gpux"),
            ("target", "cuad"),
            ("mode", "streaming"),
            ("order", "colum"),
            ("arithmetic", "fast"),
        ]
    )
    return "stencil", {argument: value}, (value,)


def _chunks(random: Random) -> _Made:
    wrong = misspelt(random, "lon")
    chunks, word = random.choice([({wrong: 10}, wrong), ({"x": 0}, "0"), ({"x": -2}, "-2")])
    return "stencil", {"chunks": chunks}, (word,)


def _expression(random: Random) -> _Made:
    wrong = misspelt(random, "GradientC2F")
    changes, words = random.choice(
        [
            ({"expression": FLUX.replace("GradientC2F", "Gradient")}, ("Gradient",)),
            ({"expression": FLUX.replace("GradientC2F", wrong)}, (wrong,)),
            ({"expression": FLUX.replace("GradientC2F", "GradientF2C")}, ("face",)),
            ({"expression": FLUX + " +"}, ("syntax",)),
            ({"axis": misspelt(random, "lev")}, ("dimension",)),
            ({"heights": misspelt(random, "height")}, ("eight",)),
            ({"expression": FLUX.replace("bottom", "bottem")}, ("bottem",)),
        ]
    )
    return "column", changes, words


def _dim(random: Random) -> _Made:
    wrong = misspelt(random, "lev")
    process = random.choice(["tridiagonal", "gather", "matmul"])
    return process, {"dim": wrong}, (wrong,)


def _index(random: Random) -> _Made:
    changes, word = random.choice(
        [({"index": "here"}, "here"), ({"out_of_range": "ignore"}, "ignore")]
    )
    return "gather", changes, (word,)


def _grid(random: Random) -> _Made:
    process = random.choice(["regrid", "neighbours"])
    return process, {}, ("row",) if process == "regrid" else ("mesh",)


def _externals(random: Random) -> _Made:
    text = PROGRAM.replace("    with comp", "    from __externals__ import ORDER\n\n    with comp")
    text = text.replace("weight * around", "weight * around * ORDER")
    wrong = misspelt(random, "ORDER")
    return "stencil", {"program": text, "externals": random.choice([{}, {wrong: 2}])}, ("ORDER",)


def _stages(random: Random) -> _Made:
    stencil, solve = RIGHT["sequence"]["stages"]
    wrong = misspelt(random, "tridiagonal")
    left_out = {name: value for name, value in solve["tridiagonal"].items() if name != "dim"}
    stages, word = random.choice(
        [
            ([stencil, {wrong: solve["tridiagonal"]}], wrong),
            ([stencil, {"tridiagonal": left_out}], "dim"),
            ([stencil, {"tridiagonal": {**solve["tridiagonal"], "upper": "uper"}}], "uper"),
        ]
    )
    return "sequence", {"stages": stages}, (word,)


def _until(random: Random) -> _Made:
    wrong = misspelt(random, "s")
    until, word = random.choice(
        [
            ({"field": wrong, "below": 1e-6}, wrong),
            ({"field": "s", "belowe": 1e-6}, "below"),
            ({"field": "s", "below": 1e-6, "change": "mean"}, "mean"),
        ]
    )
    return "stencil", {"steps": 9, "feedback": {"s": "t"}, "until": until}, (word,)


def _habit(random: Random) -> _Made:
    """Return what users of other packages write."""
    rule, here = random.choice(
        [
            ("fill", "0.0"),
            ("extend", "edge"),
            ("nearest", "edge"),
            ("mirror", "reflect"),
            ("wrap", "periodic"),
            ("grid-wrap", "periodic"),
            ("cyclic", "periodic"),
        ]
    )
    module = PROGRAM.replace("import numpy as np", "import numpy as np\nfrom model import ppm")
    module = module.replace("weight * around", "weight * around * ppm.c1 + ppm.c2")
    changes, words = random.choice(
        [
            ({"boundary": {random.choice(["x", "y"]): rule}}, (rule, here)),
            ({"boundary": {"x": {"high": rule}}}, (rule, "high", here)),
            ({"boundary": {"X": "edge"}}, ("X", "'x'", "edge")),
            ({"axes": {"x": "I", "y": "J"}}, ("I", "x")),
            ({"program": module}, ("ppm.c1", "c2")),
            (_line("s = t[i + 1, j] * weight + around"), ("t[1, 0, 0]",)),
            (_line("s = weight * around if t == np.nan else t"), ("isnan(t)",)),
            (_line("s = weight * around if t is None else t"), ("isnan(t)",)),
            (_line("s = weight * around if t > 0.0 else np.nan"), ("np.nan", "0.0 / 0.0")),
        ]
    )
    return "stencil", changes, words


KINDS: Mapping[str, _Kind] = {
    "missing variable": _missing,
    "type": _type,
    "axes": _axes,
    "boundary": _boundary,
    "feedback": _feedback,
    "steps": _steps,
    "scalars": _scalars,
    "call": _call,
    "text": _text,
    "choice": _choice,
    "chunks": _chunks,
    "expression": _expression,
    "dim": _dim,
    "index": _index,
    "grid for weights": _grid,
    "externals": _externals,
    "stages": _stages,
    "until": _until,
    "habit": _habit,
}


def draw(seed: str, count: int, *, without: tuple[str, ...] = ()) -> Iterator[Mistake]:
    """Yield mistakes, one of each kind before a second one."""
    random = Random(seed)
    kinds: list[str] = []
    for _ in range(count):
        if not kinds:
            kinds = [kind for kind in KINDS if kind not in without]
            random.shuffle(kinds)
        kind = kinds.pop()
        process, changes, words = KINDS[kind](random)
        yield Mistake(kind, process, changes, words)
