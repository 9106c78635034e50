"""The whole service, started by its one command, on real data with the real engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from importlib.resources import files
from pathlib import Path
from typing import Any

import h5py  # pyright: ignore[reportMissingTypeStubs] - none
import numpy as np
import pytest
import xarray as xr

_xr: Any = xr
_h5py: Any = h5py
_NEMO = "NEMO/nemo_1m_20150101-20150201_grid-T.nc"
_STEPS = 6
_ALPHA = 0.125

# Diffusion along x and y with land (NaN) as a wall: nothing flows through a face beside it.
_PROGRAM = """
import numpy as np
from gt4py.cartesian.gtscript import Field, PARALLEL, computation, interval

def diffuse(tos: Field[np.float32], out: Field[np.float32], *, alpha: np.float32):
    with computation(PARALLEL), interval(...):
        west = 0.0 if isnan(tos[-1, 0, 0] - tos) else tos[-1, 0, 0] - tos
        east = 0.0 if isnan(tos[1, 0, 0] - tos) else tos[1, 0, 0] - tos
        south = 0.0 if isnan(tos[0, -1, 0] - tos) else tos[0, -1, 0] - tos
        north = 0.0 if isnan(tos[0, 1, 0] - tos) else tos[0, 1, 0] - tos
        out = tos + alpha * (west + east + south + north)
"""


def sample_data() -> Path:
    return Path(str(files("iris_sample_data"))) / "sample_data"


def bad_datasets(folder: Path) -> None:
    folder.mkdir()
    (folder / "broken.nc").write_bytes(b"\x89HDF\r\n\x1a\n" + b"x" * 100)
    with _h5py.File(folder / "spying.nc", "w") as file:
        file["tos"] = _h5py.ExternalLink("/etc/passwd", "/")
    (folder / "empty.zarr").mkdir()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    folder = tmp_path_factory.mktemp("up")
    made = folder / "data"
    bad_datasets(made)
    with (folder / "err").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "halocline_service.cli", "up", "--port", "0"),
                *("--workers", "1", "--gpus", "0"),
                *("--data-dir", str(folder / "state"), "--data-root", str(sample_data())),
                *("--data-root", str(made)),
            ],
            env={**os.environ, "HALOCLINE_POLL_SECONDS": "0.1"},
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline().decode()
        found = re.match(r"Halocline is at (http://\S+); data in (\S+); 1 CPU worker\.", line)
        assert found is not None, (line, (folder / "err").read_text())
        assert found.group(2) == str(folder / "state")
        yield found.group(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def call(url: str, body: Any = None, method: str | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def submit(url: str, **changes: Any) -> str:
    inputs = {
        "program": _PROGRAM,
        "dataset": _NEMO,
        "scalars": {"alpha": _ALPHA},
        "axes": {"I": "x", "J": "y"},
        "boundary": {"x": "periodic", "y": "edge"},
        "steps": _STEPS,
        "feedback": {"out": "tos"},
        "target": "reference",
    }
    return call(f"{url}/processes/stencil/execution", {"inputs": inputs | changes})["jobID"]


def finished(url: str, job: str) -> Any:
    end = time.monotonic() + 90
    while True:
        info = call(f"{url}/jobs/{job}")
        if info["status"] in ("successful", "failed"):
            return info
        assert time.monotonic() < end, info
        time.sleep(0.1)


def expected(values: Any) -> Any:
    """Compute the same in NumPy, written another way."""
    now = values.astype("float32")
    alpha = np.float32(_ALPHA)
    for _ in range(_STEPS):
        wide = np.concatenate([now[..., -1:], now, now[..., :1]], axis=-1)
        tall = np.concatenate([now[..., :1, :], now, now[..., -1:, :]], axis=-2)
        neighbours = (wide[..., :-2], wide[..., 2:], tall[..., :-2, :], tall[..., 2:, :])
        total = np.zeros_like(now)
        for neighbour in neighbours:
            total = total + np.nan_to_num(neighbour - now, nan=0.0)
        now = now + alpha * total
    return now


def test_a_real_field_is_diffused(url: str) -> None:
    job = submit(url)
    info = finished(url, job)
    assert info["status"] == "successful", info
    with _xr.open_dataset(sample_data() / _NEMO) as source:
        before = source["tos"].values
    href = call(f"{url}/jobs/{job}/results")["result"]["href"]
    with _xr.open_zarr(href) as result:
        after = result["out"].values.reshape(before.shape)
    assert np.array_equal(np.isnan(after), np.isnan(before))
    assert np.isnan(before).mean() > 0.3
    np.testing.assert_allclose(after, expected(before), rtol=1e-5, equal_nan=True)
    sea = ~np.isnan(before)
    assert np.std(after[sea]) < np.std(before[sea])
    plan = call(f"{url}/jobs/{job}/plan")
    assert (plan["target"], plan["steps"]) == ("reference", _STEPS)
    kinds = [line.split()[1] for line in _text(f"{url}/jobs/{job}/log").splitlines()]
    assert kinds[:3] == ["status", "status", "planned"]
    assert kinds[-3:] == ["finished", "ceilings", "status"]


def _text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


_WRONG: list[tuple[str, dict[str, Any]]] = [
    ("field", {"fields": {"tos": "nothing"}}),
    ("field", {"program": _PROGRAM.replace("Field[np.float32]", "Field[np.float64]")}),
    ("axis", {"axes": {"I": "nothing", "J": "y"}}),
    ("boundary", {"boundary": {"nothing": "edge"}}),
    ("dataset", {"dataset": "broken.nc"}),
    ("dataset", {"dataset": "spying.nc"}),
    ("dataset", {"dataset": "empty.zarr"}),
]


def test_what_needs_no_data_is_a_problem_at_once(url: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        submit(url, boundary={"x": {"low": "periodic", "high": "edge"}})
    with caught.value as error:
        assert (error.code, json.load(error)["code"]) == (400, "boundary")


def test_what_the_engine_refuses_is_a_problem(url: str) -> None:
    """Each is found in the data's metadata at submission, and answered as what it is."""
    for code, changes in _WRONG:
        with pytest.raises(urllib.error.HTTPError) as caught:
            submit(url, **changes)
        with caught.value as error:
            problem = json.load(error)
        assert (error.code, problem["code"]) == (400, code), (changes, problem)
        assert problem["detail"].endswith(".")
        assert "root:" not in str(problem)
