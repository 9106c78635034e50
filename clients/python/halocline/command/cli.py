"""The `halocline` command.

Every command takes `--url` and `--json`; the key comes from HALOCLINE_KEY or the settings file, so
that it stands in no list of processes. The exit status is 0 when all went well, 2 for a wrong
command line, 3 when the program or the request contains an error, 4 when the job failed or was
dismissed, 5 when the service does not answer or has no room now, 130 after Ctrl-C, and 1 for
everything else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from halocline.client import Client
from halocline.command.inputs import read_inputs
from halocline.command.options import boundaries, join, numbers, pairs, precision
from halocline.command.render import render_error, render_job, render_jobs, render_uploads
from halocline.errors import (
    BusyError,
    CancelledError,
    ConnectionFailed,
    HaloclineError,
    JobFailed,
    OutputError,
    ProgramError,
    RequestError,
)
from halocline.job import Job

__all__ = ["app", "main", "uploads"]

app = typer.Typer(
    help="Send jobs to a Halocline service and fetch what it computes.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # Typer's panels show a flag as '--flag <bool>'
    pretty_exceptions_enable=False,
)

uploads = typer.Typer(
    help="List and delete the datasets that were sent.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(uploads, name="uploads")

_SHORTEST, _WHOLE = 4, 36  # letters of an id

_Url = Annotated[str | None, typer.Option(help="Address of the service.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs to read.")]
_Identity = Annotated[
    str, typer.Argument(metavar="ID", help="The job's id, or how it begins or ends.")
]
_Program = Annotated[str, typer.Argument(help="A '.py' file with a stencil.")]
_What = Annotated[
    str, typer.Argument(help="A '.py' file with a stencil, or '.json' with a process's inputs.")
]
_Process = Annotated[
    str | None,
    typer.Option(help="Another process, such as 'column'; its inputs are in the '.json' file."),
]
_Given = Annotated[
    str | None,
    typer.Argument(
        help="A local file or Zarr store, or upload:ID, job:ID, file:PATH; with --process it may"
        " stand in the file."
    ),
]
_Dataset = Annotated[
    str, typer.Argument(help="A local file or Zarr store, or upload:ID, job:ID, file:PATH.")
]
_Name = Annotated[str | None, typer.Option(help="The stencil, if the file has several.")]
_Fields = Annotated[list[str] | None, typer.Option("--field", help="PARAMETER=VARIABLE")]
_Scalars = Annotated[list[str] | None, typer.Option("--scalar", help="PARAMETER=NUMBER")]
_Externals = Annotated[list[str] | None, typer.Option("--external", help="NAME=NUMBER")]
_Dtypes = Annotated[list[str] | None, typer.Option("--dtype", help="NAME=TYPE")]
_Precision = Annotated[
    list[str] | None,
    typer.Option("--literal-precision", help="32 or 64 bits of the program's numbers, or int=64."),
]
_Axes = Annotated[list[str] | None, typer.Option("--axes", help="I=x,J=y,K=z")]
_Boundaries = Annotated[
    list[str] | None,
    typer.Option(
        "--boundary",
        help="DIM=KIND or DIM.low=KIND: periodic, edge, reflect, extrapolate, none or a number.",
    ),
]
_Steps = Annotated[int, typer.Option(min=1, help="How many times the program runs.")]
_Feedback = Annotated[
    list[str] | None, typer.Option("--feedback", help="OUTPUT=INPUT from one step to the next.")
]
_Target = Annotated[str, typer.Option(help="auto, cuda, cpu or reference")]
_Mode = Annotated[str, typer.Option(help="auto or streamed")]
_Chunks = Annotated[list[str] | None, typer.Option("--chunk", help="DIM=SIZE of a block.")]
_Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


@app.command()
def submit(
    program: _What,
    dataset: _Given = None,
    process: _Process = None,
    name: _Name = None,
    field: _Fields = None,
    scalar: _Scalars = None,
    external: _Externals = None,
    dtype: _Dtypes = None,
    literal_precision: _Precision = None,
    axes: _Axes = None,
    boundary: _Boundaries = None,
    steps: _Steps = 1,
    feedback: _Feedback = None,
    target: _Target = "auto",
    mode: _Mode = "auto",
    chunk: _Chunks = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the job has ended.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="Wait, and copy the result to this new Zarr store.")
    ] = None,
    quiet: _Quiet = False,
    url: _Url = None,
    as_json: _Json = False,
) -> None:
    """Submit a job and print its id; with --wait or --output, see it through.

    With --process it is one of any process, and all its inputs are in a file of JSON.
    """
    options = _options(name, field, scalar, external, dtype, axes, boundary, feedback, chunk)
    options |= {"literal_precision": precision("--literal-precision", literal_precision)}
    given = bool([value for value in options.values() if value])
    plain = not given and (steps, target, mode) == (1, "auto", "auto")
    options |= {"steps": steps, "target": target, "mode": mode}
    _refuse_existing(output)
    with Client(url) as client:
        if process is not None:
            inputs = _inputs(Path(program), dataset, plain=plain)
            job = client.submit(process, inputs)
        elif dataset is None:
            raise typer.BadParameter("A stencil needs one.", param_hint="DATASET")
        else:
            job = client.stencil(program, dataset, **options)
        if wait or output:
            _finish(job, output, show=not (quiet or as_json))
        _print_job(job, as_json, short=not (wait or output))


@app.command()
def run(
    program: _Program,
    dataset: _Dataset,
    output: Annotated[Path, typer.Option(help="The new Zarr store for the result.")] = Path(
        "result.zarr"
    ),
    name: _Name = None,
    field: _Fields = None,
    scalar: _Scalars = None,
    external: _Externals = None,
    dtype: _Dtypes = None,
    literal_precision: _Precision = None,
    axes: _Axes = None,
    boundary: _Boundaries = None,
    steps: _Steps = 1,
    feedback: _Feedback = None,
    target: _Target = "auto",
    mode: _Mode = "auto",
    chunk: _Chunks = None,
    quiet: _Quiet = False,
    url: _Url = None,
    as_json: _Json = False,
) -> None:
    """Submit a job, wait for it, and copy its result to a local Zarr store."""
    options = _options(name, field, scalar, external, dtype, axes, boundary, feedback, chunk)
    options |= {"literal_precision": precision("--literal-precision", literal_precision)}
    options |= {"steps": steps, "target": target, "mode": mode}
    _refuse_existing(output)
    with Client(url) as client:
        job = client.stencil(program, dataset, **options)
        _finish(job, output, show=not (quiet or as_json))
        if as_json:
            _print_job(job, as_json)
        else:
            typer.echo(str(output))


@app.command("ls")
def list_jobs(
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 20,
    url: _Url = None,
    as_json: _Json = False,
) -> None:
    """List the newest jobs."""
    with Client(url) as client:
        documents = client.documents(limit)
    typer.echo(json.dumps(documents, indent=2) if as_json else render_jobs(documents), nl=as_json)


@app.command()
def show(
    identity: _Identity,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Draw in which order blocks are computed.")
    ] = False,
    url: _Url = None,
    as_json: _Json = False,
) -> None:
    """Show a job's state, or the order of its work."""
    with Client(url) as client:
        job = _found(client, identity)
        if not schedule:
            _print_job(job, as_json)
        elif as_json:
            typer.echo(json.dumps(job.plan()))
        else:
            typer.echo(job.picture(), nl=False)


@app.command()
def cancel(identity: _Identity, url: _Url = None, as_json: _Json = False) -> None:
    """Dismiss a job that waits or runs; one that has ended is left as it is."""
    with Client(url) as client:
        job = _found(client, identity)
        status = job.cancel()
        typer.echo(json.dumps({"jobID": job.id, "status": status}) if as_json else status)


@app.command("rm")
def remove(identity: _Identity, url: _Url = None, as_json: _Json = False) -> None:
    """Remove a job with its result, dismissing it first if it has not ended."""
    with Client(url) as client:
        job = _found(client, identity)
        job.remove()
        typer.echo(json.dumps({"jobID": job.id, "removed": True}) if as_json else job.id)


@app.command()
def logs(
    identity: _Identity,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until it has ended.")] = False,
    url: _Url = None,
    as_json: _Json = False,
) -> None:
    """Print what a job has told so far."""
    with Client(url) as client:
        job = _found(client, identity)
        if follow or as_json:
            for event in job.events():
                typer.echo(json.dumps({"id": event.id, "kind": event.kind, **event.data}))
        else:
            typer.echo(job.log(), nl=False)


@uploads.command("ls")
def list_uploads(
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 100,
    url: _Url = None,
    as_json: _Json = False,
) -> None:
    """List the newest uploads."""
    with Client(url) as client:
        documents = client.uploads.list(limit)
    text = json.dumps(documents, indent=2) if as_json else render_uploads(documents)
    typer.echo(text, nl=as_json)


@uploads.command("rm")
def remove_uploads(
    identities: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="The uploads' ids, or how they begin or end."),
    ],
    url: _Url = None,
    as_json: _Json = False,
) -> None:
    """Delete uploads; one that a job reads that has not ended is kept."""
    with Client(url) as client:
        known = [str(document["id"]) for document in client.uploads.list()]
        for given in identities:
            identity = _whole(given.removeprefix("upload:"), known)
            client.uploads.remove(identity)
            typer.echo(json.dumps({"id": identity, "removed": True}) if as_json else identity)


@app.command("open")
def open_result(identity: _Identity, url: _Url = None, as_json: _Json = False) -> None:
    """Print where a finished job's result is, and how to open it."""
    with Client(url) as client:
        job = _found(client, identity)
        address = job.result_url()
    if as_json:
        typer.echo(json.dumps({"jobID": job.id, "href": address}))
        return
    typer.echo(
        f"{address}\n\n"
        "    import halocline\n"
        f'    dataset = halocline.Client("{job.url}").job("{job.id}").result()\n'
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave with its exit status; errors go to standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_guarded(lambda: app(words, prog_name="halocline"), "--json" in words))


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


def _options(
    name: str | None,
    field: list[str] | None,
    scalar: list[str] | None,
    external: list[str] | None,
    dtype: list[str] | None,
    axes: list[str] | None,
    boundary: list[str] | None,
    feedback: list[str] | None,
    chunk: list[str] | None,
) -> dict[str, Any]:
    """Turn what stands on the command line into the arguments of `Client.stencil`."""
    return {
        "name": name,
        "fields": pairs("--field", field),
        "scalars": numbers("--scalar", scalar),
        "externals": numbers("--external", external),
        "dtypes": pairs("--dtype", dtype),
        "axes": pairs("--axes", join(axes)),
        "boundary": boundaries("--boundary", join(boundary)),
        "feedback": pairs("--feedback", feedback),
        "chunks": numbers("--chunk", join(chunk)),
    }


def _inputs(path: Path, dataset: str | None, *, plain: bool) -> dict[str, Any]:
    """Return the inputs of any process; options that are a stencil's belong into the file."""
    if not plain:
        raise typer.BadParameter(
            "The options of a stencil do not go with it; write its inputs into the file.",
            param_hint="--process",
        )
    return read_inputs(path, dataset)


def _refuse_existing(output: Path | None) -> None:
    """Raise before anything is sent if the result could not be written in the end."""
    if output and output.exists():
        raise OutputError(
            f"There is already something at '{output}'.", hint="Name a folder that does not exist."
        )


def _finish(job: Job, output: Path | None, *, show: bool) -> None:
    """Wait for a job; copy its result, or only raise where there is none."""
    if output:
        job.download(output, progress=show)
    else:
        job.result_url(progress=show)


def _found(client: Client, identity: str) -> Job:
    """Return the job whose id begins or ends with a text; a whole id is asked for as it is.

    Ids begin with the time, so it is their ends that tell jobs of one minute apart.
    """
    is_part = len(identity) < _WHOLE
    return client.job(_whole(identity, [job.id for job in client.jobs()] if is_part else []))


def _whole(part: str, known: Sequence[str]) -> str:
    """Return the only known id that begins or ends with a text, or the text itself."""
    size = len(part)
    found = [each for each in known if part in (each[:size], each[-size:])]
    return found[0] if _SHORTEST <= size < _WHOLE and len(found) == 1 else part


def _print_job(job: Job, as_json: bool, *, short: bool = False) -> None:
    if short and not as_json:
        typer.echo(job.id)
    else:
        document = job.document()
        text = json.dumps(document, indent=2) if as_json else render_job(document)
        typer.echo(text, nl=as_json)
