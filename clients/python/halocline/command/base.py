"""Common parts of all commands: the application, its options, and jobs by part of their ids."""

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
from halocline.downloads import check_output
from halocline.errors import NotFoundError, OutputError
from halocline.job import Job

__all__ = [
    "Identity",
    "Json",
    "Limit",
    "Quiet",
    "Url",
    "app",
    "find_job",
    "finish",
    "finish_and_print",
    "print_job",
    "resolve_output",
    "show_resume_command",
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


def resolve_output(output: str | Path | None, default: str = "") -> Path | None:
    """Return the path of the result: `output`, or else `default` if there is one.

    Raises OutputError, before anything is sent, if the result cannot be written there.
    """
    if output is not None:
        return check_output(output)
    if not default:
        return None
    if Path(default).exists():
        raise OutputError(
            f"The result '{default}' exists already.",
            hint="Choose another path with --output, or remove it.",
        )
    return check_output(default)


def finish(job: Job, output: Path | None, *, show: bool) -> None:
    """Wait for a job, and download its result if there is a path; raise if the job fails."""
    progress = None if show else False
    with show_resume_command(job, output):
        if output:
            job.download(output, progress=progress)
        else:
            job.result_url(progress=progress)


def finish_and_print(job: Job, output: Path, *, quiet: bool, as_json: bool) -> None:
    """Wait for a job, download its result, and print the path."""
    finish(job, output, show=not (quiet or as_json))
    if as_json:
        print_job(job, as_json)
    else:
        typer.echo(str(output))


@contextmanager
def show_resume_command(job: Job, output: Path | None = None) -> Generator[None]:
    """Print the command that continues after an interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        again = f"download {job.id} {output}" if output else f"wait {job.id}"
        where = "" if job.url == DEFAULT_URL else f" --url {job.url}"
        typer.echo(f"\nThe job continues. Resume with: halocline {again}{where}", err=True)
        raise


def find_job(client: Client, identity: str) -> Job:
    """Return the job with an id, or with its beginning or end."""
    try:
        return client.job(identity)
    except NotFoundError as error:
        if error.problem.get("code") == "no-such-job":  # not an error of another server
            error.hint = "'halocline ls' lists your jobs; the end of an id is enough."
        raise


def print_job(job: Job, as_json: bool, *, short: bool = False) -> None:
    """Print the state of a job, or its id only."""
    if short and not as_json:
        typer.echo(job.id)
    else:
        document = job.document()
        text = json.dumps(document, indent=2) if as_json else render_job(document)
        typer.echo(text, nl=as_json)
