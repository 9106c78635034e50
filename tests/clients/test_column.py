"""Operators on staggered columns through the real service: what is sent, and what comes back."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import re
import runpy
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import iris_sample_data  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import xarray as xr

import halocline.accessor  # noqa: F401 # pyright: ignore[reportUnusedImport] - for its effect
import halocline_engine as he
from halocline.client import Client
from halocline.errors import JobFailed, ProgramError, RequestError

# A request to a Zarr store leaves its connection pool to the interpreter's end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

SAMPLE = Path(iris_sample_data.path) / "hybrid_height.nc"
TEXT = """gradient = GradientC2F(bottom=SetGradient(g), top=SetGradient(0.0))(theta)
tendency = DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))(2.5 * GradientC2F()(theta))"""


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as made:
        yield made


def test_potential_temperature_on_hybrid_height(client: Client) -> None:
    """The result is that of the engine, which is checked against NumPy and xgcm."""
    options: dict[str, Any] = {
        "fields": {"theta": "air_potential_temperature"},
        "scalars": {"g": 0.01},
        "dtype": "float64",
        "target": "reference",
        "chunks": {"grid_latitude": 40, "grid_longitude": 100},
    }
    with xr.open_dataset(SAMPLE) as opened:
        dataset = opened.load()
    dataset["air_potential_temperature"][6, 40:60, 30] = np.nan
    job = cast("Any", dataset).halocline.column(TEXT, client=client, **options)
    result, here = job.result(progress=False), he.column(TEXT, dataset, **options)
    for name in ("gradient", "tendency"):
        assert result[name].dims == here[name].dims
        assert np.array_equal(result[name].values, here[name].values, equal_nan=True)
    assert int(np.isnan(result["gradient"].values).sum()) == 40
    assert np.array_equal(result["level_height_face"].values, here["level_height_face"].values)
    assert job.plan()["blocks"] == 3


def test_arguments_of_every_kind_arrive(client: Client) -> None:
    faces, middles = np.arange(5.0), np.arange(5.0) + 0.5
    dataset = xr.Dataset(
        {"a": ("lev", middles**2), "h": ("ilev", faces)},
    )
    options: dict[str, Any] = {
        "axis": {"centre": "lev", "face": "ilev"},
        "boundary": {"lev": "periodic"},
        "name": "slope",
        "target": "reference",
    }
    dataset = dataset.assign_coords(m=("lev", middles))
    text = "GradientC2F()(a)"
    result = client.column(text, dataset, heights="h", **options).result(progress=False)
    here = he.column(text, dataset, heights="h", **options)
    assert np.array_equal(result["slope"].values, here["slope"].values)


def test_the_pages_example(
    service: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (Path(__file__).parents[2] / "docs/columns.md").read_text("utf-8")
    (text,) = re.findall(r"^```python client\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    fast = text.replace("scalars=", 'target="reference", scalars=')
    (tmp_path / "example.py").write_text(fast)
    monkeypatch.setenv("HALOCLINE_URL", service)
    runpy.run_path(str(tmp_path / "example.py"))
    assert f"```text\n{capsys.readouterr().out}```" in page


def test_what_the_text_tells_is_refused_at_once(client: Client) -> None:
    with pytest.raises(ProgramError) as caught:
        client.column("GradientC2F(bottom=)(a)", "a.zarr")
    assert (caught.value.line, caught.value.column) == (1, 20)
    with pytest.raises(RequestError) as refused:
        client.column("a", "a.zarr", mode="resident")
    assert refused.value.message == (
        "Input 'mode' of the request is wrong: input should be 'auto' or 'streamed'."
    )


def test_what_only_the_data_can_tell_fails_the_job(client: Client) -> None:
    dataset = xr.Dataset({"a": ("z", np.arange(3.0))}, coords={"h": ("z_f", np.arange(4.0))})
    job = client.column("GradientF2C()(a)", dataset, axis={"centre": "z", "face": "z_f"})
    with pytest.raises(JobFailed) as caught:
        job.result(progress=False)
    assert isinstance(caught.value.error, ProgramError)
    assert "takes this argument on faces, but it is on centres" in str(caught.value.error)
