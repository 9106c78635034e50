"""Base class of the methods that submit processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from halocline.connection import Connection
from halocline.inputs.arguments import plain, text
from halocline.inputs.changes import DATASETS
from halocline.inputs.stages import each_input
from halocline.job import Job
from halocline.processes.parameters import JobArguments
from halocline.transfer.submission import How, execute
from halocline.transfer.uploads import DatasetLike, Reference
from halocline_engine.signatures import complete

__all__ = ["Submitting", "asked"]


def asked(method: Callable[..., Job], given: Mapping[str, Any]) -> tuple[dict[str, Any], How]:
    """Split the ``**given`` arguments of a method into inputs and options of the submission."""
    inputs = {**complete(method, given)}
    return inputs, How(**{name: inputs.pop(name) for name in JobArguments.__annotations__})


class Submitting:
    """Base class of the methods of all processes."""

    _connection: Connection

    def _submit(
        self,
        method: Callable[..., Job],
        dataset: DatasetLike,
        given: Mapping[str, Any],
        variables: Iterable[str] = (),
        needed: Iterable[str] = (),
        **others: Any,
    ) -> Job:
        """Submit the process of a method with its ``**given`` arguments and other inputs.

        The dataset is uploaded with the variables named by the inputs `variables`, and `needed`.
        """
        inputs, how = asked(method, given)
        needs = [*(text(name, inputs[name]) for name in variables), *needed]
        sent = each_input(plain(inputs | others), self._referred)
        sent["dataset"] = Reference(self._connection, dataset, needs, complete=True)
        document = execute(self._connection, method.__name__, sent, how)
        return Job(self._connection, str(document["jobID"]))

    def _referred(self, name: str, value: Any) -> Any:
        """Return an input, with a dataset wrapped in a `Reference`."""
        return Reference(self._connection, value) if name in DATASETS else value
