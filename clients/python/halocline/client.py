"""The door to the service for Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

import httpx2
import numpy as np

from halocline.arguments import by_name, names, plain, text
from halocline.config import load
from halocline.connection import Connection
from halocline.errors import ProgramError
from halocline.job import Job
from halocline.program import program_source, with_place
from halocline.transfer.submission import execute
from halocline.transfer.uploads import DatasetLike, Uploads, reference, upload
from halocline_engine.language.python.sources import ProgramLike, parameters

__all__ = ["Boundary", "Client", "Number"]

Number: TypeAlias = "bool | int | float | np.number[Any] | np.bool_"
Boundary: TypeAlias = str | Mapping[str, Any]

#: Inputs of any process that name datasets.
_DATASETS = ("dataset", "factors", "mesh", "weights")


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
        order: str | None = None,
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
        output becomes which input in the next of `steps` steps, `order` which block comes next.

        Raises a ProgramError or a RequestError if the service refuses the job at once.
        """
        source = program_source(program)
        name = name or source.name
        options: dict[str, Any] = {"fields": fields, "scalars": scalars, "externals": externals}
        options |= {"dtypes": dtypes, "name": name, "axes": axes, "boundary": boundary}
        options |= {"feedback": feedback, "chunks": chunks, "order": order}
        options |= {"steps": steps, "target": target, "mode": mode}
        inputs = plain(options) | {"program": source.text}
        renamed = by_name("fields", fields)
        wanted = [renamed.get(p, p) for p in parameters(source, name)]
        inputs["dataset"] = partial(reference, self._connection, dataset, wanted)
        try:
            document = self.execute("stencil", inputs)
        except ProgramError as error:
            raise with_place(error, source) from None
        return Job(self._connection, str(document["jobID"]), source)

    def column(
        self,
        expression: str,
        dataset: DatasetLike,
        *,
        fields: Mapping[str, str] | None = None,
        scalars: Mapping[str, Number] | None = None,
        axis: str | Mapping[str, str] | None = None,
        heights: str | None = None,
        boundary: Mapping[str, str] | None = None,
        dtype: str | None = None,
        name: str = "result",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit operators on staggered columns and return the Job at once.

        `expression` is text such as "DivergenceF2C(bottom=SetValue(0.0))(k * GradientC2F()(t))", or
        lines `name = expression`; `dataset` is what `stencil` takes, and goes to the service whole.
        `fields` maps names of the text to variables, `scalars` gives numbers to others. The
        vertical dimensions and the heights of the faces are found from the coordinates, or given as
        `axis` (that of the centres, or {"centre": ..., "face": ...}) and `heights`; `boundary` is
        {dim: "periodic"} for periodic columns. Everything is computed in `dtype`.

        Raises a ProgramError or a RequestError if the service refuses the job at once.
        """
        others: dict[str, Any] = {"fields": fields, "scalars": scalars, "axis": axis}
        others |= {"heights": heights, "boundary": boundary, "dtype": dtype}
        others |= {"expression": expression, "name": name, "target": target, "mode": mode}
        return self._solve("column", dataset, {}, others, chunks)

    def tridiagonal(
        self,
        dataset: DatasetLike,
        *,
        lower: str,
        diagonal: str,
        upper: str,
        rhs: str,
        dim: str,
        periodic: bool = False,
        pivoting: bool = False,
        residual: bool = False,
        name: str = "solution",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit tridiagonal systems along `dim` and return the Job at once.

        `lower`, `diagonal`, `upper` and `rhs` name variables of `dataset`, which is what `stencil`
        takes. With `pivoting`, rows change places where that is better, for systems that are not
        diagonally dominant. The result has the solution under `name`, a status byte for each
        system under `name` + "_status", and with `residual` the backward error under `name` +
        "_residual". Raises a RequestError if the service refuses the job at once.
        """
        variables = {"lower": lower, "diagonal": diagonal, "upper": upper, "rhs": rhs}
        others: dict[str, Any] = {"dim": dim, "periodic": periodic, "residual": residual}
        others |= {"pivoting": pivoting}
        others |= {"name": name, "target": target, "mode": mode}
        return self._solve("tridiagonal", dataset, variables, others, chunks)

    def pentadiagonal(
        self,
        dataset: DatasetLike,
        *,
        second_lower: str,
        lower: str,
        diagonal: str,
        upper: str,
        second_upper: str,
        rhs: str,
        dim: str,
        pivoting: bool = False,
        residual: bool = False,
        name: str = "solution",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit pentadiagonal systems along `dim` and return the Job at once.

        `second_lower` multiplies what is two rows before, `second_upper` what is two rows behind;
        the rest is as in `tridiagonal`. Raises a RequestError if the service refuses the job at
        once.
        """
        variables = {"second_lower": second_lower, "lower": lower, "diagonal": diagonal}
        variables |= {"upper": upper, "second_upper": second_upper, "rhs": rhs}
        others: dict[str, Any] = {"dim": dim, "pivoting": pivoting, "residual": residual}
        others |= {"name": name, "target": target, "mode": mode}
        return self._solve("pentadiagonal", dataset, variables, others, chunks)

    def factor(
        self,
        dataset: DatasetLike,
        *,
        lower: str,
        diagonal: str,
        upper: str,
        dim: str,
        periodic: bool = False,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit the elimination of tridiagonal matrices along `dim` and return the Job at once.

        `lower`, `diagonal` and `upper` name variables of `dataset`, which is what `stencil` takes.
        The result serves `solve` any number of times. Raises a RequestError if the service refuses
        the job at once.
        """
        variables = {"lower": lower, "diagonal": diagonal, "upper": upper}
        others: dict[str, Any] = {"dim": dim, "periodic": periodic, "target": target, "mode": mode}
        return self._solve("factor", dataset, variables, others, chunks)

    def solve(
        self,
        dataset: DatasetLike,
        factors: DatasetLike,
        *,
        rhs: str | Sequence[str],
        name: str = "solution",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit tridiagonal systems whose matrices were eliminated; return the Job at once.

        `factors` is what `factor` made, named or sent as `dataset` is: its Job, for one. `rhs`
        names a variable or several, whose solutions are then called `<rhs>_<name>`. Raises a
        RequestError if the service refuses the job at once.
        """
        several = [rhs] if isinstance(rhs, str) else names("rhs", rhs)
        others: dict[str, Any] = {"rhs": rhs if isinstance(rhs, str) else several}
        others |= {"factors": partial(reference, self._connection, factors, ())}
        others |= {"name": name, "target": target, "mode": mode}
        return self._solve("solve", dataset, {}, others, chunks, several)

    def tree(
        self,
        dataset: DatasetLike,
        *,
        diagonal: str,
        upper: str,
        parent: str,
        rhs: str,
        row_size: str,
        name: str = "solution",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit symmetric systems on trees and return the Job at once.

        The arguments name variables of `dataset`, a contiguous ragged array: `row_size` says how
        many nodes each cell has, `parent` counts from 0 in each cell and is -1 at the root, and
        `upper` couples a node and its parent. The result is as that of `tridiagonal`, with a status
        byte for each cell. Raises a RequestError if the service refuses the job at once.
        """
        variables = {"diagonal": diagonal, "upper": upper, "parent": parent}
        variables |= {"rhs": rhs, "row_size": row_size}
        others = {"name": name, "target": target, "mode": mode}
        return self._solve("tree", dataset, variables, others, chunks)

    def gather(
        self,
        dataset: DatasetLike,
        *,
        source: str,
        index: str,
        dim: str,
        name: str = "gathered",
        out_of_range: str = "error",
        negative: str = "out_of_range",
        fill: float | None = None,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit a gather of elements along `dim` and return the Job at once.

        `source` and `index` name variables of `dataset`, which is what `stencil` takes. In the
        result the dimensions of the index stand where `dim` stood; dimensions that both have are
        taken pairwise. `out_of_range` is "error", "clip", "wrap" or "mask", `negative` is
        "out_of_range" or "from_end", and `fill` stands where nothing is taken. Raises a
        RequestError if the service refuses the job at once.
        """
        others: dict[str, Any] = {"dim": dim, "name": name, "fill": fill}
        others |= {"out_of_range": out_of_range, "negative": negative}
        others |= {"target": target, "mode": mode}
        return self._solve("gather", dataset, {"source": source, "index": index}, others, chunks)

    def scatter(
        self,
        dataset: DatasetLike,
        *,
        source: str,
        index: str,
        dim: str,
        size: int,
        name: str = "scattered",
        duplicates: str = "error",
        out_of_range: str = "error",
        negative: str = "out_of_range",
        fill: float | None = None,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit a scatter into the new dimension `dim` of length `size`; return the Job at once.

        The other arguments are those of `gather`; `duplicates` is "error", "last", "sum", "min" or
        "max". Raises a RequestError if the service refuses the job at once.
        """
        others: dict[str, Any] = {"dim": dim, "size": size, "name": name, "fill": fill}
        others |= {"duplicates": duplicates, "out_of_range": out_of_range, "negative": negative}
        others |= {"target": target, "mode": mode}
        return self._solve("scatter", dataset, {"source": source, "index": index}, others, chunks)

    def regrid(
        self,
        dataset: DatasetLike,
        weights: DatasetLike,
        *,
        variables: Sequence[str] | None = None,
        missing: str = "renormalise",
        least: float = 0.0,
        dims: Sequence[str] | None = None,
        target_dims: Sequence[str] | None = None,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit a regridding by a weight file of ESMF or SCRIP, and return the Job at once.

        `weights` is named or sent as `dataset` is. `variables` are regridded, or all that lie on
        the weights' source grid; `dims` names the dimensions of that grid where sizes do not tell,
        `target_dims` those of the new one. `missing` is "renormalise" or "propagate", and `least`
        the share of its weight that a cell needs. Raises a RequestError if the service refuses the
        job at once.
        """
        others: dict[str, Any] = {"missing": missing, "least": least, "target": target}
        others |= {"variables": variables, "dims": dims, "target_dims": target_dims}
        others |= {"mode": mode, "weights": partial(reference, self._connection, weights, ())}
        return self._solve("regrid", dataset, {}, others, chunks, variables or ())

    def neighbours(
        self,
        dataset: DatasetLike,
        mesh: DatasetLike,
        operation: str,
        *,
        variables: Sequence[str] | None = None,
        location: str | None = None,
        dim: str | None = None,
        radius: float | None = None,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit an operator on an unstructured mesh of the sphere, and return the Job at once.

        `mesh` (UGRID or MPAS) is named or sent as `dataset` is. `operation` is "sum", "mean",
        "gradient", "laplacian" or "divergence"; for the last, `variables` names the eastward and
        the northward component. `location` says whether values lie on a "face" (default), a "node"
        or an "edge". "normal_gradient", "normal_divergence" and "normal_curl" are for vectors by
        their components normal to edges. `dim` names the dimension of the mesh, `radius` is in
        metres. Raises a RequestError if the service refuses the job at once.
        """
        others: dict[str, Any] = {"operation": operation, "dim": dim}
        others |= {"location": location, "variables": variables}
        others |= {"radius": radius, "target": target, "mode": mode}
        others["mesh"] = partial(reference, self._connection, mesh, ())
        return self._solve("neighbours", dataset, {}, others, chunks, variables or ())

    def matmul(
        self,
        dataset: DatasetLike,
        *,
        left: str,
        right: str,
        dim: str,
        name: str = "product",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
    ) -> Job:
        """Submit a matrix product summed over `dim` and return the Job at once.

        `left` and `right` name variables of `dataset`, which is what `stencil` takes. Dimensions
        that both have besides `dim` are taken pairwise; the result has all but `dim`, in the order
        in which they appear. Raises a RequestError if the service refuses the job at once.
        """
        others = {"dim": dim, "name": name, "target": target, "mode": mode}
        return self._solve("matmul", dataset, {"left": left, "right": right}, others, chunks)

    def _solve(
        self,
        process: str,
        dataset: DatasetLike,
        variables: Mapping[str, str],
        others: Mapping[str, Any],
        chunks: Mapping[str, int] | None,
        needed: Iterable[str] = (),
    ) -> Job:
        """Submit a process whose inputs name variables; `needed` are others to upload."""
        inputs = plain({**variables, **others, "chunks": chunks})
        needs = [*(text(name, value) for name, value in variables.items()), *needed]
        refer = partial(reference, self._connection, dataset, needs, complete=True)
        inputs["dataset"] = refer
        document = self.execute(process, inputs)
        return Job(self._connection, str(document["jobID"]))

    def submit(self, process: str, inputs: Mapping[str, Any]) -> Job:
        """Submit any process of the service by its inputs, and return the Job at once.

        `inputs` are those of the process's description, as JSON. Its datasets ('dataset',
        'factors', 'mesh', 'weights') may be whatever `stencil` takes, and go to the service whole.
        Raises a ProgramError or a RequestError if the service refuses the job at once.
        """
        sent = {
            name: partial(reference, self._connection, value, ()) if name in _DATASETS else value
            for name, value in by_name("inputs", inputs).items()
        }
        return Job(self._connection, str(self.execute(process, sent)["jobID"]))

    def execute(self, process: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Start a process of the service with inputs as JSON; return its first status document."""
        return execute(self._connection, process, inputs)

    def upload(self, dataset: Any) -> str:
        """Upload an xarray Dataset and return `upload:<id>`; it stays until it is removed."""
        return upload(self._connection, dataset, (), keep=True)

    @property
    def uploads(self) -> Uploads:
        """What was sent to the service: `uploads.list()`, `uploads.remove(reference)`."""
        return Uploads(self._connection)

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
        answer = self._connection.get("/jobs", needs=("jobs",), limit=limit)
        return cast("list[dict[str, Any]]", answer["jobs"])
