"""Targets by name."""

from __future__ import annotations

import pytest

from halocline_engine.backends.reference.build import ReferenceBackend
from halocline_engine.backends.registry import find, resolve
from halocline_engine.backends.targets import TARGETS
from halocline_engine.device import probe
from halocline_engine.errors import ArgumentError


def test_targets() -> None:
    assert tuple(TARGETS) == ("cpu", "cuda", "reference")
    assert [resolve(target) for target in TARGETS] == list(TARGETS)
    assert isinstance(find("reference"), ReferenceBackend)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_built_without_its_device(target: str) -> None:
    assert callable(find(target).build)


@pytest.mark.parametrize(("devices", "target"), [(0, "cpu"), (2, "cuda")])
def test_auto(monkeypatch: pytest.MonkeyPatch, devices: int, target: str) -> None:
    monkeypatch.setattr(probe, "device_count", lambda: devices)
    assert resolve("auto") == target


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cude", "Did you mean 'cuda'? The targets are 'auto', 'cpu', 'cuda', 'reference'."),
        ("numpy", "The targets are 'auto', 'cpu', 'cuda', 'reference'."),
    ],
)
def test_unknown_target(name: str, hint: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        find(name)
    assert str(caught.value) == f"Target '{name}' is unknown. {hint}"
