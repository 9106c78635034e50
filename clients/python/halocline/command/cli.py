"""The `halocline` command.

Every command takes `--url` and `--json`. The key comes from HALOCLINE_KEY or the settings file, so
that it is not visible in lists of processes. The exit status is 0 for success, 2 for an invalid
command line, 3 for an error in the program or the request, 4 if the job failed or was dismissed, 5
if the service does not answer or is busy, 130 after Ctrl-C, and 1 for any other error.
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

#: Modules that define commands; importing them adds these to the application.
COMMANDS = (sending, reading, bench)


def _print_version(asked: bool) -> None:
    if asked:
        version = importlib.import_module("importlib.metadata").version("halocline")
        typer.echo(f"halocline {version}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Submit jobs to a Halocline service and download results."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its status; errors go to standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)

    def run() -> None:
        _refuse_absent(words, as_json="--json" in words)
        _check_words(words)
        app(words, prog_name="halocline")

    sys.exit(_run_guarded(run, "--json" in words))


def _refuse_absent(words: Sequence[str], *, as_json: bool) -> None:
    """Exit with status 2 for an option of another interface, or an option that was renamed."""
    for word in words:
        option, _, text = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        hint = way_out(Door.COMMAND, name) or hint_of_argument(name, text or True, ["boundary"])
        if option.startswith("--") and hint:
            hint = in_words_of(Interface.COMMAND, hint)
            error = ArgumentError(f"There is no option '{option}'.", hint=hint)
            refuse(error, as_json=as_json)


def _check_words(words: Sequence[str]) -> None:
    """Raise ArgumentError if an option that takes one value is given several."""
    option = ""
    for before, word in pairwise(words):
        option = before if before.startswith("--") else option
        if "=" in before and "=" in word and not (before + word).startswith("-"):
            raise ArgumentError(
                f"'{word}' belongs to no option: '{option}' takes one value.",
                hint=f"Repeat the option: {option} {before} {option} {word}.",
            )


def _run_guarded(command: Callable[[], Any], as_json: bool) -> int:
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
