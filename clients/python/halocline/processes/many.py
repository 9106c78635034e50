"""One job for each of many datasets, a few at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from halocline.errors import ArgumentError, HaloclineError
from halocline.job import Job

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Outcome", "run_all"]


@dataclass(frozen=True)
class Outcome:
    """Outcome of the job of one dataset.

    Attributes
    ----------
    job : Job or None
        The job; None if it was not accepted.
    error : Exception or None
        Reason for a missing result: an error of Halocline, or of the caller's function.

    """

    job: Job | None
    error: Exception | None

    def result(self) -> xr.Dataset:
        """Open the result, or raise the error.

        Returns
        -------
        xarray.Dataset
            The result, whose values are read over HTTP when they are used.

        """
        if self.error is not None:
            raise self.error
        assert self.job is not None
        return self.job.result(progress=False)


def run_all(
    submit: Callable[[Any], Job], datasets: Iterable[Any], at_once: int
) -> Iterator[Outcome]:
    """Check the arguments, and return the outcomes in the order of the datasets."""
    if not callable(submit):
        raise ArgumentError(
            f"Argument 'submit' must be a function of a dataset, got '{type(submit).__name__}'.",
            hint="Write for example lambda sea: client.stencil(program, sea).",
        )
    if not hasattr(datasets, "__iter__") or isinstance(datasets, str):
        raise ArgumentError(
            f"Argument 'datasets' must be iterable, got '{type(datasets).__name__}'.",
            hint="Write for example [first, second].",
        )
    return _outcomes(submit, datasets, at_once)


def _outcomes(
    submit: Callable[[Any], Job], datasets: Iterable[Any], at_once: int
) -> Iterator[Outcome]:
    """Yield the outcomes; a dataset is taken from the iterable when its job is submitted."""
    waiting: deque[Future[Outcome]] = deque()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for dataset in datasets:
                waiting.append(pool.submit(_outcome, submit, dataset))
                while len(waiting) >= at_once:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _outcome(submit: Callable[[Any], Job], dataset: Any) -> Outcome:
    try:
        job = cast("object", submit(dataset))
    except Exception as error:  # of any type, as the other jobs continue
        return Outcome(None, error)
    if not isinstance(job, Job):
        message = f"Argument 'submit' must return a Job, got '{type(job).__name__}'."
        hint = "Return the job, such as that of client.stencil(program, dataset)."
        return Outcome(None, ArgumentError(message, hint=hint))
    try:
        job.result_url()
    except HaloclineError as error:
        return Outcome(job, error)
    return Outcome(job, None)
