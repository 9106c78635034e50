"""Protection of datasets in use, as a job would read deleted chunks as fill values."""

from __future__ import annotations

from halocline_service.api.problems import ProblemError
from halocline_service.api.requests.context import Context
from halocline_service.jobs.job import Job
from halocline_service.jobs.states import FINAL, State
from halocline_service.processes.base import ReadingInputs
from halocline_service.store.base import JobQuery, Page

__all__ = ["refuse_in_use"]

_UNFINISHED = tuple(state for state in State if state not in FINAL)


def refuse_in_use(here: Context, reference: str, *, owner: str) -> None:
    """Raise `ProblemError` (409) if an unfinished job of the owner reads a dataset.

    A job that is stored at the same time fails, as the dataset is gone.
    """
    page = Page(limit=here.settings.queue_per_owner)
    query = JobQuery(owner=owner, states=_UNFINISHED, page=page)
    for each in here.store.jobs.list(query):
        job = here.store.jobs.get(each.id, owner=owner)  # one request at a time: they may be large
        if job is not None and reference in _read(here, job):
            raise ProblemError(
                "in-use",
                f"'{reference}' cannot be deleted: job '{job.id}' reads it.",
                hint="Wait for the job to end, or dismiss it with DELETE /jobs/{id}.",
            )


def _read(here: Context, job: Job) -> list[str]:
    inputs = here.processes[job.process].inputs
    if not issubclass(inputs, ReadingInputs):
        return []
    return list(inputs.references_in(job.request["inputs"]).values())
