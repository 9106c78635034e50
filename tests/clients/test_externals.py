"""Externals of every kind by the client: the service computes what the library does."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline as hc
import halocline_engine as he
from halocline import gtscript

CONSTANTS = """
from halocline.gtscript import Field, function

p1 = 7.0 / 12.0
p2 = -1.0 / 12.0


@function
def limited(value, low):
    return max(value, low)
"""
#: As models write it: nothing that it imports is installed, but for the words of the language.
PROGRAM = """
from gt4py.cartesian import gtscript
from gt4py.cartesian.gtscript import PARALLEL, computation, horizontal, interval, region

from ndsl.dsl.typing import FloatField
from ndsl.stencils.basic_operations import sign
from model.stencils import ppm


@gtscript.function
def interface(q):
    from __externals__ import i_end, i_start

    al = ppm.p1 * (q[-1, 0, 0] + q) + ppm.p2 * (q[-2, 0, 0] + q[1, 0, 0])
    with horizontal(region[i_start, :], region[i_end + 1, :]):
        al = 0.5 * (q[-1, 0, 0] + q)
    return al


def flux(q: FloatField, courant: FloatField, out: FloatField):
    with computation(PARALLEL), interval(...):
        out = sign(ppm.limited(interface(q), 0.1), courant)
"""


@pytest.fixture
def ppm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[ModuleType]:
    """Give a module of constants and functions."""
    (tmp_path / "ppm_of_a_model.py").write_text(CONSTANTS)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield importlib.import_module("ppm_of_a_model")
    del sys.modules["ppm_of_a_model"]


def sea() -> xr.Dataset:
    random = np.random.default_rng(1)
    names = ("q", "courant")
    return xr.Dataset({name: (("z", "y", "x"), random.normal(size=(2, 3, 12))) for name in names})


def given(ppm: ModuleType) -> dict[str, Any]:
    places = {"i_start": gtscript.I[0] + 3, "i_end": gtscript.I[-1] - 3}
    return {
        "externals": {**places, "ppm": ppm, "sign": gtscript.sign, "unused": object()},
        "dtypes": {"FloatField": "Field[np.float64]"},
        "target": "reference",
    }


def test_a_program_of_a_model_runs_unchanged(service: str, ppm: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "flux.py"
    file.write_text(PROGRAM)
    wanted = he.run(file, sea(), **given(ppm))["out"].values
    assert np.isfinite(wanted).any()
    with hc.Client(service) as client:
        found = client.stencil(file, sea(), **given(ppm)).result(progress=False)["out"].values
        np.testing.assert_array_equal(found, wanted)
        arguments = given(ppm)
        target = arguments.pop("target")
        stages = [{"stencil": {"program": file, **arguments}}]
        job = client.sequence(stages, sea(), target=target)
        np.testing.assert_array_equal(job.result(progress=False)["out"].values, wanted)


def test_a_module_that_lacks_a_name(service: str, tmp_path: Path) -> None:
    with hc.Client(service) as client, pytest.raises(hc.ArgumentError, match="has no 'limited'"):
        client.stencil(PROGRAM, sea(), **given(ModuleType("ppm")))


def test_places_on_axes() -> None:
    place = gtscript.J[-1] - 2
    assert (place.axis, place.index, place.offset) == ("J", -1, -2)
    assert 1 + gtscript.K[0] == gtscript.K[0] + 1
    assert (gtscript.I - 1).shift == -1
    assert ((gtscript.I + 2) - 1).name == "I"
