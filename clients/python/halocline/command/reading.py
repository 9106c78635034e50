"""Commands that list, show, await, download and delete jobs and uploads."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from halocline.client import Client
from halocline.command.base import (
    Identity,
    Json,
    Limit,
    Quiet,
    Url,
    app,
    find_job,
    finish,
    finish_and_print,
    print_job,
    resolve_output,
    show_resume_command,
    uploads,
)
from halocline.command.render import render_event, render_jobs, render_uploads
from halocline.inputs.identities import one_of

__all__ = ()

_OUTPUT = "result.zarr"


@app.command("ls")
def list_jobs(
    limit: Limit = 20,
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Only jobs in this state.")
    ] = None,
    process: Annotated[
        list[str] | None, typer.Option("--process", help="Only jobs of this process.")
    ] = None,
    job_name: Annotated[
        str | None, typer.Option(help="Only jobs whose name contains this.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="Only jobs with this label.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only jobs created since: 2026-01-31, '2 days'.")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the newest jobs."""
    filters = {"status": status, "process": process, "job_name": job_name}
    filters |= {"labels": label, "since": since}
    with Client(url) as client:
        documents = client.documents(limit, **filters)
    typer.echo(json.dumps(documents, indent=2) if as_json else render_jobs(documents), nl=as_json)


@app.command()
def show(
    identity: Identity,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Draw the order of the blocks.")
    ] = False,
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Print the inputs, as a job file in JSON.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show the state of a job, its inputs, or the order of its blocks."""
    with Client(url) as client:
        job = find_job(client, identity)
        if inputs:
            typer.echo(json.dumps({"process": job.process, "inputs": job.inputs}, indent=2))
        elif not schedule:
            print_job(job, as_json)
        elif as_json:
            typer.echo(json.dumps(job.plan()))
        else:
            typer.echo(job.picture(), nl=False)


@app.command()
def cancel(identity: Identity, url: Url = None, as_json: Json = False) -> None:
    """Cancel a waiting or running job. A finished job is not changed."""
    with Client(url) as client:
        job = find_job(client, identity)
        status = job.cancel()
        typer.echo(json.dumps({"jobID": job.id, "status": status}) if as_json else status)


@app.command("rm")
def remove(identity: Identity, url: Url = None, as_json: Json = False) -> None:
    """Delete a job and its result. An unfinished job is cancelled first."""
    with Client(url) as client:
        job = find_job(client, identity)
        job.remove()
        typer.echo(json.dumps({"jobID": job.id, "removed": True}) if as_json else job.id)


@app.command()
def logs(
    identity: Identity,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue until the job has ended.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Print the log of a job."""
    with Client(url) as client:
        job = find_job(client, identity)
        if follow or as_json:
            with show_resume_command(job):
                for event in job.events():
                    whole = {"id": event.id, "kind": event.kind, **event.data}
                    typer.echo(json.dumps(whole) if as_json else render_event(event))
        else:
            typer.echo(job.log(), nl=False)


@app.command()
def datasets(limit: Limit = 1000, url: Url = None, as_json: Json = False) -> None:
    """List the datasets that the service has, by the names that jobs take."""
    with Client(url) as client:
        names = client.datasets(limit)
    text = "\n".join(names) or "The service has no datasets of its own."
    typer.echo(json.dumps(names, indent=2) if as_json else text)


@uploads.command("ls")
def list_uploads(
    limit: Limit = 100,
    url: Url = None,
    as_json: Json = False,
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
        typer.Argument(metavar="ID...", help="Ids of uploads, or their beginning or end."),
    ],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Delete uploads. Inputs of unfinished jobs are kept."""
    with Client(url) as client:
        known = [str(document["id"]) for document in client.uploads.list()]
        for given in identities:
            identity = one_of(given.removeprefix("upload:"), known)
            client.uploads.remove(identity)
            typer.echo(json.dumps({"id": identity, "removed": True}) if as_json else identity)


@app.command("open")
def open_result(identity: Identity, url: Url = None, as_json: Json = False) -> None:
    """Print the address of the result of a job, and how to open it."""
    with Client(url) as client:
        job = find_job(client, identity)
        address = job.result_url()
    if as_json:
        typer.echo(json.dumps({"jobID": job.id, "href": address}))
        return
    typer.echo(
        f"{address}\n\n"
        "    import halocline\n"
        f'    dataset = halocline.Client("{job.url}").job("{job.id}").result()\n'
    )


@app.command()
def wait(identity: Identity, quiet: Quiet = False, url: Url = None, as_json: Json = False) -> None:
    """Wait for the end of a job."""
    with Client(url) as client:
        job = find_job(client, identity)
        finish(job, None, show=not (quiet or as_json))
        print_job(job, as_json)


@app.command()
def download(
    identity: Identity,
    output: Annotated[
        str | None,
        typer.Argument(help="Path of the new Zarr store, or '.nc' file.", show_default=_OUTPUT),
    ] = None,
    quiet: Quiet = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Wait for a job, and download its result as a Zarr store or a NetCDF file."""
    path = resolve_output(output, _OUTPUT)
    assert path is not None, "there is a default"
    with Client(url) as client:
        job = find_job(client, identity)
        finish_and_print(job, path, quiet=quiet, as_json=as_json)
