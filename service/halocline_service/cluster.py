"""The scheduler and the workers of a machine, as processes that a supervisor starts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from halocline_service import machine
from halocline_service.identity import Identity
from halocline_service.settings import Settings
from halocline_service.supervisor import Child

__all__ = ["Cluster", "dispatcher_memory"]

_LEAST_DISPATCHER = 2 * 2**30


@dataclass(frozen=True, slots=True)
class Cluster:
    """Address of the scheduler, and the credentials by which its processes know each other."""

    scheduler: str
    identity: Identity
    settings: Settings

    def scheduler_child(self) -> Child:
        """Give the scheduler's process."""
        return Child(
            "The scheduler",
            machine.scheduler_command(*machine.host_and_port(self.scheduler)),
            environment=machine.cluster_environment(self.identity),
            memory=self.settings.process_memory_bytes,
        )

    def answers(self) -> bool:
        """Say whether the scheduler answers, and trusts us."""
        return machine.answers(*machine.host_and_port(self.scheduler), self.identity)

    def workers(
        self, names: Sequence[str], gpus: Sequence[int | None], host: str | None = None
    ) -> Iterator[Child]:
        """Give one worker for each name, with its GPU or without one.

        They listen on one address: `host`, or that by which this machine reaches the scheduler.
        """
        beside = len(names)
        memory = self.settings.worker_memory_bytes or machine.worker_memory(beside)
        threads = max(1, machine.cores() // beside)
        host = host or machine.address_towards(machine.host_and_port(self.scheduler)[0])
        cluster = machine.cluster_environment(self.identity)
        folder = self._folder()
        for name, gpu in zip(names, gpus, strict=True):
            yield Child(
                f"Worker {name}",
                machine.worker_command(
                    self.scheduler,
                    memory=memory,
                    jobs=self.settings.concurrency,
                    folder=folder,
                    gpu=gpu is not None,
                    host=host,
                ),
                rank=1,
                environment=machine.worker_environment(cluster, gpu=gpu, threads=threads),
                memory=memory,
                bounded=gpu is None,  # drivers of devices map more than they take
                vital=False,
                gives_signs=True,
            )

    def _folder(self) -> Path:
        """Give where workers put what does not fit into memory: a folder of this user alone."""
        if self.settings.data_dir.is_dir() and os.access(self.settings.data_dir, os.W_OK):
            return self.settings.data_dir.resolve() / "workers"
        return Path(tempfile.mkdtemp(prefix="halocline-workers-"))


def dispatcher_memory(settings: Settings) -> int:
    """Give the bytes at which the dispatcher is ended."""
    return settings.dispatcher_memory_bytes or max(_LEAST_DISPATCHER, machine.memory() // 4)
