"""The command that times a program on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halocline.command.base import Json, app
from halocline.command.options import numbers, pairs
from halocline.inputs.program import program_source
from halocline.processes.local import installed_engine, placed

if TYPE_CHECKING:
    from halocline_engine.functions.reports.timing import Timing

__all__ = ()

_Words = list[str] | None
_LAYOUTS = {"I": "KJI", "K": "IJK"}


@app.command()
def bench(
    program: Annotated[Path, typer.Argument(metavar="FILE", help="A '.py' file with a stencil.")],
    stencil_name: Annotated[
        str | None, typer.Option(help="Which stencil of the file, if it has several.")
    ] = None,
    domain: Annotated[str, typer.Option(help="Points along I, J and K.")] = "512,512,72",
    scalar: Annotated[_Words, typer.Option("--scalar", help="PARAMETER=NUMBER")] = None,
    drawn: Annotated[
        _Words, typer.Option("--range", help="FIELD=LOW:HIGH, the range of random values.")
    ] = None,
    external: Annotated[_Words, typer.Option("--external", help="NAME=NUMBER")] = None,
    dtype: Annotated[_Words, typer.Option("--dtype", help="NAME=TYPE")] = None,
    fastest: Annotated[str, typer.Option(help="The contiguous axis, I or K.")] = "I",
    target: Annotated[str, typer.Option(help="auto, cuda (or gpu), cpu or reference")] = "auto",
    as_json: Json = False,
) -> None:
    """Time a program on this machine, and estimate the limits of memory and arithmetic."""
    points = _domain(domain)
    if fastest not in _LAYOUTS:
        raise typer.BadParameter(f"Expected I or K, got '{fastest}'.", param_hint="--fastest")
    scalars, ranges = numbers("--scalar", scalar), _ranges(drawn)
    externals, dtypes = numbers("--external", external), pairs("--dtype", dtype)
    source = program_source(program)
    installed_engine()
    from halocline_engine.functions.reports.timing import timing

    with placed(source):
        report = timing(
            f"{source.text}\n",
            stencil_name=stencil_name or source.name,
            domain=points,
            scalars=scalars,
            ranges=ranges,
            externals=externals,
            dtypes=dtypes,
            layout=_LAYOUTS[fastest],
            target=target,
        )
    lines = [json.dumps(report.document(), indent=2)] if as_json else _lines(report)
    for line in lines:
        typer.echo(line)


def _domain(words: str) -> tuple[int, int, int]:
    sizes = words.split(",")
    if len(sizes) != 3 or not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise typer.BadParameter(f"Expected I,J,K, got '{words}'.", param_hint="--domain")
    i, j, k = map(int, sizes)
    return i, j, k


def _ranges(words: _Words) -> dict[str, tuple[float, float]]:
    ranges: dict[str, tuple[float, float]] = {}
    for name, bounds in pairs("--range", words).items():
        low, _, high = bounds.partition(":")
        try:
            ranges[name] = float(low), float(high)
        except ValueError:
            raise typer.BadParameter(
                f"Expected FIELD=LOW:HIGH, got '{name}={bounds}'.", param_hint="--range"
            ) from None
    return ranges


def _lines(report: Timing) -> Iterator[str]:
    """Yield the lines of the printed report."""
    size = " x ".join(map(str, report.domain))
    yield f"{report.name} on {report.target} ({report.device}), {size} points"
    for name, kind in report.arrays.items():
        yield f"  {name:28} {kind}"
    yield f"{'a call':30} {_time(report.seconds)}"
    bounds: dict[str, Any] = dict(report.bounds)
    memory = bounds.pop("memory")
    moved = f"{report.work.bytes / 1e6:.1f} MB at {report.rates.copy / 1e9:.1f} GB/s, as a copy"
    yield f"{'memory':30} {_time(memory)}  {moved}"
    for (words, seconds), (kind, number) in zip(bounds.items(), report.operations, strict=True):
        rate = report.rates.operations[kind]
        yield f"{words:30} {_time(seconds)}  {number / 1e6:.1f} M at {rate / 1e9:.2f} G/s"
    yield f"{'share of copy':30} {report.share_of_copy:10.2f}"
    yield f"{'share of the attainable':30} {report.share_of_attainable:10.2f}"
    yield f"{'limited by':30} {report.limiter}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:10.3f} ms"
