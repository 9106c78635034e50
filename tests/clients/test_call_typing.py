"""Type checkers see a wrong name and a wrong type among arguments that functions share."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import halocline
import halocline_engine as he

SCRIPT = """
import xarray as xr
import halocline as hc
import halocline_engine as he
from halocline.accessor import HaloclineAccessor

data = xr.Dataset()
bands = he.factor(data, lower="a", diagonal="b", upper="c", dim="z", target="cpu", chunks={"x": 3})
he.solve(data, bands, rhs=["d"], output="x.zarr", on_event=print, cancelled=lambda: False)
he.solve(data, bands, rhs="d", tarhet="cpu")  # No parameter named "tarhet"
he.solve(data, bands, rhs="d", target=3)  # "target" of type "str"
he.solve(data, bands, target="cpu")  # Argument missing for parameter "rhs"
he.column("t", data, heights="h", mode="streamed")
he.column("t", data, heights=3)  # "heights" of type "str | None"
client = hc.Client()
client.gather(data, source="a", index="b", dim="c", fill=1.0, labels=["a"], dry_run=True)
client.gather(data, source="a", index="b")  # Argument missing for parameter "dim"
client.gather(data, source="a", index="b", dim="c", names="d")  # No parameter named "names"
client.submit("matmul", {}, job_name="a")
client.submit("matmul", {}, target="cpu")  # No parameter named "target"
here = HaloclineAccessor(data)
here.regrid(data, client=client, variables=["a"], target="cpu").wait()
here.regrid(data, client=client, variables=[3])  # "variables" of type "Sequence[str] | None"
here.tree(diagonal="a")  # Arguments missing for parameters
"""


@pytest.mark.timeout(300)
def test_pyright_reads_unpacked_arguments(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    settings = {
        "include": ["script.py"],
        "extraPaths": [str(Path(str(one.__file__)).parents[1]) for one in (halocline, he)],
        "pythonVersion": "3.11",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", str(tmp_path)]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = {
        one["range"]["start"]["line"]: one["message"]
        for one in json.loads(done.stdout)["generalDiagnostics"]
    }
    wrong = {
        number: line.partition("  # ")[2]
        for number, line in enumerate(SCRIPT.splitlines())
        if "  # " in line
    }
    assert told.keys() == wrong.keys()
    for number, expected in wrong.items():
        assert expected in told[number]
