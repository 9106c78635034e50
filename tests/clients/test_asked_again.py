"""Jobs that are looked at, submitted again, planned, mapped, and computed here."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

import halocline as hc
from halocline import Client

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

SCALE = """
def scale(t: Field[np.float64], s: Field[np.float64], gain: float, shift: float = 0.0):
    with computation(PARALLEL), interval(...):
        s = gain * (t[-1, 0, 0] + t[2, 0, 0]) + shift
"""


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as made:
        yield made


def sea(seed: int = 1) -> xr.Dataset:
    values = np.random.default_rng(seed).normal(size=(6, 8))
    return xr.Dataset({"t": (("y", "x"), values)}, attrs={"history": "made"})


def submitted(client: Client, dataset: Any = None, **options: Any) -> hc.Job:
    given: dict[str, Any] = {"scalars": {"gain": 2.0}, "target": "reference"} | options
    return client.stencil(SCALE, sea() if dataset is None else dataset, **given)


def test_a_job_tells_what_it_was_asked_for(client: Client) -> None:
    job = submitted(client, job_name="night run", labels=["sst", "test"])
    assert (job.process, job.name, job.labels) == ("stencil", "night run", ["sst", "test"])
    assert job.inputs["scalars"] == {"gain": 2.0}
    assert job.inputs["program"] == SCALE
    assert job.inputs["dataset"].startswith("upload:")
    assert client.jobs(job_name="night", labels=["sst"]) == [job]
    assert client.jobs(labels=["ss"]) == []
    assert job in client.jobs(process="stencil", status=["accepted", "running", "successful"])
    assert client.jobs(since="1 hour", labels=["test"]) == [job]
    assert client.jobs(since="2100-01-01") == []
    array: Any = np.array(["sst", "test"])
    assert client.jobs(job_name="night", labels=array) == [job]


@pytest.mark.parametrize("labels", ["sst", [1, 2], np.array([1, 2])])
def test_labels_are_a_list_of_names(client: Client, labels: Any) -> None:
    with pytest.raises(hc.ArgumentError) as caught:
        client.jobs(labels=labels)
    assert str(caught.value).startswith("Argument 'labels' must be a list of names, got ")


def test_a_clone_has_the_same_inputs_but_some(client: Client) -> None:
    first = submitted(client, scalars={"gain": 2.0, "shift": 1.0}, job_name="a", labels=["b"])
    second = first.clone(scalars={"gain": 4.0}, boundary={"x": "periodic"})
    assert (second.name, second.labels) == ("a", ["b"])
    assert second.inputs == {
        **first.inputs,
        "scalars": {"gain": 4.0, "shift": 1.0},
        "boundary": {"x": "periodic"},
    }
    third = second.clone(boundary=None, dataset=sea(2), job_name="c", labels=[])
    assert (third.name, third.labels) == ("c", [])
    assert "boundary" not in third.inputs
    assert third.inputs["dataset"] != first.inputs["dataset"]
    t = sea(2)["t"].to_numpy()
    s = third.result(progress=False)["s"].transpose("y", "x").to_numpy()
    np.testing.assert_array_equal(s[:, 1:-2], 4.0 * (t[:, :-3] + t[:, 3:]) + 1.0)


def test_a_clone_is_checked(client: Client) -> None:
    job = submitted(client)
    with pytest.raises(hc.ArgumentError, match="Argument 'steps' must be a whole number"):
        job.clone(steps="many")
    with pytest.raises(hc.NameRuleError):
        job.clone(program=SCALE.replace("gain *", "gian *"))
    with pytest.raises(hc.RequestError, match="'stepps'"):
        job.clone(stepps=3)


def test_a_dry_run_is_a_plan(client: Client) -> None:
    dry = submitted(client, chunks={"y": 3}, dry_run=True)
    plan = dry.plan(timeout=60)
    assert (plan.target, plan.blocks, plan.halo) == ("reference", 2, {"x": (1, 2)})
    assert (plan.block, plan.passes) == ({"y": 3, "x": 8}, 1)
    assert plan.input_bytes == plan.result_bytes == 6 * 8 * 8
    assert plan.memory > plan.input_bytes
    assert str(plan).splitlines()[:4] == [
        "target   reference",
        "workers  1",
        "blocks   2 of x 8, y 3",
        "halo     x 1+2",
    ]
    assert plan["projected_bytes"] == plan.memory
    with pytest.raises(hc.ArgumentError, match="is no dataset, but plan") as told:
        dry.result(progress=False)
    assert "'clone()' submits the job" in told.value.hint
    assert (dry.process, dry.inputs["scalars"]) == ("stencil", {"gain": 2.0})
    job = dry.clone()
    assert job.wait() == "successful"
    assert job.inputs == dry.inputs
    assert job.plan().blocks == 2
    again = job.clone(dry_run=True)
    assert again.plan().blocks == 2


def test_a_dry_run_that_fails_says_why(client: Client) -> None:
    with pytest.raises(hc.AxisError):
        submitted(client, dataset=sea().rename(y="a", x="b"), dry_run=True)
    reference = client.upload(xr.Dataset({"t": ("x", [1.0]), "at": ("n", [7])}))
    dry = client.gather(reference, source="t", index="at", dim="x", dry_run=True)
    with pytest.raises(hc.JobFailed):
        dry.plan()


def test_a_map_gives_outcomes_in_order(client: Client) -> None:
    active: list[int] = []

    def submit(seed: int) -> hc.Job:
        active.append(seed)
        if seed == 2:
            return submitted(client, dataset=sea().rename(y="a", x="b"))
        if seed == 3:
            return submitted(client, dataset="none.zarr")
        return submitted(client, dataset=sea(seed))

    outcomes = list(client.map(submit, range(6), at_once=2))
    errors = [type(outcome.error).__name__ for outcome in outcomes]
    assert errors == ["NoneType", "NoneType", "AxisError", "DatasetError", "NoneType", "NoneType"]
    assert outcomes[3].job is None
    for seed in (0, 1, 4, 5):
        s = outcomes[seed].result()["s"].transpose("y", "x").to_numpy()
        t = sea(seed)["t"].to_numpy()
        np.testing.assert_array_equal(s[:, 1:-2], 2.0 * (t[:, :-3] + t[:, 3:]))
    with pytest.raises(hc.AxisError):
        outcomes[2].result()


def test_a_map_takes_datasets_as_jobs_end(client: Client) -> None:
    taken: list[int] = []

    def datasets() -> Generator[int]:
        for seed in range(100):
            taken.append(seed)
            yield seed

    outcomes = client.map(lambda seed: submitted(client, dataset=sea(seed)), datasets(), at_once=2)
    assert next(outcomes).error is None
    assert len(taken) <= 3
    cast("Any", outcomes).close()


@pytest.mark.parametrize(
    ("submit", "datasets", "told"),
    [
        (5, [1], "Argument 'submit' must be a function of a dataset, got 'int'."),
        (len, 5, "Argument 'datasets' must be iterable, got 'int'."),
        (len, "abc", "Argument 'datasets' must be iterable, got 'str'."),
    ],
)
def test_what_a_map_cannot_do(client: Client, submit: Any, datasets: Any, told: str) -> None:
    with pytest.raises(hc.ArgumentError) as error:
        client.map(submit, datasets)
    assert error.value.message == told


def test_what_is_no_job_is_an_outcome(client: Client) -> None:
    (outcome,) = client.map(cast("Any", len), ["abc"])
    assert str(outcome.error).startswith("Argument 'submit' must return a Job, got 'int'.")


def test_own_results_are_datasets_by_their_address(client: Client) -> None:
    first = submitted(client)
    address = first.result_url()
    for named in (first, address, f"{address}/", f"job:{first.id}"):
        job = client.stencil(
            SCALE, named, fields={"t": "s"}, scalars={"gain": 1.0}, target="reference"
        )
        assert job.inputs["dataset"] == f"job:{first.id}"
        assert job.wait() == "successful"


def test_addresses_elsewhere_and_jobs_elsewhere_are_refused(client: Client) -> None:
    with pytest.raises(hc.DatasetError) as told:
        submitted(client, dataset="https://example.org/sea.zarr")
    assert told.value.message == (
        f"The address 'https://example.org/sea.zarr' is not one of the service at '{client.url}'."
    )
    with Client("http://127.0.0.1:1") as other:
        job = submitted(client)
        job.wait()
        with pytest.raises(hc.DatasetError, match=f"Job '{job.id}' is at '{client.url}', but"):
            submitted(other, dataset=job)


def test_the_same_is_computed_here(client: Client, tmp_path: Path) -> None:
    job = submitted(client, boundary={"x": "periodic"}, job_name="a")
    there: Any = cast("Any", job.result(progress=False)).load()
    here: Any = hc.run_local("stencil", **(job.inputs | {"dataset": sea()}))
    cast("Any", xr).testing.assert_identical(
        there.drop_attrs(deep=False), here.drop_attrs(deep=False)
    )
    own = {"halocline_job", "halocline_datasets", "history"}
    assert {k: v for k, v in there.attrs.items() if k not in own} == {
        k: v for k, v in here.attrs.items() if k not in own
    }
    newest, older = there.attrs["history"].splitlines()
    assert newest.endswith(f", job {job.id}")
    assert older == "made"
    (upload,) = (job.inputs["dataset"],)
    digest = next(u["digest"] for u in client.uploads.list() if u["reference"] == upload)
    assert digest in there.attrs["halocline_datasets"]
    cast("Any", sea()).to_netcdf(tmp_path / "sea.nc")
    stored = hc.run_local(
        "stencil",
        program=SCALE,
        dataset=tmp_path / "sea.nc",
        scalars={"gain": 2.0},
        boundary={"x": "periodic"},
        target="reference",
        output=tmp_path / "out.zarr",
    )
    np.testing.assert_array_equal(stored["s"].to_numpy(), here["s"].to_numpy())
    assert (tmp_path / "out.zarr" / "zarr.json").exists()


@pytest.mark.parametrize(
    ("process", "inputs", "told"),
    [
        ("stencils", {}, "There is no process 'stencils'."),
        ("stencil", {"dataset": sea()}, "Process 'stencil' needs the input 'program', got none."),
        ("gather", {"dataset": sea(), "sorce": "a"}, "Process 'gather' has no input 'sorce'."),
        ("gather", {"dataset": "job:1"}, "Argument 'dataset' must be an xarray Dataset or a path"),
        ("gather", {"dataset": 5}, "Argument 'dataset' must be an xarray Dataset or a path"),
        ("stencil", {"dataset": sea(), "program": SCALE, "steps": "a"}, "Argument 'steps' must"),
        (
            "matmul",
            {"dataset": sea(), "left": "t", "right": "u", "dim": "x"},
            "The dataset has no variable 'u'.",
        ),
    ],
)
def test_what_cannot_be_computed_here(process: str, inputs: dict[str, Any], told: str) -> None:
    with pytest.raises(hc.RequestError) as error:
        hc.run_local(process, **inputs)
    assert error.value.message.startswith(told)


def test_an_error_of_a_program_has_its_place_here_too() -> None:
    with pytest.raises(hc.NameRuleError) as error:
        hc.run_local("stencil", program=SCALE.replace("gain *", "gian *"), dataset=sea())
    assert (error.value.line, error.value.column) == (4, 13)


def _nothing(_name: str) -> None:
    """Find no module."""


def test_without_the_engine_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", _nothing)
    with pytest.raises(hc.ArgumentError) as error:
        hc.run_local("stencil", program=SCALE, dataset=sea())
    assert error.value.hint.startswith("Install it: pip install 'halocline[engine]'")


def test_importing_is_fast_and_registers_the_accessor_later() -> None:
    import subprocess
    import sys

    script = (
        "import time; start = time.process_time(); import halocline, sys;"
        "took = time.process_time() - start; assert 'xarray' not in sys.modules;"
        "import xarray as xr; a = xr.DataArray([1.0], dims='x', name='a');"
        "assert type(a.halocline) is type(a.to_dataset().halocline); print(took)"
    )
    took = min(
        float(
            subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
        )
        for _ in range(3)
    )
    assert took < 0.6  # of a processor; 0.15 s on a quiet one
