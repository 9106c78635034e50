"""Tuning on a device changes speed and files, and no bit of a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import COLUMNS, DIFFUSION, Box, drawn, reference, scheduled

from halocline_engine.backends.cuda.autotune.executable import TunedExecutable
from halocline_engine.backends.cuda.autotune.store import Tunings
from halocline_engine.backends.cuda.autotune.tuner import Device, Tuner
from halocline_engine.cache import Cache
from halocline_engine.device.launch.stopwatch import seconds_of
from halocline_engine.device.machine import CudaMachine
from halocline_engine.schedule.tune_cost import Chip

pytestmark = pytest.mark.gpu
DOMAIN: Box = (201, 103, 40)


@pytest.mark.parametrize("text", [DIFFUSION, COLUMNS])
def test_tuned_programs_have_the_same_bits(
    machine: CudaMachine, cupy: Any, tmp_path: Path, text: str
) -> None:
    schedule = scheduled(text)
    names = [f.name for f in schedule.program.fields]
    host = {n: np.asfortranarray(drawn((205, 107, 40), s)) for s, n in enumerate(names)}
    origins: dict[str, Box] = dict.fromkeys(names, (2, 2, 0))
    expected = reference(schedule, host, {}, origins, DOMAIN)
    tunings = Tunings(tmp_path / "tunings")
    device = Device(machine.facts.name, Chip(machine.facts.multiprocessors), seconds_of)
    executable = TunedExecutable(
        Tuner(schedule, device, tunings, "cached"), machine, Cache(tmp_path)
    )
    fields = {name: cupy.asarray(array, order="F") for name, array in host.items()}
    tuning = executable.tune(fields, {}, origins, DOMAIN, 30.0)
    assert tuning is not None
    assert tuning.default > 0
    assert len([one for one in tuning.measured if one.seconds]) > 3
    for name, array in host.items():
        np.testing.assert_array_equal(cupy.asnumpy(fields[name]), array)
    executable(fields, {}, origins, DOMAIN)
    for name, array in expected.items():
        np.testing.assert_array_equal(cupy.asnumpy(fields[name]), array)
    assert tunings.load(tuning.subject) == tuning
