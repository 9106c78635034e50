"""Submission of a process, for methods that name variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from halocline.connection import Connection
from halocline.inputs.arguments import plain, text
from halocline.job import Job
from halocline.transfer.submission import PLAINLY, How, execute
from halocline.transfer.uploads import DatasetLike, reference

__all__ = ["Submitting"]


class Submitting:
    """What the methods of all processes need."""

    _connection: Connection

    def _submit(
        self,
        process: str,
        dataset: DatasetLike,
        variables: Mapping[str, str],
        others: Mapping[str, Any],
        chunks: Mapping[str, int] | None,
        needed: Iterable[str] = (),
        *,
        how: How = PLAINLY,
    ) -> Job:
        """Submit a process whose inputs name variables; `needed` are others to upload."""
        inputs = plain({**variables, **others, "chunks": chunks})
        needs = [*(text(name, value) for name, value in variables.items()), *needed]
        refer = partial(reference, self._connection, dataset, needs, complete=True)
        inputs["dataset"] = refer
        document = execute(self._connection, process, inputs, how)
        return Job(self._connection, str(document["jobID"]))
