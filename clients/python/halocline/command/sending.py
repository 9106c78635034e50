"""Commands that submit jobs and datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from halocline.client import Client
from halocline.command.base import (
    Identity,
    Json,
    Quiet,
    Url,
    app,
    find_job,
    finish,
    finish_and_print,
    print_job,
    resolve_output,
)
from halocline.command.inputs import read_inputs
from halocline.command.jobfile import is_job_file, read_job_file
from halocline.command.options import Given, with_stencil_options
from halocline.errors import ProgramError
from halocline.inputs.changes import changed
from halocline.job import Job
from halocline.transfer.uploads import opened_files
from halocline_engine.language.python.sources import with_place

__all__ = ()

_Program = Annotated[
    str,
    typer.Argument(
        help="A '.py' file with a stencil, a job file ('.toml', '.yaml', '.json'), or a '.json' "
        "file with the inputs of --process."
    ),
]
_Process = Annotated[
    str | None,
    typer.Option(help="Another process, such as 'column', with its inputs in the '.json' file."),
]
_Dataset = Annotated[
    str | None,
    typer.Argument(
        help="A local file or Zarr store, several as 'data_*.nc' in quotes, or upload:ID, job:ID,"
        " file:PATH. A file with inputs may name it instead."
    ),
]
_OUTPUT = "result.zarr"


@app.command()
@with_stencil_options
def submit(
    program: _Program,
    dataset: _Dataset = None,
    process: _Process = None,
    *,
    given: Given,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the job.")] = False,
    output: Annotated[
        str | None,
        typer.Option(help="Wait, and write the result to this new Zarr store or '.nc' file."),
    ] = None,
    quiet: Quiet = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Submit a job and print its id. With --wait or --output, wait for its end."""
    place = resolve_output(output)
    with Client(url) as client:
        job, _ = _submit(client, program, dataset, process, given)
        if wait or place:
            finish(job, place, show=not (quiet or as_json))
        print_job(job, as_json, short=not (wait or place))


@app.command()
@with_stencil_options
def run(
    program: _Program,
    dataset: _Dataset = None,
    process: _Process = None,
    *,
    given: Given,
    output: Annotated[
        str | None,
        typer.Option(help="Path of the new Zarr store, or '.nc' file.", show_default=_OUTPUT),
    ] = None,
    quiet: Quiet = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Submit a job, wait for it, and download its result as a Zarr store or a NetCDF file."""
    written = read_job_file(Path(program)).output if is_job_file(program, process) else None
    place = resolve_output(output or written, _OUTPUT)
    assert place is not None, "there is a default"
    with Client(url) as client:
        job, _ = _submit(client, program, dataset, process, given)
        finish_and_print(job, place, quiet=quiet, as_json=as_json)


@app.command()
@with_stencil_options
def plan(
    program: _Program,
    dataset: _Dataset = None,
    process: _Process = None,
    *,
    given: Given,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Print the plan of a job without running it: halo, blocks, memory and bytes."""
    with Client(url) as client:
        job, _ = _submit(client, program, dataset, process, given, dry_run=True)
        made = job.plan()
        job.remove()
    typer.echo(json.dumps(made, indent=2) if as_json else str(made))


@app.command()
@with_stencil_options
def clone(identity: Identity, *, given: Given, url: Url = None, as_json: Json = False) -> None:
    """Submit a job again with changed inputs, and print its id."""
    with Client(url) as client:
        called = {"job_name": given.job_name, "labels": given.labels or None}
        job = find_job(client, identity).clone(**called, **given.inputs)
        print_job(job, as_json, short=True)


@app.command()
def upload(
    dataset: Annotated[
        str, typer.Argument(help="A local file or Zarr store, or several as 'data_*.nc' in quotes.")
    ],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Upload a dataset, to be kept until it is deleted, and print its reference."""
    with Client(url) as client, opened_files(dataset) as opened:
        reference = client.upload(opened)
    typer.echo(json.dumps({"reference": reference}) if as_json else reference)


def _submit(
    client: Client,
    program: str,
    dataset: str | None,
    process: str | None,
    given: Given,
    *,
    dry_run: bool = False,
) -> tuple[Job, Path | None]:
    """Submit a program, a job file, or a file of inputs, with the options of the command."""
    called: dict[str, Any] = {"dry_run": dry_run}
    if is_job_file(program, process):
        written = read_job_file(Path(program), dataset)
        inputs = changed(written.inputs, given.inputs)
        called |= {
            "job_name": given.job_name or written.job_name,
            "labels": given.labels or written.labels,
        }
        try:
            return client.submit(written.process, inputs, **called), written.output
        except ProgramError as error:
            raise (with_place(error, written.source) if written.source else error) from None
    called |= {"job_name": given.job_name, "labels": given.labels}
    if process is not None:
        if given.inputs:
            raise typer.BadParameter(
                "Options of a stencil cannot be combined with it; write the inputs into the file.",
                param_hint="--process",
            )
        return client.submit(process, read_inputs(Path(program), dataset), **called), None
    if Path(dataset or "").suffix == ".py" and Path(program).suffix != ".py":
        raise typer.BadParameter(
            f"The program comes first, then the dataset: {dataset} {program}.", param_hint="PROGRAM"
        )
    if dataset is None:
        raise typer.BadParameter("A stencil needs one.", param_hint="DATASET")
    return client.stencil(program, dataset, **given.inputs, **called), None
