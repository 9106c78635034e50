"""The process that answers HTTP loads nothing that computes, in fact and not by rule only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

_SCRIPT = """
import json, sys
from pathlib import Path
from fastapi.testclient import TestClient
from halocline_service.api.checking.processes import CheckProcesses
from halocline_service.app import create_app
from halocline_service.settings import Settings
from halocline_service.store.memory.store import memory_store

folder = Path(sys.argv[1])
checks = CheckProcesses(1, seconds=60.0, memory=2**30)
settings = Settings(data_dir=folder, data_roots=[folder])
app = create_app(settings, store=memory_store(), checks=checks)
program = "def f(a: Field[float]):\\n  with computation(PARALLEL), interval(...):\\n    a = 1.0\\n"
with TestClient(app) as client:
    inputs = {"program": program, "dataset": "a.zarr"}
    answer = client.post("/processes/stencil/execution", json={"inputs": inputs})
    assert answer.status_code == 201, answer.text
    missing = {"program": program.replace("1.0", "2.0 * q"), "dataset": "a.zarr"}
    answer = client.post("/processes/stencil/execution", json={"inputs": missing})
    assert answer.status_code == 400, answer.text
    other = program.replace("a = ", "b = a + ").replace("a:", "b: Field[float], a:")
    inputs |= {"program": other, "steps": 2}
    answer = client.post("/processes/stencil/execution", json={"inputs": inputs})
    assert "must feed an input" in answer.text, answer.text
    assert client.get("/readyz").status_code == 503
heavy = ("cupy", "numba", "dask", "distributed", "xarray", "zarr", "h5py")
heavy += ("halocline_engine.functions",)
print(json.dumps([name for name in heavy if name in sys.modules]))
"""


def test_the_api_loads_nothing_that_computes(tmp_path: Path) -> None:
    stored: Any = xr.Dataset({"a": (("y", "x"), np.ones((2, 3)))})
    stored.to_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=False)
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path)],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
