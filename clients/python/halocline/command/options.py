"""Options of stencils, shared by several commands, and their `NAME=VALUE` words."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, get_type_hints

import typer

from halocline_engine.interface.habits import RULES

__all__ = [
    "Given",
    "boundaries",
    "clock",
    "grids",
    "numbers",
    "pairs",
    "precision",
    "scalars",
    "split_at_commas",
    "with_stencil_options",
]

_Words = list[str] | None
_BOUNDARY = (
    "DIM=KIND, DIM.low=KIND or DIM.fields.FIELD=KIND: periodic, edge, reflect, symmetric,"
    " antisymmetric, extrapolate, none or a number."
)
_FORMS: Mapping[str, str] = {
    "--boundary": "DIM=KIND",
    "--chunk": "DIM=SIZE",
    "--axes": "AXIS=DIM",
    "--scalar": "NAME=NUMBER",
    "--external": "NAME=NUMBER",
    "--field": "PARAMETER=VARIABLE",
    "--feedback": "OUTPUT=INPUT",
    "--dtype": "NAME=TYPE",
}
_OPTIONS: dict[str, Any] = {
    "stencil_name": Annotated[
        str | None, typer.Option(help="Which stencil of the file, if it has several.")
    ],
    "field": Annotated[_Words, typer.Option("--field", help="PARAMETER=VARIABLE")],
    "scalar": Annotated[
        _Words, typer.Option("--scalar", help="PARAMETER=NUMBER, or PARAMETER=clock:seconds")
    ],
    "external": Annotated[_Words, typer.Option("--external", help="NAME=NUMBER")],
    "dtype": Annotated[_Words, typer.Option("--dtype", help="NAME=TYPE")],
    "literal_precision": Annotated[
        _Words,
        typer.Option(
            "--literal-precision", help="Bits of literals in the program: 32, 64, or int=64."
        ),
    ],
    "arithmetic": Annotated[
        str | None, typer.Option(help="separate, or fused: round a * b + c once.")
    ],
    "axes": Annotated[_Words, typer.Option("--axes", help="I=x,J=y,K=z; none for no axis.")],
    "grid": Annotated[
        _Words, typer.Option("--grid", help="X.center=xh,X.right=xq; or left, outer, inner.")
    ],
    "position": Annotated[
        _Words, typer.Option("--position", help="OUTPUT=DIM,DIM of results on several positions.")
    ],
    "boundary": Annotated[_Words, typer.Option("--boundary", help=_BOUNDARY)],
    "steps": Annotated[int | None, typer.Option(help="Number of steps.")],
    "snapshot_every": Annotated[int | None, typer.Option(help="Steps between snapshots.")],
    "time": Annotated[
        _Words,
        typer.Option(
            "--time", help="start=DATE,step=15min; also end, duration, calendar, interpolate."
        ),
    ],
    "feedback": Annotated[
        _Words, typer.Option("--feedback", help="OUTPUT=INPUT of the next step.")
    ],
    "target": Annotated[str | None, typer.Option(help="auto, cuda (or gpu), cpu or reference")],
    "mode": Annotated[str | None, typer.Option(help="auto, streamed or resident")],
    "chunk": Annotated[_Words, typer.Option("--chunk", help="DIM=SIZE, the size of blocks.")],
    "order": Annotated[str | None, typer.Option(help="auto, row, column or zigzag")],
    "job_name": Annotated[str | None, typer.Option("--job-name", help="Name of the job.")],
    "label": Annotated[_Words, typer.Option("--label", help="Label of the job; repeatable.")],
}


@dataclass(frozen=True)
class Given:
    """Arguments of the command line: inputs of a stencil, name and labels of the job."""

    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    job_name: str | None = None
    labels: Sequence[str] = ()


def with_stencil_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of stencils to a command, as its argument `given`."""
    known = inspect.signature(command).parameters.values()
    hints = get_type_hints(command, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [one.replace(annotation=hints[one.name]) for one in known if one.name != "given"]
    options = [
        inspect.Parameter(name, keyword, default=None, annotation=kind)
        for name, kind in _OPTIONS.items()
    ]
    first = [one for one in own if one.kind is not keyword]
    last = [one for one in own if one.kind is keyword]

    @functools.wraps(command)
    def called(**words: Any) -> None:
        stencil = {name: words.pop(name) for name in _OPTIONS}
        command(**words, given=_collect(stencil))

    made: Any = called
    made.__signature__ = inspect.Signature([*first, *options, *last])
    made.__annotations__ = {one.name: one.annotation for one in (*first, *options, *last)}
    del made.__wrapped__  # its signature would take precedence
    return called


def _collect(words: dict[str, Any]) -> Given:
    inputs = {
        "stencil_name": words["stencil_name"],
        "fields": pairs("--field", words["field"]),
        "scalars": scalars("--scalar", words["scalar"]),
        "externals": numbers("--external", words["external"]),
        "dtypes": pairs("--dtype", words["dtype"]),
        "literal_precision": precision("--literal-precision", words["literal_precision"]),
        "arithmetic": words["arithmetic"],
        "axes": {
            axis: None if dim == "none" else dim
            for axis, dim in pairs("--axes", split_at_commas(words["axes"])).items()
        },
        "grid": grids("--grid", split_at_commas(words["grid"])),
        "positions": {
            name: split_at_commas([dims])
            for name, dims in pairs("--position", words["position"]).items()
        },
        "boundary": boundaries("--boundary", split_at_commas(words["boundary"])),
        "steps": words["steps"],
        "snapshot_every": words["snapshot_every"],
        "time": clock("--time", split_at_commas(words["time"])),
        "feedback": pairs("--feedback", words["feedback"]),
        "target": words["target"],
        "mode": words["mode"],
        "chunks": numbers("--chunk", split_at_commas(words["chunk"])),
        "order": words["order"],
    }
    told = {name: value for name, value in inputs.items() if value not in (None, {})}
    return Given(told, words["job_name"], tuple(words["label"] or ()))


def split_at_commas(words: Sequence[str] | None) -> list[str]:
    """Split words at commas: an option can be given once or several times.

    >>> split_at_commas(["I=x,J=y", "K=z"])
    ['I=x', 'J=y', 'K=z']
    """
    return [part for word in words or () for part in word.split(",") if part]


def pairs(option: str, words: Sequence[str] | None) -> dict[str, str]:
    """Read `NAME=VALUE` words.

    >>> pairs("--field", ["inp=tos"])
    {'inp': 'tos'}
    """
    values: dict[str, str] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            message = (
                f"Expected NAME=VALUE, got '{word}'. Write {option} {_with_equals(option, word)}."
            )
            raise typer.BadParameter(message, param_hint=option)
        if name in values:
            raise typer.BadParameter(f"'{name}' is given twice.", param_hint=option)
        values[name] = value
    return values


def _with_equals(option: str, word: str) -> str:
    """Return a word as NAME=VALUE, as far as it can be told.

    >>> _with_equals("--boundary", "lon:periodic"), _with_equals("--boundary", "periodic")
    ('lon=periodic', 'DIM=periodic')
    """
    name, value = (*re.split("[:=]", word, maxsplit=1), "")[:2]
    known = _FORMS.get(option, "NAME=VALUE")
    if name and value:
        return f"{name}={value}"
    if option == "--boundary" and name in RULES:
        return f"DIM={name}"
    return known if not name else f"{name}={known.partition('=')[2]}"


def numbers(option: str, words: Sequence[str] | None) -> dict[str, bool | int | float]:
    """Read `NAME=NUMBER` words; whole numbers stay whole.

    >>> numbers("--scalar", ["alpha=0.5", "n=3", "flag=true"])
    {'alpha': 0.5, 'n': 3, 'flag': True}
    """
    return {name: _number(option, text) for name, text in pairs(option, words).items()}


def scalars(option: str, words: Sequence[str] | None) -> dict[str, Any]:
    """Read `NAME=NUMBER` words, and `NAME=clock:QUANTITY`.

    >>> scalars("--scalar", ["alpha=0.5", "t=clock:seconds"])
    {'alpha': 0.5, 't': {'clock': 'seconds'}}
    """
    return {
        name: {"clock": text.removeprefix("clock:")}
        if text.startswith("clock:")
        else _number(option, text)
        for name, text in pairs(option, words).items()
    }


def clock(option: str, words: Sequence[str] | None) -> dict[str, Any]:
    """Read `KEY=VALUE` words of a clock; `interpolate.FIELD` is the method of a field.

    >>> clock("--time", ["start=2015-01-01", "step=15min", "interpolate.sst=previous"])
    {'start': '2015-01-01', 'step': '15min', 'interpolate': {'sst': 'previous'}}
    """
    settings: dict[str, Any] = {}
    for name, text in pairs(option, words).items():
        key, dot, field_name = name.partition(".")
        if dot and key == "interpolate":
            several = settings.setdefault(key, {})
            if not isinstance(several, dict):
                raise typer.BadParameter(f"'{key}' is given twice.", param_hint=option)
            several[field_name] = text
        else:
            settings[name] = True if text == "true" else text
    return settings


def precision(option: str, words: Sequence[str] | None) -> int | dict[str, int] | None:
    """Read bits of the numbers in a program: `32`, or `int=64` and `float=32`.

    >>> precision("--literal-precision", ["32"])
    32
    >>> precision("--literal-precision", ["float=32"])
    {'float': 32}
    """
    if not words:
        return None
    if len(words) == 1 and words[0].isdecimal():
        return int(words[0])
    bits = pairs(option, words)
    if not bits.keys() <= {"int", "float"} or not set(bits.values()) <= {"32", "64"}:
        raise typer.BadParameter("Write 32, or int=64 and float=32.", param_hint=option)
    return {name: int(number) for name, number in bits.items()}


def grids(option: str, words: Sequence[str] | None) -> dict[str, dict[str, str]]:
    """Read `AXIS.POSITION=DIM` words.

    >>> grids("--grid", ["X.center=xh", "X.right=xq"])
    {'X': {'center': 'xh', 'right': 'xq'}}
    """
    grid: dict[str, dict[str, str]] = {}
    for name, dim in pairs(option, words).items():
        axis, dot, position = name.rpartition(".")
        if not dot:
            raise typer.BadParameter(
                f"Expected AXIS.POSITION=DIM, got '{name}={dim}'.", param_hint=option
            )
        grid.setdefault(axis, {})[position] = dim
    return grid


def boundaries(option: str, words: Sequence[str] | None) -> dict[str, Any]:
    """Read `DIM=KIND`, `DIM.low=KIND` and `DIM.high=KIND`; a number is a constant.

    `DIM.fields.FIELD=KIND`, with an end or without one, is the rule of a field.

    >>> boundaries("--boundary", ["x=periodic", "y.low=edge", "y.high=0"])
    {'x': 'periodic', 'y': {'low': 'edge', 'high': {'constant': 0.0}}}
    >>> boundaries("--boundary", ["y=edge", "y.fields.v=0"])
    {'y': {'low': 'edge', 'high': 'edge', 'fields': {'v': {'constant': 0.0}}}}
    """
    conditions: dict[str, Any] = {}
    own: dict[str, dict[str, Any]] = {}
    for name, text in pairs(option, words).items():
        kind = _kind(option, text)
        dim, of_field, field = name.partition(".fields.")
        into = own.setdefault(dim, {}) if of_field else conditions
        _put(into, field if of_field else name, kind, option)
    for dim, fields in own.items():
        rule: Any = conditions.get(dim, {})
        if isinstance(rule, str) or "constant" in rule:
            rule = {"low": rule, "high": rule}
        conditions[dim] = {**rule, "fields": fields}
    return conditions


def _put(conditions: dict[str, Any], name: str, kind: Any, option: str) -> None:
    whole, dot, side = name.rpartition(".")
    if not (dot and side in ("low", "high")):
        conditions[name] = kind
        return
    sides = conditions.setdefault(whole, {})
    if not isinstance(sides, dict):
        raise typer.BadParameter(f"'{whole}' is given twice.", param_hint=option)
    sides[side] = kind


def _kind(option: str, text: str) -> Any:
    if text.isidentifier():
        return text
    return {"constant": float(_number(option, text))}


def _number(option: str, text: str) -> bool | int | float:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    readers: tuple[Callable[[str], int | float], ...] = (int, float)
    for read in readers:
        try:
            return read(text)
        except ValueError:
            continue
    raise typer.BadParameter(f"Expected a number, got '{text}'.", param_hint=option)
