"""Mistakes by each interface: a sentence, a way out in its own words, and nothing computed.

The table has the answers that testers found raw, silent, late or misleading; others are drawn from
a grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import xarray as xr
import zarr
from mistake_answers import DOORS, Answer, Place, faults_of, raised, run_command
from mistakes import BANDS, PROGRAM, Mistake, draw, sea

import halocline as hc
import halocline_engine as he
from halocline_engine.interface.words import Interface

pytestmark = pytest.mark.usefixtures("quiet")

#: Of the drawn mistakes; nobody looked at these answers while the messages were written.
SEED = "30 November"
EACH = 20


@pytest.fixture(scope="module")
def served(service: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    """Give a service that has the dataset."""
    with hc.Client(service) as client:
        yield Place(client, service, client.upload(sea()), tmp_path_factory.mktemp("none"))


@pytest.fixture
def place(served: Place, tmp_path: Path) -> Generator[Place]:
    """Give a service without jobs."""
    yield replace(served, folder=tmp_path)
    if not served.is_idle():
        for job in served.client.jobs():
            job.remove()


def _drawn(door: str) -> list[Mistake]:
    # The command has no option for `until`, which stands in its files.
    return list(draw(f"{SEED} {door}", EACH, without=("until",) if door == "command" else ()))


DRAWN = [
    pytest.param(door, mistake, id=f"{door}-{number}-{mistake.kind}".replace(" ", "-"))
    for door in DOORS
    for number, mistake in enumerate(_drawn(door))
]


@pytest.mark.parametrize(("door", "mistake"), DRAWN)
def test_a_drawn_mistake_has_a_good_answer(place: Place, door: str, mistake: Mistake) -> None:
    answer = DOORS[door](mistake, place)
    assert faults_of(answer, mistake) == [], str(answer)


def _any(value: object) -> Any:
    return value


def run(dataset: Any, program: Any = PROGRAM, **options: Any) -> Callable[[Place], Answer]:
    """Return a call of the library."""
    options = {"scalars": {"weight": 0.25}, **options}
    return lambda _: raised(lambda: he.run(program, dataset, **options))


def by(door: str, **changes: Any) -> Callable[[Place], Answer]:
    """Return a request by an interface that is right but for the changes."""
    process = changes.pop("process", "stencil")
    return lambda place: DOORS[door](Mistake("", process, changes), place)


def line(text: str) -> str:
    """Return the program with another line for the result."""
    return PROGRAM.replace("s = t + weight * around", text)


def files(folder: Path) -> None:
    """Write a program, a dataset, and files of jobs."""
    (folder / "smooth.py").write_text(PROGRAM)
    _any(sea()).to_netcdf(folder / "sea.nc")
    (folder / "no_store").mkdir()
    (folder / "job.yaml").write_text("process: [stencil\n")
    (folder / "job.toml").write_text("[inputs]\nprogram = 'smooth.py'\ndataset = 'sea.nc'\n")
    (folder / "result.zarr").mkdir()
    (folder / "inputs.json").write_text('{"weights": "/data/weights.nc"}')


def command(*words: str) -> Callable[[Place], Answer]:
    """Return a command in a folder of files."""

    def answer(place: Place) -> Answer:
        files(place.folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(place.folder)
            return run_command(list(words), place)

    return answer


def get(path: str) -> Callable[[Place], Answer]:
    """Return a request of the API."""

    def answer(place: Place) -> Answer:
        body = httpx2.get(f"{place.url}{path}", trust_env=False).json()
        return Answer(Interface.JSON, str(body.get("detail", body)), str(body.get("hint", "")))

    return answer


def client(call: Callable[[hc.Client], Any]) -> Callable[[Place], Answer]:
    """Return a call of the client."""
    return lambda place: raised(lambda: call(place.client))


_NO_STENCIL = "The text holds no stencil: no 'def' has a 'with computation(...)' block."
_WHOLE = (
    "A program computes each point from its neighbours: reduce a whole field with xarray, before or"
    " after the run; levels are added up in 'with computation(FORWARD)'."
)
_NEXT = (
    "It is a program of GT4Py next, which is another language. Write its operators as a Cartesian"
    " stencil: 'with computation(PARALLEL), interval(...):' in the body of a 'def', with offsets"
    " like 'q[1, 0, 0]'."
)
_FINITE = "Write values that may be missing into a variable of the dataset, as NaN."
_HERE = "A dataset must be an xarray.Dataset or a path, got the"
_THERE = "A dataset must be an xarray Dataset or DataArray, a Job, a reference or a path, got"
_ARRAY = "Name its variable and dimensions: xr.Dataset({'t': (['dim_0', 'dim_1'], array)})."
_NO_FEEDBACK = "With 3 steps some output must feed an input, but nothing does."
_NO_FOLDER = (
    "error: The folder 'no_store' is not a Zarr store: it has no zarr.json and no .zgroup and no"
    " .zmetadata."
)
_OPERATOR = "'Gradient' is neither a function nor an operator."
_RULES = (
    "'periodic', 'edge', 'reflect', 'symmetric', 'antisymmetric', 'extrapolate' or 'none', or an"
    " object"
)
_PACKED = (
    "Its values are packed by 'scale_factor' and '_FillValue': decode them with"
    " xr.decode_cf(dataset), or open the dataset with mask_and_scale=True."
)
_IN_MODULE = PROGRAM.replace("weight * around", "weight * around * ppm.c1").replace(
    "import numpy as np", "import numpy as np\nimport ppm"
)


def packed() -> xr.Dataset:
    """Give integers that stand for other numbers."""
    dataset = sea()
    values = (("z", "y", "x"), np.full((3, 4, 6), -32768, "int16"))
    attributes = {"scale_factor": 0.5, "_FillValue": np.int16(-32768)}
    return dataset.assign(t=(*values, attributes))


_NOWHERE = "is not on this machine, and the service has no dataset of this name."
_KINDS = " Or name a file, a Zarr store, 'upload:ID' or 'job:ID'."


def _looked(name: str) -> str:
    listed = "'client.datasets()' lists the datasets of the service."
    return f"There is no '{Path(name).absolute()}' here. {listed}"


def _no_scheme(scheme: str) -> str:
    told = f"'{scheme}:' addresses are not supported, and no object stores yet"
    return f"Dataset '{scheme}://bucket/sea.zarr' cannot be read: {told}."


#: By name: what is asked, and the sentence and the way out of the answer.
TABLE: Mapping[str, tuple[Callable[[Place], Answer], str, str]] = {
    "library: target": (
        run(sea(), target="gpux"),
        "Target 'gpux' is unknown.",
        "The targets are 'auto', 'cpu', 'cuda', 'reference'.",
    ),
    "library: NumPy array": (run(np.ones((3, 4))), f"{_HERE} ndarray.", _ARRAY),
    "library: DataFrame": (
        run(sea()["u"].to_dataframe()),
        f"{_HERE} DataFrame.",
        "Convert it with its method to_xarray(), its index being the dimensions.",
    ),
    "library: nothing": (
        run(None),
        f"{_HERE} NoneType.",
        "Pass the dataset, for example xr.open_dataset('data.nc') or the path 'data.nc'.",
    ),
    "library: list": (
        run([1.0]),
        "A list of datasets must have paths, got the float among them.",
        "Join datasets with xarray.concat, and pass the result.",
    ),
    "library: Zarr group": (
        run(_any(zarr).group()),
        f"{_HERE} Group.",
        "Open it with xarray.open_zarr(...), and pass the dataset.",
    ),
    "library: DataTree": (
        run(xr.DataTree(sea())),
        f"{_HERE} DataTree.",
        "Pass one of its nodes as a dataset: tree['node'].to_dataset().",
    ),
    "library: scalar NaN": (
        run(sea(), scalars={"weight": np.nan}),
        "Scalar 'weight' must be finite, got nan.",
        _FINITE,
    ),
    "text: np.where": (
        run(sea(), line("s = np.where(t > 0.0, t, weight * around)")),
        "The function 'np.where' is unknown.",
        "Write 'x if condition else y', or 'if condition:' with assignments.",
    ),
    "text: sum": (
        run(sea(), line("s = weight * sum(around)")),
        "The function 'sum' is unknown.",
        _WHOLE,
    ),
    "text: method of a field": (
        run(sea(), line("s = weight * around + t.mean()")),
        "'t.mean' is not a function.",
        _WHOLE,
    ),
    "text: attribute of a field": (
        run(sea(), line("s = weight * around + t.shape[0]")),
        "A field has no attribute 'shape'.",
        "A program does not know the sizes of arrays: pass one as a scalar parameter.",
    ),
    "text: method": (
        run(sea(), PROGRAM.replace("smooth(t", "smooth(self, t")),
        "A stencil is a function, but the parameter 'self' is a method's.",
        "Leave it out; what it would give are scalar parameters or externals.",
    ),
    "text: empty": (
        run(sea(), ""),
        "A program must be text with line breaks, a '.py' file or a function, got empty text.",
        "Pass the text of a program, the path of a '.py' file that is here, or the function"
        " itself.",
    ),
    "text: field operator": (
        run(sea(), "@gtx.field_operator\ndef f(a: fa.K[float]) -> fa.K[float]:\n    return a\n"),
        _NO_STENCIL,
        _NEXT,
    ),
    "client: no job": (
        client(lambda client: client.job("58ab0886")),
        "There is no job '58ab0886'.",
        "'client.jobs()' lists yours; 'job.id' is the whole id.",
    ),
    "client: module without a constant": (
        by("client", program=_IN_MODULE, externals={"ppm": np}),
        "The program reads 'ppm.c1', but the external 'ppm' has no 'c1'.",
        "Pass an object or a mapping that has it.",
    ),
    "client: unknown operator": (
        by("client", process="column", expression="Gradient(t)"),
        _OPERATOR,
        "Did you mean 'GradientF2C'?",
    ),
    "client: NumPy array": (
        client(lambda client: client.stencil(PROGRAM, _any(np.ones((3, 4))))),
        f"{_THERE} 'ndarray'.",
        _ARRAY,
    ),
    "client: scalar NaN": (
        by("client", scalars={"weight": float("nan")}),
        "The value of 'weight' in 'scalars' must be finite, got nan.",
        _FINITE,
    ),
    "client: packed integers": (
        client(lambda client: client.stencil(PROGRAM, packed(), scalars={"weight": 0.5})),
        "Field 't' is float64, but variable 't' is int16.",
        _PACKED,
    ),
    "client: packed band": (
        client(lambda client: client.tridiagonal(packed(), **_any({**BANDS, "rhs": "t"}))),
        "Variable 't' (rhs) must be float32 or float64, got int16.",
        _PACKED,
    ),
    "client: boundary of xgcm": (
        by("client", boundary={"x": "extend"}),
        f"Argument 'boundary.x' must be {_RULES}, got 'extend'.",
        "Write boundary={'x': 'edge'}.",
    ),
    "client: periodic": (
        client(lambda client: _any(client.stencil)(PROGRAM, sea(), periodic=True)),
        "stencil() has no argument 'periodic'.",
        "Boundaries are given by dimension: boundary={'x': 'periodic'}.",
    ),
    "client: name": (
        client(lambda client: _any(client.stencil)(PROGRAM, sea(), name="night")),
        "stencil() has no argument 'name': it was renamed to 'stencil_name'.",
        "Write stencil_name='night', or job_name='night' for the name of the job.",
    ),
    "client: module by its path": (
        by("client", program=_IN_MODULE, externals={"ppm": Path("ppm.py")}),
        "The external 'ppm' must be a module, a function or a number, got the path 'ppm.py'.",
        "Modules are not read from files: import it, and pass externals={'ppm': ppm}, or write its"
        " constants into the text, below 'class ppm:'.",
    ),
    "command: missing scalar": (
        command("submit", "smooth.py", "sea.nc"),
        "error: Scalar 'weight' needs a value, got none.",
        "Give it: --scalar weight=VALUE.",
    ),
    "command: two words": (
        command("submit", "smooth.py", "sea.nc", "--boundary", "x=periodic", "y=edge"),
        "error: 'y=edge' belongs to no option: '--boundary' takes one value.",
        "Repeat the option: --boundary x=periodic --boundary y=edge.",
    ),
    "command: folder": (
        command("submit", "smooth.py", "no_store"),
        _NO_FOLDER,
        "Pass the path of a Zarr store, or of a NetCDF file.",
    ),
    "command: upload of a folder": (
        command("upload", "no_store"),
        _NO_FOLDER,
        "Pass the path of a Zarr store, or of a NetCDF file.",
    ),
    "command: missing program": (
        command("submit", "missing.py", "sea.nc"),
        "error: The program 'missing.py' cannot be read: No such file or directory.",
        "Name a '.py' file that is here.",
    ),
    "command: no place for the result": (
        command("run", "job.toml"),
        "error: The result 'result.zarr' exists already.",
        "Choose another path with --output, or remove it.",
    ),
    "command: periodic": (
        command("submit", "smooth.py", "sea.nc", "--periodic"),
        "error: There is no option '--periodic'.",
        "Boundaries are given by dimension: --boundary x=periodic.",
    ),
    "command: padding": (
        command("submit", "smooth.py", "sea.nc", "--padding=extend"),
        "error: There is no option '--padding'.",
        "Boundaries are given by dimension: --boundary x=edge.",
    ),
    "client: missing file": (
        by("client", dataset="nothing.nc"),
        f"Dataset 'nothing.nc' {_NOWHERE}",
        _looked("nothing.nc"),
    ),
    "client: missing file by an absolute path": (
        by("client", dataset="/data/sea.nc"),
        "Dataset '/data/sea.nc' is not on this machine, and the service may not read it.",
        _looked("/data/sea.nc"),
    ),
    "client: upload of a missing file": (
        client(lambda client: client.stencil(PROGRAM, ["nothing.nc", "none.nc"])),
        "Dataset 'nothing.nc' is not on this machine.",
        f"There is no '{Path.cwd()}/nothing.nc' here. Jobs also take the datasets that"
        " 'client.datasets()' lists, by name.",
    ),
    "client: object store": (
        by("client", dataset="s3://bucket/sea.zarr"),
        _no_scheme("s3"),
        "Open it with xarray.open_zarr or xarray.open_dataset, and pass the dataset." + _KINDS,
    ),
    "command: missing file": (
        command("submit", "smooth.py", "/data/sea.nc", "--scalar", "weight=1"),
        "error: Dataset '/data/sea.nc' is not on this machine, and the service may not read it.",
        "There is no '/data/sea.nc' here. 'halocline datasets' lists the datasets of the service.",
    ),
    "command: missing file beside one that is here": (
        command("submit", "inputs.json", "sea.nc", "--process", "regrid"),
        f"error: Dataset '/data/weights.nc' {_NOWHERE}".replace(
            "has no dataset of this name", "may not read it"
        ),
        "There is no '/data/weights.nc' here. 'halocline datasets' lists the datasets of the"
        " service.",
    ),
    "command: object store": (
        command("submit", "smooth.py", "gs://bucket/sea.zarr"),
        "error: " + _no_scheme("gs"),
        "Copy it to this machine first." + _KINDS,
    ),
    "command: status": (
        command("status"),
        "error: There is no command 'halocline status'.",
        "Write halocline show ID.",
    ),
    "command: list": (
        command("list", "--limit", "3"),
        "error: There is no command 'halocline list'.",
        "Write halocline ls.",
    ),
    "command: process": (
        command("regrid", "sea.nc", "weights.nc"),
        "error: There is no command 'halocline regrid'.",
        "Write halocline run INPUTS.json --process regrid.",
    ),
    "command: misspelt": (
        command("sumbit", "smooth.py", "sea.nc"),
        "error: There is no command 'halocline sumbit'.",
        "Write halocline submit.",
    ),
    "command: of the server": (
        command("up"),
        "error: There is no command 'halocline up'.",
        "Write halocline-server up.",
    ),
    "command: list of uploads": (
        command("uploads", "list"),
        "error: There is no command 'halocline uploads list'.",
        "Write halocline uploads ls.",
    ),
    "command: cyclic boundary": (
        command("submit", "smooth.py", "sea.nc", "--scalar", "weight=1", "--boundary", "x=cyclic"),
        f"error: Input 'boundary.x' must be {_RULES}, got 'cyclic'.",
        "Write --boundary x=periodic.",
    ),
    "rest: object store": (
        by("rest", dataset="s3://bucket/sea.zarr"),
        "Dataset 's3://bucket/sea.zarr' cannot be read: the service reads no 's3:' addresses, and"
        " no object stores yet.",
        "Name a dataset from GET /datasets, 'upload:<id>' or 'job:<id>'; POST /uploads sends one of"
        " yours.",
    ),
    "rest: missing dataset": (
        by("rest", dataset="nothing.zarr"),
        "There is no dataset 'nothing.zarr' under the folders that may be read.",
        "GET /datasets lists those of the service; POST /uploads sends one of yours.",
    ),
    "rest: number as text": (
        by("rest", steps="200", feedback={"t": "s"}),
        "Input 'steps' must be a whole number, got '200'.",
        'Write "steps": 200.',
    ),
    "rest: parameter": (
        get("/jobs?state=failed"),
        "Parameter 'state' is unknown.",
        "Did you mean 'status'?",
    ),
    "rest: path": (
        get("/nothing"),
        "GET '/nothing': Not Found.",
        "GET /api describes every path; start at /.",
    ),
    "rest: unknown operator": (
        by("rest", process="column", expression="Gradient(t)"),
        _OPERATOR,
        "Did you mean 'GradientF2C'?",
    ),
    "rest: boundary of one end": (
        by("rest", boundary={"x": {"low": "edge", "high": "fill"}}),
        f"Input 'boundary.x.high' must be {_RULES}, got 'fill'.",
        'Write "boundary": {"x": {"high": {"constant": 0.0}}}.',
    ),
    "rest: axes reversed": (
        by("rest", axes={"x": "I"}),
        "The name 'x' in input 'axes' must be 'I', 'J' or 'K'.",
        'Write "axes": {"I": "x"}.',
    ),
    "rest: periodic": (
        by("rest", periodic=True),
        "Input 'periodic' is unknown.",
        'Boundaries are given by dimension: "boundary": {"x": "periodic"}.',
    ),
    "rest: constants of a module": (
        by("rest", program=_IN_MODULE.replace("ppm.c1", "ppm.c1 + ppm.c2")),
        "'ppm.c1' is imported from a module, and modules are not read.",
        'Pass "externals": {"ppm": {"c1": ..., "c2": ...}} (\'ppm\' may be the module itself), or'
        " define them in the text.",
    ),
    "rest: no feedback": (
        by("rest", steps=3),
        _NO_FEEDBACK,
        'Say which one: "feedback": {"s": "t"}.',
    ),
    "page: boundary of an axis": (
        by("page", boundary={"X": "periodic"}),
        "A boundary was given for 'X', which is not a dimension of the program's fields.",
        "'X' is the dimension 'x': x=periodic in 'Boundary'.",
    ),
    "page: missing scalar": (
        by("page", scalars={}),
        "Scalar 'weight' needs a value, got none.",
        "Give it: weight=VALUE in 'Scalars'.",
    ),
    "page: no feedback": (
        by("page", steps=3),
        _NO_FEEDBACK,
        "Say which one: s=t in 'Feedback'.",
    ),
    "page: reversed feedback": (
        by("page", steps=3, feedback={"t": "s"}),
        "Feedback must come from a field that is written, got 't'.",
        "Write s=t in 'Feedback'.",
    ),
    "page: boundary of no dimension": (
        by("page", boundary={"lon": "edge"}),
        "A boundary was given for 'lon', which is not a dimension of the program's fields.",
        "There are 'x', 'y', 'z'.",
    ),
    "page: dataset": (
        by("page", dataset="nothing.zarr"),
        "There is no dataset 'nothing.zarr' under the folders that may be read.",
        "'Datasets' lists those of the service; 'Datasets' sends one of yours.",
    ),
    "page: grid for weights": (
        by("page", process="regrid"),
        "The weights hold neither 'row', 'col' and 'S' (ESMF) nor 'dst_address', 'src_address' and"
        " 'remap_matrix' (SCRIP).",
        "Write them with ESMF_RegridWeightGen, xESMF or SCRIP.",
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_mistake_of_the_table_has_its_answer(place: Place, name: str) -> None:
    ask, message, hint = TABLE[name]
    answer = ask(place)
    assert (answer.message.strip(), answer.hint.strip()) == (message, hint)
    assert faults_of(answer, Mistake("")) == []


def test_a_program_before_its_dataset(place: Place) -> None:
    answer = command("submit", "sea.nc", "smooth.py")(place)
    assert "The program comes first, then the dataset: smooth.py sea.nc." in answer.message
    assert not answer.computed


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("lon:periodic", "got 'lon:periodic'. Write --boundary lon=periodic."),
        ("lon", "got 'lon'. Write --boundary lon=KIND."),
        ("periodic", "got 'periodic'. Write --boundary DIM=periodic."),
        ("=edge", "got '=edge'. Write --boundary DIM=KIND."),
    ],
)
def test_a_boundary_without_an_equals_sign(place: Place, word: str, told: str) -> None:
    answer = command("submit", "smooth.py", "sea.nc", "--boundary", word)(place)
    lines = " ".join(answer.message.replace("│", " ").split())
    assert f"Invalid value for --boundary: Expected NAME=VALUE, {told}" in lines
    assert not answer.computed


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("run", "There is no 'dataset.halocline.run'. Did you mean 'dataset.halocline.stencil'?"),
        ("regridd", "There is no 'dataset.halocline.regridd'. Did you mean 'dataset.halocline.re"),
        ("plot", "There is no 'dataset.halocline.plot'. There are: column, factor, gather, mat"),
    ],
)
def test_a_method_that_datasets_do_not_have(name: str, told: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(_any(sea()).halocline, name)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("kind", [hc.Client, hc.AsyncClient])
def test_a_method_that_clients_do_not_have(kind: Any) -> None:
    with pytest.raises(
        AttributeError, match=r"^There is no 'client\.run'\. Did you mean 'client\.st"
    ):
        _ = kind("http://127.0.0.1:9").run
    assert not hasattr(kind("http://127.0.0.1:9"), "_nothing")


def test_datasets_of_a_service_are_listed(place: Place, service_roots: Path) -> None:
    _any(sea()).to_netcdf(service_roots / "sea.nc")
    try:
        assert place.client.datasets() == ["sea.nc"]
        assert run_command(["datasets"], place).message == "Exit 0: sea.nc\n"
        assert by("client", dataset="sea.nc", steps=3)(place).message == _NO_FEEDBACK
    finally:
        (service_roots / "sea.nc").unlink()
    assert place.client.datasets() == []
    answer = run_command(["datasets"], place)
    assert answer.message == "Exit 0: The service has no datasets of its own.\n"


def test_a_job_file_in_yaml_has_an_example_in_yaml(place: Place) -> None:
    answer = command("submit", "job.yaml")(place)
    assert "is not YAML" in answer.message
    assert answer.hint.startswith("Write for example 'process: stencil' and 'inputs: {program:")


def test_a_stencil_that_the_text_does_not_hold(place: Place) -> None:
    answer = raised(lambda: he.stencil(PROGRAM, stencil_name="my run", target="reference"))
    assert answer.message == "The text holds no stencil 'my run'; it has 'smooth'."
    assert answer.hint == "Name one that the text holds, or leave it out."


def test_a_folder_without_a_store(tmp_path: Path) -> None:
    answer = run(tmp_path)(Place(*[None] * 4))  # pyright: ignore[reportArgumentType]
    assert answer.message.startswith(f"The folder '{tmp_path}' is not a Zarr store: it has none of")
    assert answer.hint == "Pass the path of a Zarr store, or of a NetCDF file."


@pytest.mark.parametrize("address", ["/ui", "/ui/", "/ui/jobs/01a2"])
def test_the_address_that_a_browser_shows(place: Place, address: str) -> None:
    with hc.Client(f"{place.url}{address}") as client:
        assert client.jobs() == []


def test_a_job_by_the_end_of_its_id(place: Place) -> None:
    job = place.client.stencil(PROGRAM, sea(), scalars={"weight": 0.25}, target="reference")
    assert place.client.job(job.id[-8:]).id == job.id
    job.wait()


def test_the_address_of_a_result_leads_to_its_listing(place: Place) -> None:
    job = place.client.stencil(PROGRAM, sea(), scalars={"weight": 0.25}, target="reference")
    address = job.result_url().rstrip("/")
    answer = httpx2.get(address, trust_env=False)
    assert (answer.status_code, answer.headers["Location"]) == (307, f"{address}/")


def test_gpu_means_cuda(place: Place) -> None:
    plan = place.client.stencil(PROGRAM, sea(), scalars={"weight": 0.25}, target="gpu")
    assert plan.inputs["target"] == "cuda"
    plan.cancel()
