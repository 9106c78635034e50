"""The `halocline` command.

Every command takes `--url` and `--json`; the key comes from HALOCLINE_KEY or the settings file, so
that it stands in no list of processes. The exit status is 0 when all went well, 2 for a wrong
command line, 3 when the program or the request contains an error, 4 when the job failed or was
dismissed, 5 when the service does not answer or has no room now, 130 after Ctrl-C, and 1 for
everything else.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer

from halocline.command import bench, reading, sending
from halocline.command.base import app
from halocline.command.render import render_error
from halocline.command.unknown import refuse
from halocline.errors import (
    ArgumentError,
    BusyError,
    CancelledError,
    ConnectionFailed,
    HaloclineError,
    JobFailed,
    ProgramError,
    RequestError,
)
from halocline_engine.interface.absent import Door, way_out
from halocline_engine.interface.habits import hint_of_argument
from halocline_engine.interface.words import Interface, in_words_of

__all__ = ["COMMANDS", "main"]

#: Modules whose commands are known once they are imported.
COMMANDS = (sending, reading, bench)


def _say_version(asked: bool) -> None:
    if asked:
        version = importlib.import_module("importlib.metadata").version("halocline")
        typer.echo(f"halocline {version}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    """Submit jobs to a Halocline service and download results."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave with its exit status; errors go to standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)

    def run() -> None:
        _refuse_absent(words, as_json="--json" in words)
        _check_words(words)
        app(words, prog_name="halocline")

    sys.exit(_guarded(run, "--json" in words))


def _refuse_absent(words: Sequence[str], *, as_json: bool) -> None:
    """End for an option that other interfaces have, or that has another name now."""
    for word in words:
        option, _, text = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        hint = way_out(Door.COMMAND, name) or hint_of_argument(name, text or True, ["boundary"])
        if option.startswith("--") and hint:
            hint = in_words_of(Interface.COMMAND, hint)
            error = ArgumentError(f"There is no option '{option}'.", hint=hint)
            refuse(error, as_json=as_json)


def _check_words(words: Sequence[str]) -> None:
    """Raise where an option is given several words, of which it takes one."""
    option = ""
    for before, word in pairwise(words):
        option = before if before.startswith("--") else option
        if "=" in before and "=" in word and not (before + word).startswith("-"):
            raise ArgumentError(
                f"'{word}' belongs to no option: '{option}' takes one word.",
                hint=f"Write {option} {before} {option} {word}.",
            )


def _guarded(command: Callable[[], Any], as_json: bool) -> int:
    try:
        command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except HaloclineError as error:
        typer.echo(render_error(error, as_json), err=True)
        return _exit_status(error)
    except KeyboardInterrupt:
        return 130
    return 0


def _exit_status(error: HaloclineError) -> int:
    match error:
        case ProgramError() | RequestError():
            return 3
        case JobFailed() | CancelledError():
            return 4
        case ConnectionFailed() | BusyError():
            return 5
        case _:
            return 1
