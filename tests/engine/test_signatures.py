"""Calls that do not fit a signature are answered with the way out, in library and client."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import halocline as hc
import halocline_engine as he
from halocline.accessor import HaloclineAccessor
from halocline_engine.errors import ArgumentError
from halocline_engine.interface.absent import OF_OPTIONS
from halocline_engine.interface.installed import for_engine
from halocline_engine.signatures import answering

DATASET: Any = xr.Dataset({"a": ("x", [1.0])})
PROGRAM = """
def scale(a: Field[float], k: float):
    with computation(PARALLEL), interval(...):
        a = k * a
"""
RUN: Any = he.run
REGRID: Any = he.regrid
TRIDIAGONAL: Any = he.tridiagonal
OPTIONS: Any = he.Options
CLIENT: Any = hc.Client("http://localhost")
ACCESSOR: Any = HaloclineAccessor(DATASET)
KINDS: Any = hc.Client
LOCAL: Any = hc.run_local
AWAITED: Any = hc.AsyncClient("http://localhost")
DOWNLOAD = "Download the result: job.download('r.zarr')."
OPERATOR = "Leave it out: the operator of the service sets the limits of a job."

#: A call, and the answer.
CALLS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: RUN(PROGRAM, DATASET, boundry={}),
        "run() has no argument 'boundry'. Did you mean 'boundary'?",
    ),
    (
        lambda: RUN(PROGRAM, DATASET, k=0.1),
        "run() has no argument 'k'. Scalars of the program are given by name: scalars={'k': 0.1}.",
    ),
    (
        lambda: RUN(PROGRAM, DATASET, a="t"),
        "run() has no argument 'a'. Variables are given by field: fields={'a': 't'}.",
    ),
    (
        lambda: RUN(PROGRAM, DATASET, a=[1.0]),
        "run() has no argument 'a'. Fields are variables of the dataset: dataset.assign(a=...).",
    ),
    (
        lambda: RUN(PROGRAM, DATASET, x="periodic"),
        "run() has no argument 'x'. Boundaries are given by dimension: boundary={'x': 'periodic'}.",
    ),
    (
        lambda: RUN(PROGRAM, DATASET, name="scale"),
        "run() has no argument 'name': it was renamed to 'stencil_name'. Write"
        " stencil_name='scale'.",
    ),
    (
        lambda: RUN(PROGRAM, DATASET, order="row"),
        "run() has no argument 'order'. Write options=Options(order='row').",
    ),
    (
        lambda: RUN(PROGRAM, DATASET, memory_limit=2**30),
        "run() has no argument 'memory_limit'. Write options=Options(memory_limit=1073741824).",
    ),
    (
        lambda: RUN(PROGRAM, DATASET, literal_precision=32),
        "run() has no argument 'literal_precision'. Compile the program first:"
        " run(stencil(program, literal_precision=32), dataset).",
    ),
    (
        lambda: RUN(PROGRAM, DATASET, dry_run=True),
        "run() has no argument 'dry_run'. Ask a service for a plan:"
        " halocline.Client().stencil(..., dry_run=True).",
    ),
    (
        lambda: RUN(PROGRAM, DATASET, {}),
        "run() got 3 arguments by position, but takes 2 (program, dataset). Give the others by"
        " name, such as fields=...",
    ),
    (lambda: RUN(PROGRAM), "run() needs the argument 'dataset'. Give it: run(..., dataset=...)."),
    (
        lambda: REGRID(DATASET),
        "regrid() needs the argument 'weights'. Give it: regrid(..., weights=...).",
    ),
    (
        lambda: REGRID(DATASET, DATASET, missing="propagate"),
        "regrid() has no argument 'missing': it was renamed to 'skipna'. Write skipna=False.",
    ),
    (
        lambda: REGRID(DATASET, DATASET, least=0.3),
        "regrid() has no argument 'least': it was renamed to 'na_thres'. Write na_thres=0.7.",
    ),
    (
        lambda: REGRID(DATASET, DATASET, weights=DATASET),
        "regrid() has the argument 'weights' twice, by position and by name. Give it once.",
    ),
    (
        lambda: TRIDIAGONAL(DATASET, lower="a", diagonal="b", dim="z"),
        "tridiagonal() needs the arguments 'upper', 'rhs'. Give them: tridiagonal(..., upper=...,"
        " rhs=...).",
    ),
    (lambda: OPTIONS(mem=100), "Options() has no argument 'mem'. Did you mean 'memory_limit'?"),
    (
        lambda: OPTIONS(share=0.5),
        "Options() has no argument 'share': it was renamed to 'memory_fraction'. Write"
        " memory_fraction=0.5.",
    ),
    (
        lambda: he.sequence([{"stencil": {"program": PROGRAM, "every": 2}}], DATASET),
        "Stage 1, 'stencil', has no argument 'every': it was renamed to 'snapshot_every'. There are"
        " 'axes', 'boundary', 'chunks', 'dtypes', 'externals', 'feedback', 'fields', 'grid',"
        " 'positions', 'program',"
        " 'scalars', 'stencil_name'.",
    ),
    (
        lambda: RUN(PROGRAM, DATASET, until={"field": "a", "below": 1.0, "every": 5}),
        "Argument 'until' has no 'every': it was renamed to 'check_every'. Write for example"
        " until={'field': 'v', 'change': 'max', 'below': 1e-6, 'check_every': 100}.",
    ),
    (
        lambda: CLIENT.stencil(PROGRAM, DATASET, output="r.zarr"),
        f"A job in a service has no 'output'. {DOWNLOAD}",
    ),
    (
        lambda: ACCESSOR.stencil(PROGRAM, output=Path("r.zarr")),
        f"A job in a service has no 'output'. {DOWNLOAD}",
    ),
    (
        lambda: ACCESSOR.stencil(PROGRAM, dataset=DATASET),
        "stencil() has no argument 'dataset'. Leave it out: it is the dataset that '.halocline'"
        " belongs to.",
    ),
    (
        lambda: CLIENT.stencil(PROGRAM, DATASET, threads=2),
        f"A job in a service has no 'threads'. {OPERATOR}",
    ),
    (
        lambda: CLIENT.stencil(PROGRAM, DATASET, k=0.1),
        "stencil() has no argument 'k'. Scalars of the program are given by name:"
        " scalars={'k': 0.1}.",
    ),
    (
        lambda: CLIENT.regrid(DATASET),
        "regrid() needs the argument 'weights'. Give it: regrid(..., weights=...).",
    ),
    (
        lambda: CLIENT.jobs(name="night"),
        "jobs() has no argument 'name': it was renamed to 'job_name'. Write job_name='night'.",
    ),
    (
        CLIENT.upload,
        "upload() needs the argument 'dataset'. Give it: upload(..., dataset=...).",
    ),
    (
        lambda: asyncio.run(AWAITED.stencil(PROGRAM, DATASET, step=3)),
        "stencil() has no argument 'step'. Did you mean 'steps'?",
    ),
    (
        lambda: KINDS(adress="x"),
        "Client() has no argument 'adress'. It takes url, key, transport.",
    ),
    (
        lambda: LOCAL("stencil", program=PROGRAM, dataset=DATASET, cluster=2),
        "Process 'stencil' has no input 'cluster'. Call the library: halocline.run(...,"
        " cluster=2).",
    ),
    (
        lambda: LOCAL("regrid", dataset=DATASET, weights=DATASET, least=0.5),
        "Process 'regrid' has no input 'least': it was renamed to 'na_thres'. It has: dataset,"
        " weights, variables, skipna, na_thres, dims, target_dims, plans, target, mode, chunks,"
        " cluster, output, on_event, progress, cancelled, options.",
    ),
]


@pytest.mark.parametrize(("call", "answer"), CALLS, ids=[answer[:50] for _, answer in CALLS])
def test_an_answer_has_a_way_out(call: Callable[[], Any], answer: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value) == answer


def public_functions() -> list[Any]:
    functions = [getattr(he, name) for name in he.__all__]
    found = [each for each in functions if inspect.isfunction(each)]
    for kind in (hc.Client, hc.AsyncClient, hc.Job, hc.AsyncJob, HaloclineAccessor):
        members = inspect.getmembers(kind, inspect.isfunction)
        found += [member for name, member in members if not name.startswith("_")]
    return found


@pytest.mark.parametrize("function", public_functions(), ids=lambda one: one.__qualname__)
def test_every_public_function_answers(function: Any) -> None:
    kinds = {one.kind for one in inspect.signature(function).parameters.values()}
    assert hasattr(function, "answers") or kinds & {inspect.Parameter.VAR_KEYWORD}


def test_errors_inside_a_function_stay() -> None:
    @answering
    def broken(x: int) -> int:
        return len(x)  # pyright: ignore[reportArgumentType]

    with pytest.raises(TypeError, match="has no len"):
        broken(3)


def test_the_table_has_every_option() -> None:
    assert set(OF_OPTIONS) == set(he.Options.__dataclass_fields__)


def test_functions_are_pickled_by_name() -> None:
    for function in (he.run, he.regrid, he.stencil):
        assert pickle.loads(pickle.dumps(function)) is function


def test_a_stencil_shows_its_arguments() -> None:
    text = """
def f(a: Field[IJ, float], v: Field[(float, (2,))], b: Field[np.float32], n: int, k: float = 1.0):
    with computation(PARALLEL), interval(...):
        b = float32(k * a + n * v[0, 0, 0][1])
"""
    stencil = he.stencil(text, target="reference")
    shown = (
        "(a: 'Field[IJ, float64]', v: 'Field[(float64, (2,))]', b: 'Field[float32]', n: 'int64',"
    )
    shown += " k: 'float64' = 1.0, *, origin=None, domain=None)"
    assert str(inspect.signature(stencil)) == shown
    assert str(inspect.signature(pickle.loads(pickle.dumps(stencil)))) == shown
    fields = {name: (one.axes, one.read, one.written) for name, one in stencil.fields.items()}
    assert fields == {
        "a": ("IJ", True, False),
        "v": ("IJK", True, False),
        "b": ("IJK", False, True),
    }
    assert stencil.fields["v"].shape == (2,)
    scalars = {name: (one.dtype, one.default) for name, one in stencil.scalars.items()}
    assert scalars == {"n": ("int64", None), "k": ("float64", 1.0)}
    assert "compiled" in inspect.signature(he.Stencil).parameters


def test_a_stencil_of_tables_shows_them() -> None:
    text = """
def look(t: GlobalTable[(float, (4,))], i: Field[int], b: Field[float]):
    with computation(PARALLEL), interval(...):
        b = t.A[i]
"""
    shown = str(inspect.signature(he.stencil(text, target="reference")))
    assert shown.startswith("(t: 'GlobalTable[(float64, (4,))]', i: 'Field[int64]', b:")


def test_the_client_has_the_functions_of_the_library() -> None:
    errors = {name for name in he.__all__ if name.endswith("Error")}
    assert set(he.__all__) <= set(hc.__all__)
    for name in set(he.__all__) - errors - {"__version__"}:
        assert getattr(hc, name) is getattr(he, name)
    with pytest.raises(AttributeError, match="has no attribute 'runn'"):
        _ = hc.runn  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


def test_what_does_not_import_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old_package.py").write_text("from xarray import no_such_name")
    (tmp_path / "older_package.py").write_text("import xarray.no_such_module")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name, reason in (
        ("old_package", "cannot import name 'no_such_name' from 'xarray'"),
        ("older_package", "No module named 'xarray.no_such_module'"),
    ):
        with pytest.raises(ImportError) as caught, for_engine("halocline.run"):
            __import__(name)
        told = str(caught.value)
        assert told.startswith(f"halocline.run needs 'xarray {xr.__version__}', which is installed")
        assert reason in told
        assert "Install versions that fit each other" in told
    with pytest.raises(ModuleNotFoundError) as absent, for_engine("halocline.run"):
        __import__("no_such_package_at_all")
    assert str(absent.value) == (
        "halocline.run needs the package 'no_such_package_at_all', which is not installed. Install"
        " the extra 'engine': pip install 'halocline[engine]'."
    )
