"""Whole modules as programs: what they need for themselves is passed over, and nothing is run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import halocline_engine as he
from halocline.gtscript import IJ, Field, GlobalTable

TEXT = '''
"""A module of a model, which does much beside its stencil."""

import xarray as xr
import matplotlib.pyplot as plt
from model.dsl import Float, FloatField, FloatFieldIJ
from model.tracers import Tracers
import model.constants as constants
from model.constants import CP, Table

A, B = 1.0, 2.0


class Driver:
    """Calls the stencil."""

    LEVEL = 2

    def __init__(self, factory):
        self._stencil = factory.make(surface)

    def __call__(self):
        if self._steps[0] < 0:
            raise ValueError(f"{self._steps[0]!r} steps, {', '.join(f'{s:>3}' for s in self._all)}")
        self._stencil()


def surface(q: FloatField, s: FloatFieldIJ, tracers: Tracers, table: Table, c: Float):
    with computation(FORWARD), interval(...):
        t: FloatFieldIJ = 0.0
        t = q * constants.GRAVITY + CP * c
        s = t + tracers.A[1] + table.A[Driver.LEVEL]


if __name__ == "__main__":
    for step in range(3):
        print(step)
'''
GIVEN = {"constants": {"GRAVITY": 9.81}, "CP": 2.0}
AS_TEXT = {
    "Float": "float64",
    "FloatField": "Field[np.float64]",
    "FloatFieldIJ": "Field[IJ, np.float64]",
    "Tracers": "Field[(np.float64, (3,))]",
    "Table": "GlobalTable[(np.float64, (4,))]",
}
AS_TYPES = {
    "Float": np.float64,
    "FloatField": Field[np.float64],
    "FloatFieldIJ": Field[IJ, np.float64],
    "Tracers": Field[(np.float64, (3,))],
    "Table": GlobalTable[(np.float64, (4))],
}


@pytest.mark.parametrize("dtypes", [AS_TEXT, AS_TYPES], ids=["text", "types"])
def test_types_and_constants_of_other_modules_are_given(dtypes: dict[str, Any]) -> None:
    stencil = he.stencil(TEXT, dtypes=dtypes, externals=GIVEN, target="reference")
    random = np.random.default_rng(1)
    q, tracers = random.normal(size=(3, 4, 5)), random.normal(size=(3, 4, 5, 3))
    s, table = np.full((3, 4), np.nan), random.normal(size=4)
    stencil(q, s, tracers, table, 1.5, domain=(3, 4, 5))
    np.testing.assert_array_equal(s, q[..., -1] * 9.81 + 2.0 * 1.5 + tracers[..., -1, 1] + table[2])


def test_a_file_with_the_imports_of_a_script_is_a_program() -> None:
    text = (
        "import numpy as np\nimport xarray as xr\nimport matplotlib.pyplot as plt\n\n"
        "ds = xr.open_dataset('sea.nc')\nds.sst.plot()\nplt.show()\n\n\n"
        "def double(a: Field[np.float64], b: Field[np.float64]):\n"
        "    with computation(PARALLEL), interval(...):\n"
        "        b = 2.0 * a\n"
    )
    a, b = np.ones((2, 3, 4)), np.empty((2, 3, 4))
    he.stencil(text, target="reference")(a, b)
    np.testing.assert_array_equal(b, 2.0)
