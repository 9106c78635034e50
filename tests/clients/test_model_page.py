"""The model page: its job file, its Python and its curl give one result, that of a NumPy loop."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gyre
import numpy as np
import pytest
import xarray as xr

from halocline.command.cli import main

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]
PAGE = (Path(__file__).parents[2] / "docs" / "model.md").read_text("utf-8")
_BLOCK = re.compile(r"^```([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_each_way_gives_the_result_of_a_loop_in_numpy(
    service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks: list[tuple[str, str]] = _BLOCK.findall(PAGE)
    (job,) = (code for kind, code in blocks if kind == "toml")
    assert len(job.splitlines()) <= 70
    Path("gyre.toml").write_text(job)
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for kind, code in blocks:
            if kind in {"python", "python other"}:
                exec(code, names)  # noqa: S102 - our own text
    assert [printed.getvalue()] == [code for kind, code in blocks if kind == "text"]
    here: Any = names["result"]

    with pytest.raises(SystemExit) as end:
        main(["run", "gyre.toml", "--quiet", "--url", service])
    assert end.value.code == 0
    (script,) = (code for kind, code in blocks if kind == "sh client")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    command = ["bash", "-e", "-c", f"URL={service}\n{script}"]
    subprocess.run(command, check=True, timeout=100, capture_output=True)

    opened: Any = xr
    for path in ("gyre.nc", "curl.nc"):
        with opened.open_dataset(path) as there:
            assert set(there.data_vars) == set(here.data_vars)
            for name in here.data_vars:
                wanted = here[name].values
                np.testing.assert_array_equal(there[name].transpose(*here[name].dims), wanted)

    data: Any = gyre.gyre_dataset(60, 48, 4)
    now: tuple[Any, Any, Any] = (data["h"].values, data["u"].values, data["v"].values)
    for step in range(1000):
        day, part = divmod(300.0 * step / 86400.0, 1.0)
        records = data["taux"].values[int(day) : int(day) + 2]
        wind = records[0] + part * (records[1] - records[0])
        now = gyre.step_gyre(*now, wind, data["f"].values)
    for name, wanted in zip("huv", now, strict=True):
        made = here[f"{name}_new"].transpose(*data[name].dims).values
        # The rounding of heights of 500 m makes waves, relative to which currents are small.
        most = (1e-12 if name == "h" else 1e-11) * abs(wanted).max()
        np.testing.assert_allclose(made, wanted, rtol=0, atol=most)
    assert abs(here["mass"] / data["h"].values.sum() - 1.0).max() <= 1e-14
