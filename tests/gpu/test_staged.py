"""Kernels that blocks run stage by stage on a real device, against the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import DIFFUSION, drawn

import halocline_engine as he
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.cache import Cache
from halocline_engine.device.machine import CudaMachine
from halocline_engine.schedule.options import Options, Temporaries
from halocline_engine.schedule.plan import plan

pytestmark = pytest.mark.gpu

SHAPE = (141, 67, 5)
HALO = (2, 2, 0)
DOMAIN = (137, 63, 5)


@pytest.mark.parametrize("alignment", [1, 128])
@pytest.mark.parametrize("kind", ["shared", "block", "block-moved", "field"])
def test_staged_diffusion(
    cupy: Any, machine: CudaMachine, tmp_path: Path, kind: Temporaries, alignment: int
) -> None:
    fields = {"inp": drawn(SHAPE, 1), "coeff": 0.1 * drawn(SHAPE, 2), "out": np.full(SHAPE, np.nan)}
    device = {name: cupy.asarray(array) for name, array in fields.items()}
    stencil = he.stencil(DIFFUSION, target="reference")
    stencil(**fields, origin=HALO, domain=DOMAIN)
    options = Options(temporaries=kind, alignment=alignment)
    schedule = plan(stencil.compiled.program, stencil.compiled.facts, options)
    assert bool(schedule.staging) == (kind != "field")
    run = CudaExecutable(schedule, machine, Cache(tmp_path))
    run(device, {}, dict.fromkeys(device, HALO), DOMAIN)
    np.testing.assert_array_equal(cupy.asnumpy(device["out"]), fields["out"])
