"""Common parts of all commands: the application, its words, and jobs by a part of their ids."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from halocline.client import Client
from halocline.command.render import render_job
from halocline.command.unknown import Commands
from halocline.config import DEFAULT_URL
from halocline.downloads import checked_output
from halocline.errors import NotFoundError, OutputError
from halocline.job import Job

__all__ = [
    "Identity",
    "Json",
    "Limit",
    "Quiet",
    "Url",
    "app",
    "finish",
    "finish_at",
    "found",
    "output_at",
    "print_job",
    "resumable",
    "uploads",
]

app = typer.Typer(
    cls=Commands,
    help="Submit jobs to a Halocline service and download results.",
    no_args_is_help=True,
    rich_markup_mode=None,  # Typer's panels show a flag as '--flag <bool>'
    pretty_exceptions_enable=False,
)

uploads = typer.Typer(
    cls=Commands,
    help="List and delete uploaded datasets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(uploads, name="uploads")

Url = Annotated[str | None, typer.Option(help="Address of the service.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Identity = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the job, or its beginning or end.")
]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number, newest first.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


def output_at(output: str | Path | None, default: str = "") -> Path | None:
    """Return where a result goes, which may be by default.

    Raises OutputError before anything is sent if it could not be written in the end.
    """
    if output is not None:
        return checked_output(output)
    if not default:
        return None
    if Path(default).exists():
        raise OutputError(
            f"The result '{default}' exists already.",
            hint="Choose another place with --output, or remove it.",
        )
    return checked_output(default)


def finish(job: Job, output: Path | None, *, show: bool) -> None:
    """Wait for a job; copy its result, or only raise where there is none."""
    progress = None if show else False
    with resumable(job, output):
        if output:
            job.download(output, progress=progress)
        else:
            job.result_url(progress=progress)


def finish_at(job: Job, output: Path, *, quiet: bool, as_json: bool) -> None:
    """Wait for a job, copy its result, and print where it is."""
    finish(job, output, show=not (quiet or as_json))
    if as_json:
        print_job(job, as_json)
    else:
        typer.echo(str(output))


@contextmanager
def resumable(job: Job, output: Path | None = None) -> Generator[None]:
    """Say after an interrupt which command goes on where this one has ended."""
    try:
        yield
    except KeyboardInterrupt:
        again = f"download {job.id} {output}" if output else f"wait {job.id}"
        where = "" if job.url == DEFAULT_URL else f" --url {job.url}"
        typer.echo(f"\nThe job goes on; so does this command: halocline {again}{where}", err=True)
        raise


def found(client: Client, identity: str) -> Job:
    """Return the job whose id begins or ends with a text."""
    try:
        return client.job(identity)
    except NotFoundError as error:
        if error.problem.get("code") == "no-such-job":  # and not of some other server
            error.hint = "'halocline ls' lists yours; the end of an id is enough."
        raise


def print_job(job: Job, as_json: bool, *, short: bool = False) -> None:
    """Print a job's state, or its id only."""
    if short and not as_json:
        typer.echo(job.id)
    else:
        document = job.document()
        text = json.dumps(document, indent=2) if as_json else render_job(document)
        typer.echo(text, nl=as_json)
