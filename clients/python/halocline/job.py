"""Jobs of the service: state, events, plan and result."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from halocline.config import load
from halocline.connection import Connection
from halocline.downloads import check_output, download
from halocline.errors import (
    ArgumentError,
    CancelledError,
    HaloclineError,
    JobFailed,
    ProgramError,
    from_problem,
)
from halocline.events import ENDED, Event, Status, follow
from halocline.inputs.arguments import place, seconds, text
from halocline.inputs.changes import DATASETS, changed
from halocline.inputs.program import program_source
from halocline.plan import Plan
from halocline.progress import check_progress, display_of
from halocline.transfer.submission import How, execute
from halocline.transfer.uploads import Reference
from halocline_engine.language.python.sources import Source, with_place
from halocline_engine.signatures import documents, with_answers

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Job"]

_PLAN = "plan"  # the process of dry runs


@with_answers
class _KnownJob:
    """A job by its id, with its current state in the service."""

    def __init__(self, connection: Connection, identity: str, source: Source | None = None) -> None:
        self._connection = connection
        self._id = identity
        self._source = source

    def __repr__(self) -> str:
        return f"<halocline.Job {self.id} at {self.url}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _KnownJob) and (other.id, other.url) == (self.id, self.url)

    def __hash__(self) -> int:
        return hash((self.id, self.url))

    @property
    def id(self) -> str:
        """Id of the job."""
        return self._id

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._connection.settings.url

    @property
    def process(self) -> str:
        """Name of the process, such as 'stencil'; for a dry run, of the planned job."""
        return self._process_and_inputs()[0]

    @property
    def inputs(self) -> dict[str, Any]:
        """Inputs of the job as JSON; for a dry run, of the planned job."""
        return self._process_and_inputs()[1]

    @property
    def name(self) -> str | None:
        """Name of the job, as given by `job_name`."""
        return self.document().get("job_name")

    @property
    def labels(self) -> list[str]:
        """Labels of the job."""
        return list(self.document().get("labels") or ())

    def _process_and_inputs(self) -> tuple[str, dict[str, Any]]:
        """Return the process and the inputs of the job, or of the planned job."""
        document = self._connection.get(f"/jobs/{self.id}/inputs", needs=("processID", "inputs"))
        inputs = cast("dict[str, Any]", document["inputs"])
        if document["processID"] == _PLAN:
            return str(inputs["process"]), cast("dict[str, Any]", inputs["inputs"])
        return str(document["processID"]), inputs

    @property
    def status(self) -> Status:
        """Current state: accepted, running, successful, failed or dismissed."""
        return cast("Status", self.document()["status"])

    @property
    def progress(self) -> float:
        """Fraction that is done, from 0 to 1."""
        return float(self.document().get("progress") or 0) / 100

    def document(self) -> dict[str, Any]:
        """Return the job's status document (OGC API Processes `statusInfo`)."""
        return self._connection.get(f"/jobs/{self.id}", needs=("jobID", "status"))

    def log(self) -> str:
        """Return the log of the job, one line per event."""
        return self._connection.text(f"/jobs/{self.id}/log")

    def picture(self) -> str:
        """Return a drawing of the order of blocks as text, once the job is planned.

        The drawing as SVG is at `/jobs/{id}/plan.svg` of the service.
        """
        return self._connection.text(f"/jobs/{self.id}/plan.txt")

    def _reason(self) -> HaloclineError:
        """Return the error of a failed job, with the place in the caller's file if known."""
        problem = self.document().get("exception")
        if not isinstance(problem, dict):
            problem = {"detail": self.document().get("message") or "The reason is unknown."}
        error = from_problem(cast("dict[str, object]", problem))
        if isinstance(error, ProgramError) and self._source:
            return with_place(error, self._source)
        return error

    def _raise_without_result(self, status: str) -> None:
        if status == "failed":
            error = self._reason()
            raise JobFailed(self.id, error) from error
        if status == "dismissed":
            raise CancelledError(
                f"Job '{self.id}' was dismissed and has no result.",
                hint="Submit it again with 'job.clone()'.",
            )

    def _resume_hint(self) -> str:
        return (
            f"\nJob {self.id} continues. Return to it with "
            f"halocline.Client('{self.url}').job('{self.id}').result(), "
            f"or cancel it with: halocline cancel {self.id}"
        )

    def _repr_html_(self) -> str:
        document = self.document()
        done = float(document.get("progress") or 0)
        rows = {
            "job": f"<code>{html.escape(self.id)}</code>",
            "process": html.escape(str(document.get("processID", ""))),
            "state": html.escape(f"{document['status']} {document.get('message') or ''}".strip()),
            "progress": f'<progress max="100" value="{done:g}"></progress> {done:g} %',
            "created": html.escape(_time(document.get("created"))),
            "service": html.escape(self.url),
        }
        cells = "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in rows.items())
        return f'<table class="halocline-job">{cells}</table>'


_ENDED = """
Raises
------
JobFailed
    The job failed; `error` is the reason.
CancelledError
    The job was dismissed.
WaitTimeout
    The timeout expired; the job continues.
"""


@with_answers
class Job(_KnownJob):
    """A job that the service has accepted; it runs whether or not a client waits for it.

    A pickled Job holds the address and the id. When it is loaded, the key is taken from the
    environment or the settings file.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return (_attach, (self.url, self.id))

    def clone(
        self,
        *,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] | None = None,
        **changes: Any,
    ) -> Job:
        """Submit the job again, with changed inputs; for a dry run, submit the planned job.

        Parameters
        ----------
        dry_run : bool, default: False
            Whether to plan the new job only.
        job_name : str, optional
            Name of the new job; by default that of this job.
        labels : sequence of str, optional
            Labels of the new job; by default those of this job.
        **changes : object
            Inputs by name, as for the client's method. Mappings are merged: only the given names
            change. None removes an input.

        Returns
        -------
        Job
            The new job, without waiting for its end.

        Raises
        ------
        ProgramError, RequestError
            The new job is invalid.

        Examples
        --------
        >>> job = client.matmul(dataset, left="left", right="right", dim="k")
        >>> list(job.clone(name="matrix").result().data_vars)
        ['matrix']

        """
        process, inputs = self._process_and_inputs()
        source = program_source(changes["program"]) if "program" in changes else self._source
        document = self.document()
        how = How(
            dry_run,
            document.get("job_name") if job_name is None else job_name,
            (document.get("labels") or ()) if labels is None else labels,
        )
        sent = changed(inputs, changes)
        for name in DATASETS & changes.keys():
            sent[name] = Reference(self._connection, changes[name])
        try:
            made = execute(self._connection, process, sent, how)
        except ProgramError as error:
            raise (with_place(error, source) if source else error) from None
        return Job(self._connection, str(made["jobID"]), source)

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """Yield the events of the job, from the first one until it has ended.

        Lost connections are reopened.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait; by default without end.

        Yields
        ------
        Event
            What happened.

        Raises
        ------
        WaitTimeout
            The timeout expired; the job continues.

        """
        return self.events_after("", timeout)

    def events_after(self, last: str, timeout: float | None = None) -> Iterator[Event]:
        """Yield the events after a given one, until the job has ended; see `events`.

        Parameters
        ----------
        last : str
            Id of the given event; empty for all events.
        timeout : float, optional
            Seconds to wait; by default without end.

        Yields
        ------
        Event
            What happened.

        """
        limit = seconds("timeout", timeout)
        return follow(self._connection, self.id, limit, text("last", last))

    def wait(self, timeout: float | None = None, *, progress: bool | None = False) -> Status:
        """Wait until the job has ended.

        An interrupt (Ctrl-C) leaves the job running, and prints how to return to it.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait; by default without end.
        progress : bool or None, default: False
            Whether to show a progress bar; None shows it in a terminal or a notebook.

        Returns
        -------
        str
            'successful', 'failed' or 'dismissed'.

        Raises
        ------
        WaitTimeout
            The timeout expired; the job continues.

        """
        try:
            with display_of(self.id, progress) as display:
                for event in self.events(timeout):
                    display(event)
        except KeyboardInterrupt:
            print(self._resume_hint(), file=sys.stderr)  # noqa: T201 - for the user at once
            raise
        return self.status

    @documents({"raises": _ENDED})
    def result(self, timeout: float | None = None, *, progress: bool | None = None) -> xr.Dataset:
        """Wait, and open the result; values are read over HTTP when they are used.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait; by default without end.
        progress : bool, optional
            Whether to show a progress bar; by default in a terminal or a notebook.

        Returns
        -------
        xarray.Dataset
            The result.

        %(raises)s

        Examples
        --------
        >>> job = client.matmul(dataset, left="left", right="right", dim="k")
        >>> float(job.result()["product"].max())
        43.0

        """
        from halocline.transfer.store import open_store

        address = self.result_url(timeout, progress=progress)
        return open_store(self._connection.settings, address)

    @documents({"raises": _ENDED})
    def download(
        self, path: str | Path, timeout: float | None = None, *, progress: bool | None = None
    ) -> Path:
        """Wait, and download the result as a NetCDF file or a Zarr store.

        The path is checked before waiting. The service writes the NetCDF file.

        Parameters
        ----------
        path : str or path
            Path of the new NetCDF file if it ends in '.nc', otherwise of a Zarr store.
        timeout : float, optional
            Seconds to wait; by default without end.
        progress : bool, optional
            Whether to show a progress bar; by default in a terminal or a notebook.

        Returns
        -------
        pathlib.Path
            The file or the folder.

        %(raises)s
        OutputError
            The path exists, or the result cannot be written there.

        """
        place("path", path)
        output = check_output(path)
        url = self.result_url(timeout, progress=progress)
        return download(self._connection, url, output)

    @documents({"raises": _ENDED})
    def result_url(self, timeout: float | None = None, *, progress: bool | None = False) -> str:
        """Wait, and return the address of the Zarr store of the result.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait; by default without end.
        progress : bool or None, default: False
            Whether to show a progress bar; None shows it in a terminal or a notebook.

        Returns
        -------
        str
            The address.

        %(raises)s

        """
        seconds("timeout", timeout)
        check_progress(progress)
        if (status := self.status) not in ENDED:
            status = self.wait(timeout, progress=progress)
        self._raise_without_result(status)
        document = self._connection.get(f"/jobs/{self.id}/results")
        if "result" not in document:
            raise ArgumentError(
                f"The result of job '{self.id}' is no dataset, but {', '.join(document)}.",
                hint="For a dry run, 'plan()' returns the plan, and 'clone()' submits the job.",
            )
        return str(document["result"]["href"])

    def cancel(self) -> Status:
        """Dismiss the job, unless it has ended.

        Returns
        -------
        str
            State of the job afterwards.

        """
        if (status := self.status) in ENDED:
            return status
        self._connection.send("DELETE", f"/jobs/{self.id}", params={"ended": "keep"})
        return self.status

    def remove(self) -> None:
        """Dismiss the job if it has not ended, and delete it and its result from the service."""
        self.cancel()
        self._connection.send("DELETE", f"/jobs/{self.id}")

    def plan(self, timeout: float | None = None) -> Plan:
        """Return the plan of the job; for a dry run, wait for it.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for a dry run; by default without end.

        Returns
        -------
        Plan
            The plan, a dictionary with its main numbers as attributes.

        Raises
        ------
        NotFoundError
            The job has not been planned yet.
        JobFailed
            The dry run failed; `error` is the reason.
        WaitTimeout
            The timeout expired.

        Examples
        --------
        >>> dry = client.stencil(program, dataset, target="reference", dry_run=True)
        >>> dry.plan().halo, dry.plan().result_bytes
        ({'x': (1, 1)}, 32)

        """
        limit = seconds("timeout", timeout)
        document = self.document()
        if document.get("processID") == _PLAN:
            status = document["status"]
            if status not in ENDED:
                status = self.wait(limit)
            self._raise_without_result(status)
        return Plan(self._connection.get(f"/jobs/{self.id}/plan"))


def _time(stamp: object) -> str:
    """Return a time stamp of the service in local time."""
    if not isinstance(stamp, str):
        return ""
    return datetime.fromisoformat(stamp).astimezone().isoformat(" ", "seconds")


def _attach(url: str, identity: str) -> Job:
    """Return an unpickled Job."""
    return Job(Connection(load(url)), identity)
