from __future__ import annotations

import sys
from dataclasses import replace

import device_streams
import pytest
from fake_cupy import FakeCupy

from halocline_engine.device import probe
from halocline_engine.device.cupy_types import cupy
from halocline_engine.device.probe import (
    DeviceFacts,
    device_bytes,
    device_count,
    device_facts,
    device_number,
)
from halocline_engine.errors import DeviceError


def test_without_cupy_there_are_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert device_count() == 0
    for question in (cupy, device_facts, device_number, device_bytes):
        with pytest.raises(DeviceError) as caught:
            question()
        assert str(caught.value) == (
            "The target 'cuda' needs CuPy, which cannot be imported here."
            " Install 'halocline[cuda13]' or 'halocline[cuda12]', or use target='cpu'."
        )


@pytest.mark.parametrize("devices", [0, -1])
def test_without_a_driver_there_are_no_devices(
    monkeypatch: pytest.MonkeyPatch, devices: int
) -> None:
    fake = FakeCupy(devices=devices)
    monkeypatch.setattr(probe, "cupy", lambda: fake)
    assert device_count() == 0
    with pytest.raises(DeviceError) as caught:
        device_facts()
    assert str(caught.value) == (
        "No usable CUDA device was found. Check the driver with nvidia-smi, or use target='cpu'."
    )


def test_facts_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCupy(memory=2**37)
    monkeypatch.setattr(probe, "cupy", lambda: fake)
    assert device_count() == 1
    facts = DeviceFacts(0, "Fake 1", "90", 132, 2**37, 50 * 2**20, 1.98e9, 3.35232e12)
    assert device_facts() == facts
    assert (device_number(), device_bytes()) == (0, 2**37)
    fake.kept = 2**20
    assert device_bytes() == 2**37 + 2**20, "what this process keeps is there for it"
    fake.tells = False
    assert device_facts() == replace(facts, clock=0.0, pins=0.0)


def test_a_stream_is_complete_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCupy(late=True)
    monkeypatch.setattr(device_streams, "cupy", lambda: fake)
    done: list[int] = []
    with device_streams.own_stream():
        fake.waiting.append(lambda: done.append(1))
        assert not done
    assert done == [1]
    fake.waiting.append(lambda: done.append(2))
    device_streams.synchronize()
    assert done == [1, 2]
