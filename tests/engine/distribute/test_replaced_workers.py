"""Workers that end are replaced, however long their successors take to start."""

from __future__ import annotations

import os
import signal
from typing import Any, cast

from dask import config as dask_config
from deadlines import until

from halocline_engine.distribute.executors.dask import start


def test_a_worker_is_replaced_that_was_given_up_long_ago() -> None:
    """Each time: its successor is not there yet when Dask would close what starts it."""
    config = cast("Any", dask_config)
    with config.set({"distributed.deploy.lost-worker-timeout": "10ms"}), start(1, "cpu") as pool:
        client: Any = pool.client
        for _ in range(2):
            ((address, process),) = client.run(os.getpid).items()
            os.kill(process, signal.SIGKILL)

            def replaced(address: str = address) -> bool:
                there = client.scheduler_info(n_workers=-1)["workers"]
                return bool(there) and address not in there

            until(replaced)
