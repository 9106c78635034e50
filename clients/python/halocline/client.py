"""The door to the service for Python."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

import httpx2
import numpy as np

from halocline.config import load
from halocline.connection import Connection
from halocline.errors import ArgumentError, ProgramError
from halocline.job import Job
from halocline.sources import ProgramLike, parameters, program_source, with_place
from halocline.uploads import DatasetLike, reference, upload

__all__ = ["Boundary", "Client", "Number"]

Number: TypeAlias = "bool | int | float | np.number[Any] | np.bool_"
Boundary: TypeAlias = str | Mapping[str, Any]


class Client:
    """A conversation with one service.

    `url` and `key` are taken from the arguments, else from `HALOCLINE_URL` and `HALOCLINE_KEY`,
    else from `~/.config/halocline/config.toml`. `transport` replaces the network, for tests. Use it
    in a `with` block or call `close`; Jobs made by it end with it.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(load(url, key), transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<halocline.Client of {self.url}>"

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._connection.settings.url

    def close(self) -> None:
        """Let go of the connections; jobs go on."""
        self._connection.close()

    def stencil(
        self,
        program: ProgramLike,
        dataset: DatasetLike,
        *,
        fields: Mapping[str, str] | None = None,
        scalars: Mapping[str, Number] | None = None,
        externals: Mapping[str, Number] | None = None,
        dtypes: Mapping[str, Any] | None = None,
        name: str | None = None,
        axes: Mapping[str, str] | None = None,
        boundary: Mapping[str, Boundary] | None = None,
        steps: int = 1,
        feedback: Mapping[str, str] | None = None,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit a stencil program on a dataset and return its Job at once.

        `program` is text, a `.py` file, or a Python function, which is sent as its source text
        with the constants, types and functions that it refers to. `name` says which stencil is
        meant where the text holds several.

        `dataset` is an xarray object, which is uploaded; a Job, whose result is taken; a reference
        (`upload:...`, `job:...`, `file:...`); or a path, which is opened here and uploaded if it
        exists here, and otherwise sent for the service to find below its own roots. Where the
        program's parameters show it, only the variables that it needs are uploaded.

        `fields` maps parameters to variables (default: the same name), `scalars` gives scalar
        parameters, `externals` compile-time values, `dtypes` types by name, `axes` maps I, J and K
        to dimensions, `boundary` says per dimension what lies beyond its ends, `feedback` which
        output becomes which input in the next of `steps` steps.

        Raises a ProgramError or a RequestError if the service refuses the job at once.
        """
        source = program_source(program)
        name = name or source.name
        wanted = [(fields or {}).get(p, p) for p in parameters(source, name)]
        options: dict[str, Any] = {
            "fields": dict(fields) if fields else None,
            "scalars": _numbers("scalars", scalars),
            "externals": _externals(externals),
            "dtypes": {k: _dtype(v) for k, v in dtypes.items()} if dtypes else None,
            "name": name,
            "axes": dict(axes) if axes else None,
            "boundary": dict(boundary) if boundary else None,
            "feedback": dict(feedback) if feedback else None,
            "chunks": dict(chunks) if chunks else None,
        }
        inputs = {k: v for k, v in options.items() if v is not None}
        inputs |= {"program": source.text, "steps": steps, "target": target, "mode": mode}
        inputs["dataset"] = reference(self._connection, dataset, wanted)
        try:
            document = self.execute("stencil", inputs)
        except ProgramError as error:
            raise with_place(error, source) from None
        return Job(self._connection, str(document["jobID"]), source)

    def execute(self, process: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Start a process of the service with inputs as JSON; return its first status document."""
        body = {"inputs": dict(inputs)}
        headers = {"Prefer": "respond-async"}
        answer = self._connection.post(f"/processes/{process}/execution", body, headers)
        return cast("dict[str, Any]", answer)

    def upload(self, dataset: Any) -> str:
        """Upload an xarray Dataset and return `upload:<id>`, to be used by several jobs."""
        return upload(self._connection, dataset, ())

    def job(self, identity: str) -> Job:
        """Return the job with this id; raise NotFoundError if there is none."""
        job = Job(self._connection, identity)
        job.document()
        return job

    def jobs(self, limit: int = 100) -> list[Job]:
        """Return the newest jobs, the newest first."""
        return [Job(self._connection, str(d["jobID"])) for d in self.documents(limit)]

    def documents(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return the status documents of the newest jobs, the newest first."""
        answer = self._connection.get("/jobs", limit=limit)
        return cast("list[dict[str, Any]]", answer["jobs"])


def _numbers(
    argument: str, values: Mapping[str, Any] | None
) -> dict[str, bool | int | float] | None:
    """Turn NumPy numbers into Python's; raise ArgumentError for what is no number."""
    plain: dict[str, bool | int | float] = {}
    for key, value in (values or {}).items():
        number = cast("Any", value).item() if isinstance(value, np.generic) else value
        if not isinstance(number, bool | int | float):
            raise ArgumentError(
                f"The value of '{key}' in '{argument}' must be a number, got "
                f"'{type(cast('object', value)).__name__}'."
            )
        plain[key] = number
    return plain or None


def _externals(values: Mapping[str, Any] | None) -> dict[str, bool | int | float] | None:
    """Like `_numbers`, but refuse numbers whose type would be lost and change the program."""
    for key, value in (values or {}).items():
        kind = str(cast("Any", value).dtype) if isinstance(value, np.generic) else "float64"
        if kind not in ("bool", "int64", "float64"):
            raise ArgumentError(
                f"The value of '{key}' in 'externals' is '{kind}', a type that JSON "
                "does not carry.",
                hint="Write it as a constant in the program, such as 'HALF = np.float32(0.5)'.",
            )
    return _numbers("externals", values)


def _dtype(value: Any) -> str:
    """Return a type's NumPy name."""
    try:
        return cast("Any", np.dtype(value)).name
    except TypeError as error:
        raise ArgumentError(f"'{value}' in 'dtypes' is not the type of a number.") from error
