"""A connection to a service, its jobs and uploads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, Unpack, cast
from urllib.parse import quote

import httpx2

from halocline.config import load
from halocline.connection import Connection
from halocline.errors import ArgumentError, NotFoundError
from halocline.inputs.arguments import by_name, limited, text
from halocline.inputs.filters import asked_jobs
from halocline.inputs.identities import WHOLE_ID, one_of
from halocline.inputs.stages import each_input
from halocline.job import Job
from halocline.processes.documentation import documented
from halocline.processes.many import Outcome, run_all
from halocline.processes.methods import Methods
from halocline.processes.parameters import JobArguments
from halocline.processes.reductions import Reductions
from halocline.processes.solves import Solves
from halocline.processes.stencils import Stencils
from halocline.processes.submitting import asked
from halocline.processes.transfers import Transfers
from halocline.transfer.submission import execute
from halocline.transfer.uploads import Uploads, sendable, upload
from halocline_engine.signatures import with_answers

__all__ = ["Client"]

_IDS = "'client.jobs()' lists yours; 'job.id' is the whole id."


@with_answers
class Client(Methods, Stencils, Solves, Transfers, Reductions):
    """A connection to one service.

    Use it in a `with` block, or call `close`; its jobs need it as long as they are used.

    Parameters
    ----------
    url : str, optional
        Address of the service; by default `HALOCLINE_URL`, otherwise that of the settings file
        `~/.config/halocline/config.toml`, otherwise http://127.0.0.1:8000.
    key : str, optional
        API key; by default `HALOCLINE_KEY`, otherwise that of the settings file.
    transport : httpx2.BaseTransport, optional
        Replaces the network, for tests.

    Raises
    ------
    ConnectionFailed
        The service does not answer (raised by methods).

    Examples
    --------
    >>> import halocline as hc
    >>> with hc.Client("http://127.0.0.1:8000") as client:
    ...     client.url
    'http://127.0.0.1:8000'

    """

    _written = "client"

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(load(url, key), transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<halocline.Client of {self.url}>"

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._connection.settings.url

    def close(self) -> None:
        """Close the connections; jobs continue."""
        self._connection.close()

    @documented(JobArguments)
    def submit(
        self,
        process: str,
        inputs: Mapping[str, Any],
        **given: Unpack[JobArguments],
    ) -> Job:
        """Submit any process of the service by its inputs.

        Parameters
        ----------
        process : str
            Name of the process, as `GET /processes` lists it.
        inputs : mapping of str to object
            Inputs as the process describes them, as JSON. The datasets ('dataset', 'factors',
            'mesh', 'weights') may be given as in `stencil`, and are uploaded whole.
        %(job)s

        Examples
        --------
        >>> names = {"left": "left", "right": "right", "dim": "k"}
        >>> client.submit("matmul", {"dataset": dataset, **names}).wait()
        'successful'

        """
        sent = each_input(by_name("inputs", inputs), self._referred)
        _, how = asked(self.submit, given)
        made = execute(self._connection, text("process", process), sent, how)
        return Job(self._connection, str(made["jobID"]))

    def execute(self, process: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Start a process of the service with inputs as JSON.

        Parameters
        ----------
        process : str
            Name of the process.
        inputs : mapping of str to object
            Inputs as the process describes them.

        Returns
        -------
        dict
            First status document of the job (OGC API Processes `statusInfo`).

        """
        given = by_name("inputs", inputs)
        return execute(self._connection, text("process", process), given)

    def map(
        self,
        submit: Callable[[Any], Job],
        datasets: Iterable[Any],
        *,
        at_once: int = 4,
    ) -> Iterator[Outcome]:
        """Run one job for each dataset, some at a time, and yield their outcomes in order.

        Parameters
        ----------
        submit : callable
            Submits the job of a dataset, such as ``lambda sea: client.stencil(program, sea)``.
        datasets : iterable
            Arguments of `submit`, taken one by one as jobs end.
        at_once : int, default: 4
            Maximum number of unfinished jobs.

        Yields
        ------
        Outcome
            Job and error of a dataset; a failure does not end the others.

        Examples
        --------
        >>> outcomes = client.map(lambda u: client.stencil(program, u), [dataset, "no.nc"])
        >>> [type(outcome.error).__name__ for outcome in outcomes]
        ['NoneType', 'DatasetError']

        """
        return run_all(submit, datasets, limited("at_once", at_once))

    def upload(self, dataset: Any) -> str:
        """Upload a dataset; the service keeps it until it is removed.

        Parameters
        ----------
        dataset : xarray.Dataset
            Dataset to upload; data that the service already has are not sent again.

        Returns
        -------
        str
            Reference 'upload:...', for any process.

        Examples
        --------
        >>> reference = client.upload(dataset)
        >>> client.gather(reference, source="cells", index="at", dim="cell").wait()
        'successful'
        >>> client.uploads.remove(reference)

        """
        return upload(self._connection, sendable("dataset", dataset), (), keep=True)

    def datasets(self, limit: int = 1000) -> list[str]:
        """Return the names of the datasets that the service has.

        Parameters
        ----------
        limit : int, default: 1000
            Number of names, up to 1000.

        Returns
        -------
        list of str
            Names below the folders that the operator of the service has chosen, as jobs take them.

        Examples
        --------
        >>> client.datasets()
        []

        """
        answer = self._connection.get(
            "/datasets", needs=("datasets",), limit=limited("limit", limit)
        )
        return cast("list[str]", answer["datasets"])

    @property
    def uploads(self) -> Uploads:
        """Uploads of the service: `uploads.list()`, `uploads.remove(reference)`."""
        return Uploads(self._connection)

    def job(self, identity: str) -> Job:
        """Return a job by its id.

        Parameters
        ----------
        identity : str
            Id of the job. The beginning or end of an id suffices for the newest jobs, as in the
            progress bar.

        Returns
        -------
        Job
            The job.

        Raises
        ------
        NotFoundError
            The job does not exist.
        ArgumentError
            The id is empty.

        """
        if not text("identity", identity):
            raise ArgumentError("The id of a job must be text, got ''.", hint=_IDS)
        if len(identity) < WHOLE_ID:
            known = [str(document["jobID"]) for document in self.documents()]
            identity = one_of(identity, known)
        job = Job(self._connection, quote(identity, safe=""))
        try:
            job.document()
        except NotFoundError as error:
            if error.problem.get("code") == "no-such-job":  # not an error of another server
                error.hint = _IDS
            raise
        return job

    def jobs(
        self,
        limit: int = 100,
        *,
        status: str | Sequence[str] | None = None,
        process: str | Sequence[str] | None = None,
        job_name: str | None = None,
        labels: Sequence[str] = (),
        since: str | datetime | None = None,
    ) -> list[Job]:
        """Return the newest jobs, newest first.

        Parameters
        ----------
        limit : int, default: 100
            Number of jobs, up to 1000.
        status : str or sequence of str, optional
            Only jobs in these states, such as 'running'.
        process : str or sequence of str, optional
            Only jobs of these processes, such as 'stencil'.
        job_name : str, optional
            Only jobs whose name contains this text.
        labels : sequence of str, optional
            Only jobs that have all these labels.
        since : str or datetime, optional
            Only jobs submitted since then, such as '2026-01-31' or '2 days'.

        Returns
        -------
        list of Job
            The jobs.

        """
        wanted = {"status": status, "process": process, "job_name": job_name}
        documents = self.documents(limit, **wanted, labels=labels, since=since)
        return [Job(self._connection, str(document["jobID"])) for document in documents]

    def documents(self, limit: int = 100, **filters: Any) -> list[dict[str, Any]]:
        """Return the status documents of the newest jobs, newest first.

        Parameters
        ----------
        limit : int, default: 100
            Number of jobs, up to 1000.
        **filters : str or sequence of str
            Filters, as for `jobs`.

        Returns
        -------
        list of dict
            The documents (OGC API Processes `statusInfo`).

        """
        query = asked_jobs(limited("limit", limit), filters)
        answer = self._connection.get("/jobs", needs=("jobs",), **query)
        return cast("list[dict[str, Any]]", answer["jobs"])
