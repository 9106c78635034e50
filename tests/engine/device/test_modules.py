"""Launches that are ready give the driver each argument with the size and type of its parameter."""

from __future__ import annotations

import ctypes
import gc
import weakref
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from halocline_engine.device.compile import modules
from halocline_engine.device.compile.modules import DeviceKernels
from halocline_engine.device.launch import dependent
from halocline_engine.errors import DeviceError

ARGUMENTS = (
    np.int32(-7),
    np.uint64(0),
    np.float32(0),
    np.bool_(True),
    np.uint64(0),
    np.float64(2.5),
    np.int64(-(2**40)),
    np.float16(1.5),
    np.uint8(200),
)


class DriverFailure(Exception):
    pass


@dataclass
class Driver:
    """Reads what it is given when a kernel is launched, as a driver does."""

    CUDADriverError: type[Exception] = DriverFailure
    launched: list[tuple[tuple[int, ...], list[np.generic]]] = field(
        default_factory=list[tuple[tuple[int, ...], list[np.generic]]]
    )
    attributes: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def funcSetAttribute(self, function: int, attribute: int, value: int) -> None:
        self.attributes.append((function, attribute, value))

    def check_status(self, status: int) -> None:
        raise DriverFailure(f"status {status}")

    def launchKernel(self, *given: int) -> None:
        *geometry, places, extra = given
        assert extra == 0
        if geometry[1] > 100:
            raise DriverFailure("too many blocks")
        pointers = (ctypes.c_uint64 * len(ARGUMENTS)).from_address(places)
        values = [
            np.frombuffer(ctypes.string_at(at, one.dtype.itemsize), one.dtype)[0]
            for at, one in zip(pointers, ARGUMENTS, strict=True)
        ]
        self.launched.append((tuple(geometry), values))


class Module:
    def load(self, code: bytes) -> None:
        assert code

    def get_function(self, name: str) -> Any:
        if name != "known":
            raise DriverFailure(f"no {name}")
        return SimpleNamespace(ptr=11)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    cuda = SimpleNamespace(
        driver=made,
        function=SimpleNamespace(Module=Module),
        get_current_stream=lambda: SimpleNamespace(ptr=5),
    )
    monkeypatch.setattr(modules, "cupy", lambda: SimpleNamespace(cuda=cuda))
    return made


def test_arguments_that_change_are_packed_beside_those_that_stay(driver: Driver) -> None:
    launch = DeviceKernels(b"code").ready("known", (4, 2, 1), (32, 8, 1), ARGUMENTS, 0, (4, 1, 2))
    launch(2**63 + 5, 77, np.float32(0.1))
    launch(1, 2, 3.0)
    where = (11, 4, 2, 1, 32, 8, 1, 0, 5)
    expected = [
        [*ARGUMENTS[:1], 77, np.float32(0.1), ARGUMENTS[3], 2**63 + 5, *ARGUMENTS[5:]],
        [*ARGUMENTS[:1], 2, np.float32(3), ARGUMENTS[3], 1, *ARGUMENTS[5:]],
    ]
    assert driver.launched == [(where, values) for values in expected]


def test_a_kernel_is_allowed_its_shared_memory_once(driver: Driver) -> None:
    kernels = DeviceKernels(b"code")
    for shared in (0, 1000, 60000, 50000, 60000, 70000):
        kernels.ready("known", (1, 1, 1), (1, 1, 1), ARGUMENTS, shared)()
    assert [value for _, _, value in driver.attributes] == [1000, 60000, 70000]
    assert [where[7] for where, _ in driver.launched] == [0, 1000, 60000, 50000, 60000, 70000]


def test_a_kernel_that_follows_is_launched_so(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    def launch(_config: Any, function: int, places: int, extra: None) -> int:
        assert extra is None
        pointers = (ctypes.c_uint64 * 2).from_address(places)
        seen.append((function, ctypes.c_int32.from_address(pointers[1]).value))
        return len(seen) - 1

    monkeypatch.setattr(dependent, "_launcher", lambda: launch)
    arguments = (np.uint64(0), np.int32(0))
    ready = DeviceKernels(b"code").ready(
        "known", (1, 1, 1), (1, 1, 1), arguments, 0, (1,), follows=True
    )
    ready(7)
    with pytest.raises(DeviceError) as caught:
        ready(8)
    assert str(caught.value) == "Kernel 'known' could not be launched: status 1."
    assert seen == [(11, 7), (11, 8)]
    assert not driver.launched


@pytest.mark.usefixtures("driver")
def test_what_the_driver_refuses_is_an_error() -> None:
    kernels = DeviceKernels(b"code")
    with pytest.raises(DeviceError) as caught:
        kernels.ready("unknown", (1, 1, 1), (1, 1, 1), ())
    assert str(caught.value) == "Kernel 'unknown' could not be launched: no unknown."
    launch = kernels.ready("known", (101, 1, 1), (1, 1, 1), ARGUMENTS)
    with pytest.raises(DeviceError) as caught:
        launch()
    assert str(caught.value) == "Kernel 'known' could not be launched: too many blocks."


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.usefixtures("driver")
def test_code_stays_loaded_as_long_as_a_launch_is_ready(follows: bool) -> None:
    kernels = DeviceKernels(b"code")
    (module,) = (weakref.ref(one) for one in vars(kernels).values() if isinstance(one, Module))
    ready = kernels.ready("known", (1, 1, 1), (1, 1, 1), ARGUMENTS, follows=follows)
    del kernels
    gc.collect()
    assert module() is not None
    del ready
    gc.collect()
    assert module() is None
