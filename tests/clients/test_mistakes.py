"""A hundred mistakes of users: each is told by what was expected, what came, and a way out."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import xarray as xr

import halocline as hc
from halocline import Client

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

Mistake: TypeAlias = Callable[[Client, Path], Any]

HEAD = "def f(t: Field[np.float64], s: Field[np.float64], k: float):\n"
BODY = "    with computation(PARALLEL), interval(...):\n        s = k * t\n"
GOOD = f"\n{HEAD}{BODY}"
ALONG_I = f"\n{HEAD}{BODY.replace('k * t', 'k * t[1, 0, 0]')}"


def jobs_at(address: str) -> object:
    with Client(address) as client:
        return client.jobs()


_LAMBDA: Callable[[Any], Any] = lambda x: x  # noqa: E731  which is the mistake


def _any(value: object) -> Any:
    return value


def sea() -> xr.Dataset:
    values = np.arange(12.0).reshape(3, 4)
    return xr.Dataset({"t": (("y", "x"), values), "n": ("y", [0, 2, 1])}, {"y": np.arange(3.0)})


def _sea_of(values: Any) -> xr.Dataset:
    return xr.Dataset({"t": (("y", "x"), values)})


def stencil(program: Any = GOOD, dataset: Any = None, **options: Any) -> Mistake:
    given: dict[str, Any] = {"scalars": {"k": 2.0}, "target": "reference"} | options
    return lambda client, _: client.stencil(program, sea() if dataset is None else dataset, **given)


def body(*lines: str) -> Mistake:
    """Write other statements into the program."""
    text = "".join(f"        {line}\n" for line in lines)
    return stencil(f"\n{HEAD}    with computation(PARALLEL), interval(...):\n{text}")


def process(name: str, **arguments: Any) -> Mistake:
    given = {"dataset": sea(), **arguments}
    return lambda client, _: getattr(client, name)(**given)


def tridiagonal(**arguments: Any) -> Mistake:
    bands = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d", "dim": "z"}
    data = xr.Dataset({name: ("z", [1.0, 4.0, 1.0]) for name in "abcd"})
    return process("tridiagonal", dataset=data, **{**bands, **arguments})


def sequence(*stages: Any, **arguments: Any) -> Mistake:
    bands = {name: ("y", [1.0, 4.0, 1.0]) for name in "abc"}
    given = {"target": "reference", **arguments}
    return process("sequence", stages=list(stages), **{"dataset": sea().assign(bands), **given})


def column(expression: str, **arguments: Any) -> Mistake:
    data = xr.Dataset({"t": ("z", [1.0, 2.0, 4.0])}, {"z": ("z", [0.5, 1.5, 2.5], {"axis": "Z"})})
    return process("column", expression=expression, dataset=data, **arguments)


def job(act: Callable[[hc.Job, Path], Any]) -> Mistake:
    return lambda client, folder: act(stencil()(client, folder), folder)


def _weights(size: tuple[int, int], first: int) -> xr.Dataset:
    place = ("n_s", np.arange(4) + first)
    sizes = {"src_grid_dims": ("rank", list(size)), "dst_grid_dims": ("rank", [2, 2])}
    return xr.Dataset({"row": place, "col": place, "S": ("n_s", np.ones(4)), **sizes})


def _removed(made: hc.Job) -> xr.Dataset:
    result = made.result(progress=False, timeout=60)
    made.remove()
    return result


def local(name: str, **inputs: Any) -> Mistake:
    return lambda _client, _folder: hc.run_local(name, **inputs)


DOUBLE: dict[str, Any] = {"stencil": {"program": GOOD, "scalars": {"k": 2.0}}}
SOLVE: dict[str, Any] = {
    "tridiagonal": {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "t", "dim": "y"}
}

MISTAKES: dict[str, Mistake] = {
    # datasets
    "an array as dataset": stencil(dataset=np.ones(3)),
    "a list as dataset": stencil(dataset=[1.0]),
    "a dictionary as dataset": stencil(dataset={"t": 1}),
    "a number as dataset": stencil(dataset=5),
    "bytes as dataset": stencil(dataset=b"sea.nc"),
    "an array without a name": stencil(dataset=xr.DataArray([1.0], dims="x")),
    "a path that nobody has": stencil(dataset="no-such.nc"),
    "a path outside": stencil(dataset="/etc/passwd.zarr"),
    "a path with dots": stencil(dataset="../sea.zarr"),
    "an upload that is not there": stencil(dataset="upload:00000000-0000-7000-8000-000000000001"),
    "a job that is not there": stencil(dataset="job:00000000-0000-7000-8000-000000000001"),
    "an id that is none": stencil(dataset="job:17"),
    "an address elsewhere": stencil(dataset="https://example.org/sea.zarr"),
    "a bucket": stencil(dataset="s3://bucket/sea.zarr"),
    "a file that is no dataset": lambda client, folder: stencil(
        dataset=_written(folder / "a.nc", "text")
    )(client, folder),
    "a file that is not complete": lambda client, folder: stencil(dataset=_half(folder / "a.nc"))(
        client, folder
    ),
    "objects in a variable": stencil(dataset=xr.Dataset({"t": ("x", [object()])})),
    "a variable that is missing": stencil(dataset=xr.Dataset({"u": ("x", [1.0])})),
    "text for numbers": stencil(dataset=_sea_of(np.array([["a"]]))),
    "whole numbers for floats": stencil(dataset=_sea_of(np.array([[1]]))),
    "single for double": stencil(dataset=_sea_of(np.array([[1]], "float32"))),
    "axes that nobody can know": stencil(
        program=ALONG_I, dataset=xr.Dataset({"t": (("a", "b"), [[1.0]])})
    ),
    # programs
    "a dataset as program": stencil(program=sea(), dataset=GOOD),
    "no program": stencil(program=None),
    "a number as program": stencil(program=5),
    "a program file that is missing": stencil(program="no-such.py"),
    "one line as program": stencil(program="def f(): pass"),
    "no Python": stencil(program="\nthis is no program\n"),
    "no function": stencil(program="\nx = 1\n"),
    "a class": stencil(program="\nclass A:\n    pass\n"),
    "a lambda": stencil(program=_LAMBDA),
    "a builtin": stencil(program=len),
    "two stencils": stencil(program=GOOD + GOOD.replace("def f", "def g")),
    "a stencil that is not there": stencil(stencil_name="g"),
    "a misspelt name": body("s = kk * t"),
    "a misspelt output": body("ss = k * t", "s = sss"),
    "a misspelt function": body("s = sqrtt(t)"),
    "a loop": body("for i in range(3):", "    s = t"),
    "an import": body("import os", "s = t"),
    "a call of Python": body("s = open('a')"),
    "an attribute": body("s = t.mean()"),
    "an offset that is no number": body("s = t[k, 0, 0]"),
    "two offsets": body("s = t[1, 0]"),
    "an offset on the left": body("s[1, 0, 0] = t"),
    "an assignment to a scalar": body("k = t", "s = t"),
    "a string": body("s = 'a'"),
    "no computation": stencil(program=f"\n{HEAD}    s = t\n"),
    "a computation of no order": stencil(program=GOOD.replace("PARALLEL", "SIDEWAYS")),
    "no interval": stencil(program=GOOD.replace(", interval(...)", "")),
    "a field without a type": stencil(program=GOOD.replace("t: Field[np.float64]", "t")),
    "a type that is none": stencil(program=GOOD.replace("np.float64", "np.float63")),
    "reading what is written beside": body("t = t[1, 0, 0] + t", "s = t"),
    # arguments of a stencil
    "no scalar": stencil(scalars={}),
    "a misspelt scalar": stencil(scalars={"kk": 1.0}),
    "a unit in a scalar": stencil(scalars={"k": "0.2 m"}),
    "an array as scalar": stencil(scalars={"k": np.ones(2)}),
    "text as scalar": stencil(scalars={"k": "2"}),
    "a list of scalars": stencil(scalars=[2.0]),
    "infinity as scalar": stencil(scalars={"k": float("inf")}),
    "no number as scalar": stencil(scalars={"k": float("nan")}),
    "truth as scalar": stencil(scalars={"k": True}),
    "no steps": stencil(steps=0),
    "half a step": stencil(steps=1.5),
    "steps as text": stencil(steps="10"),
    "steps without feedback": stencil(steps=3),
    "feedback of nothing": stencil(steps=3, feedback={"u": "t"}),
    "feedback from an input": stencil(steps=3, feedback={"t": "s"}),
    "a boundary of no kind": stencil(boundary={"x": "mirror"}),
    "a boundary of no dimension": stencil(boundary={"lon": "edge"}),
    "a boundary as text": stencil(boundary="periodic"),
    "a number as boundary": stencil(boundary={"x": 0.0}),
    "half a periodic boundary": stencil(boundary={"x": {"low": "periodic"}}),
    "a side that is none": stencil(boundary={"x": {"left": "edge"}}),
    "a field that is none": stencil(fields={"u": "t"}),
    "a variable that is none": stencil(fields={"t": "u"}),
    "an axis that is none": stencil(axes={"X": "x"}),
    "an axis of no dimension": stencil(axes={"I": "lon", "J": "y"}),
    "one dimension for two axes": stencil(axes={"I": "x", "J": "x"}),
    "chunks of no dimension": stencil(chunks={"lon": 2}),
    "chunks of nothing": stencil(chunks={"x": 0}),
    "a number as chunks": stencil(chunks=2),
    "a target that is none": stencil(target="gpu"),
    "a mode that is none": stencil(mode="fast"),
    "an order that is none": stencil(order="random"),
    "a type of no number": stencil(dtypes={"F": "complex"}),
    "labels as text": stencil(labels="night"),
    "a label with a comma": stencil(labels=["a,b"]),
    "a name of many lines": stencil(job_name="a\nb"),
    "a dry run as text": stencil(dry_run="yes"),
    # other processes
    "an index that is missing": process("gather", source="t", index="m", dim="y"),
    "an index of floats": process("gather", source="t", index="t", dim="y"),
    "an index without a dimension": process("gather", source="t", index="n", dim="z"),
    "a size of nothing": process("scatter", source="n", index="n", dim="z", size=0),
    "a rule that is none": process("gather", source="t", index="n", dim="y", out_of_range="ignore"),
    "a band that is missing": tridiagonal(lower="e"),
    "a dimension that is missing": tridiagonal(dim="x"),
    "an operator that is none": column("GradientX()(t)"),
    "an operator without its argument": column("GradientF2C()"),
    "an expression that is none": column("t +"),
    "a variable of a column that is missing": column("GradientF2C()(w)"),
    "a product of other lengths": process("matmul", left="t", right="n", dim="x"),
    "a mesh that is none": process("neighbours", mesh=sea(), operation="sum"),
    "an operation that is none": process("neighbours", mesh=sea(), operation="median"),
    "weights of another grid": process("regrid", weights=_weights((36, 18), 1)),
    "weights that count from 0": process("regrid", weights=_weights((4, 3), 0)),
    "weights that are none": process("regrid", weights=sea()),
    "a process that is none": lambda client, _: client.submit("stencils", {}),
    "an input that is none": lambda client, _: client.submit(
        "stencil", {"program": GOOD, "dataset": sea(), "stepps": 3}
    ),
    "inputs as text": lambda client, _: client.submit("stencil", _any("steps")),
    # jobs
    "a job that nobody has": lambda client, _: client.job("17"),
    "a job without an id": lambda client, _: client.job(""),
    "a result that was removed": job(lambda made, _: _any(_removed(made))["s"].load()),
    "a picture of a result": job(lambda made, folder: made.download(folder / "s.png")),
    "a job by number": lambda client, _: client.job(_any(17)),
    "no time": job(lambda made, _: made.result(timeout=_any("soon"))),
    "a place that is taken": job(lambda made, folder: made.download(folder)),
    "a clone with another word": job(lambda made, _: made.clone(stepps=3)),
    "a state that is none": lambda client, _: client.jobs(status="done"),
    "a time that is none": lambda client, _: client.jobs(since="yesterday evening"),
    "a client that is closed": lambda client, _: (client.close(), client.jobs()),
    "no such path": lambda client, _: jobs_at(f"{client.url}/nowhere"),
    "no jobs": lambda client, _: client.jobs(limit=0),
    "a filter that is none": lambda client, _: client.documents(state="running"),
    "a map without a function": lambda client, _: list(client.map(_any(None), [sea()])),
    "an upload that is no dataset": lambda client, _: client.upload("sea.nc"),
    "an address without http": lambda _client, _folder: Client("localhost:8000"),
    "an encrypted address of a plain service": lambda client, _: Client(
        client.url.replace("http:", "https:")
    ).jobs(),
    "no service": lambda _client, _folder: Client("http://127.0.0.1:1").jobs(),
    # sequences
    "no stages": sequence(),
    "one stage and no list": process("sequence", stages=DOUBLE),
    "a stage that is a name": sequence("stencil"),
    "a stage of two kinds": sequence({**DOUBLE, **SOLVE}),
    "an empty stage": sequence({}),
    "a misspelt kind of stage": sequence({"stencl": DOUBLE["stencil"]}),
    "a process that is no stage": sequence({"matmul": {"left": "a", "right": "b", "dim": "y"}}),
    "steps of a stage": sequence({"stencil": {**DOUBLE["stencil"], "steps": 3}}),
    "a misspelt argument of a stage": sequence(
        {"stencil": {**DOUBLE["stencil"], "scalar": {"k": 1.0}}}
    ),
    "a missing argument of a stage": sequence({"tridiagonal": {"rhs": "s", "dim": "y"}}),
    "a missing scalar of a stage": sequence({"stencil": {"program": GOOD}}),
    "a wrong program of a stage": sequence({"stencil": {"program": GOOD.replace("k *", "q *")}}),
    "what no stage makes": sequence(DOUBLE, {"tridiagonal": {**SOLVE["tridiagonal"], "rhs": "u"}}),
    "feedback of no result": sequence(DOUBLE, feedback={"u": "t"}, steps=2),
    "feedback into no variable": sequence(DOUBLE, feedback={"s": "u"}, steps=2),
    "feedback into one variable": sequence(
        DOUBLE, SOLVE, feedback={"s": "t", "solution": "t"}, steps=2
    ),
    "feedback of another shape": sequence(SOLVE, feedback={"solution_status": "t"}, steps=2),
    "no results": sequence(DOUBLE, results=[]),
    "results that no stage makes": sequence(DOUBLE, results=["u"]),
    "results that are one name": sequence(DOUBLE, results="s"),
    "snapshots after no steps": sequence(DOUBLE, snapshot_every=0),
    "a stage whose dataset is nowhere": sequence({"solve": {"factors": "no-such", "rhs": "t"}}),
    "a misspelt kind here": local("sequence", stages=[{"stencl": {}}], dataset=sea()),
    "snapshots of no number": stencil(snapshot_every="ten", steps=20, feedback={"s": "t"}),
    # here
    "a process that is not here": local("stencils"),
    "no program here": local("stencil", dataset=sea()),
    "a program as dataset here": local("stencil", program=GOOD, dataset=GOOD),
    "a NetCDF file as output here": local("stencil", program=GOOD, dataset=sea(), output="s.nc"),
    "an upload here": local("stencil", program=GOOD, dataset="upload:17"),
    "a misspelt input here": local("stencil", program=GOOD, dataset=sea(), stepps=3),
    "a misspelt name here": local("stencil", program=GOOD.replace("k *", "kk *"), dataset=sea()),
}


def _half(path: Path) -> str:
    _any(sea()).to_netcdf(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return str(path)


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def made(client: Client, mistake: Mistake, folder: Path) -> Any:
    """Make a mistake, and wait where only the data tell of it."""
    done = mistake(client, folder)
    if isinstance(done, hc.Job):
        done.result_url(timeout=60)
    return done


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as one:
        yield one


def test_there_are_a_hundred() -> None:
    assert len(MISTAKES) >= 100


#: Whose sentence itself says what there is, or what must be equal.
WITHOUT_HINT = frozenset(
    {
        "a stencil that is not there",
        "an index without a dimension",
        "half a periodic boundary",
        "one dimension for two axes",
    }
)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_a_way_out(client: Client, name: str, tmp_path: Path) -> None:
    with pytest.raises(hc.HaloclineError) as raised:
        made(client, MISTAKES[name], tmp_path)
    error = raised.value.error if isinstance(raised.value, hc.JobFailed) else raised.value
    assert not isinstance(error, hc.InternalError)
    assert error.message[0].isupper() or error.message[0] == "'"
    assert not any(word in error.message for word in ("Traceback", "pydantic", "NoneType object"))
    assert error.hint or name in WITHOUT_HINT
