"""A user sees in a running job that a worker gets nothing done."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import Mock

from tests.service.test_dispatcher import claimed

from halocline_engine.distribute.tasks.events import Checkpointed, WorkerStalled
from halocline_service.dispatcher.lease_keeper import LeaseKeeper

if TYPE_CHECKING:
    from tests.service.conftest import Running


def test_a_job_says_that_its_worker_is_silent_and_keeps_its_progress(idle: Running) -> None:
    job = claimed(idle, "sst.zarr")
    silent = "Worker 'tls://a:1' has sent no heartbeat for 10 s: it is busy or stopped."
    with LeaseKeeper(idle.store.jobs, job, idle.settings, check_room=Mock()) as keeper:
        keeper.tell(Checkpointed(2, 4, 0.1))
        keeper.tell(WorkerStalled("tls://a:1", "silent", 10.0, silent))
        told = idle.client.get(f"/jobs/{job.id}").json()
        assert (told["message"], told["progress"]) == (f"Computing, 50% done. {silent}", 50)
        keeper.tell(Checkpointed(3, 4, 0.1))
        assert idle.client.get(f"/jobs/{job.id}").json()["message"] == "Computing, 75% done."
    (event,) = [each for each in idle.store.jobs.events(job.id) if each.kind == "worker-stalled"]
    assert event.data["state"] == "silent"
    assert event.data["worker"] == "tls://a:1"
