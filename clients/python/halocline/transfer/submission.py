"""Submission of jobs, after the upload of their local datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from halocline.connection import Connection
from halocline.errors import DatasetError, TooLargeError, from_problem
from halocline.inputs.arguments import flag, names, text
from halocline.inputs.stages import each_input
from halocline.transfer.uploads import Reference, is_reference, nowhere

__all__ = ["PLAINLY", "How", "execute"]

_TRIES = 5


@dataclass(frozen=True)
class How:
    """Options of a submission: plan only, name and labels.

    Raises ArgumentError if an option has the wrong type.
    """

    dry_run: bool = False
    job_name: str | None = None
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        flag("dry_run", self.dry_run)
        if self.job_name is not None:
            text("job_name", self.job_name)
        names("labels", self.labels)

    def body(self, process: str, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the process to execute, and the body of the request."""
        called: dict[str, Any] = {} if self.job_name is None else {"job_name": self.job_name}
        if labels := list(self.labels):
            called["labels"] = labels
        if not self.dry_run:
            return process, {"inputs": inputs, **called}
        return "plan", {"inputs": {"process": process, "inputs": inputs}, **called}


#: Run the job, without a name.
PLAINLY = How()


def execute(
    connection: Connection, process: str, inputs: Mapping[str, Any], how: How = PLAINLY
) -> dict[str, Any]:
    """Start a process and return its first status document; inputs may be a `Reference`.

    Before local datasets are uploaded, the service checks the request with their outlines. An
    upload is deleted with the last job that reads it. If this happens just before the new job is
    submitted, the dataset is uploaded again.
    """
    try:
        _check(connection, process, inputs)
        return _executed(connection, process, inputs, how)
    except DatasetError as error:
        lacking = str(error.problem.get("missing", ""))
        if _is_path(lacking, inputs):
            raise nowhere(lacking, error) from None
        raise


def _is_path(name: str, inputs: Mapping[str, Any]) -> bool:
    """Return whether a name is a dataset of the inputs that was looked for on this machine."""
    paths: list[str] = []

    def note(_: str, value: Any) -> None:
        if isinstance(value, Reference) and value.is_named(name) and not is_reference(name):
            paths.append(name)

    each_input(inputs, note)
    return bool(paths)


def _executed(
    connection: Connection, process: str, inputs: Mapping[str, Any], how: How
) -> dict[str, Any]:
    """Send the datasets that are here, and the request."""
    headers = {"Prefer": "respond-async"}
    for left in reversed(range(_TRIES)):
        own: list[str] = []
        sent = each_input(inputs, partial(_sent, own))
        asked, body = how.body(process, sent)
        path = f"/processes/{quote(asked, safe='')}/execution"
        try:
            return connection.post(path, body, headers, needs=("jobID", "status"))
        except DatasetError as error:
            gone = str(error.problem.get("missing", ""))
            if left == 0 or gone not in own or not is_reference(gone):
                raise
    raise AssertionError("unreachable")


def _check(connection: Connection, process: str, inputs: Mapping[str, Any]) -> None:
    """Raise the errors that the service finds before datasets are uploaded."""
    outlines: dict[str, Any] = {}
    inner: list[Reference] = []

    def described(name: str, value: Any) -> Any:
        if not isinstance(value, Reference):
            return value
        outline = value.outline()
        if outline is None:
            return value()
        if inputs.get(name) is value:
            outlines[name] = outline
        else:
            inner.append(value)
        return None

    plain = each_input(inputs, described)
    if inner or not outlines:
        return  # the request is checked at submission, after datasets of stages are uploaded
    left = {name: value for name, value in plain.items() if name not in outlines}
    body = {"inputs": left, "datasets": outlines}
    path = f"/processes/{quote(process, safe='')}/check"
    try:
        answer = connection.post(path, body, needs=("valid",))
    except TooLargeError:
        return  # too many variables for an outline: checked at submission
    if problem := answer.get("problem"):
        raise from_problem(cast("Mapping[str, object]", problem))


def _sent(own: list[str], _: str, value: Any) -> Any:
    """Return an input; upload a dataset, and return its reference, also appended to `own`."""
    if not isinstance(value, Reference):
        return value
    own.append(value())
    return own[-1]
