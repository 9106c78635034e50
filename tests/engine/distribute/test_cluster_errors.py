"""What becomes of errors that tasks of a cluster end with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from distributed import CancelledError
from distributed.comm.core import CommClosedError

from halocline_engine.distribute.cluster import ClusterPool
from halocline_engine.errors import DeviceError


class Failing:
    """A future whose task failed."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def result(self) -> object:
        raise self.error


def pool(error: BaseException) -> Any:
    """Return a pool of one worker, on which everything fails."""
    worker: dict[str, Any] = {"nthreads": 1, "resources": {}, "host": "here", "metrics": {}}
    info: dict[str, Any] = {"workers": {"tcp://here:1": worker}}

    def submit(*_: object, **__: object) -> Failing:
        return Failing(error)

    def scheduler_info(*_: object, **__: object) -> dict[str, Any]:
        return info

    return ClusterPool(SimpleNamespace(submit=submit, scheduler_info=scheduler_info))


@pytest.mark.parametrize("lost", [CommClosedError("gone"), CancelledError("k"), TimeoutError()])
def test_a_lost_cluster_is_said(lost: Exception) -> None:
    with pytest.raises(DeviceError) as caught:
        pool(lost)._ask(int)
    assert str(caught.value) == (
        f"The cluster was lost during the run: {type(lost).__name__}: {lost}. Start it again, and"
        " run the job with the same workspace."
    )


def test_an_error_of_the_work_stays_what_it_is() -> None:
    with pytest.raises(ZeroDivisionError, match="of the work"):
        pool(ZeroDivisionError("of the work"))._ask(int)
