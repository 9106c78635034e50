"""A machine that computes nothing, and a stopwatch that a test sets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from emulation.machine import EmulatedMachine
from programs import SCALED, Box, drawn, scheduled

from halocline_engine.backends.base import TuneMode
from halocline_engine.backends.cuda.autotune.executable import TunedExecutable
from halocline_engine.backends.cuda.autotune.store import Tunings
from halocline_engine.backends.cuda.autotune.trial import COMPILING
from halocline_engine.backends.cuda.autotune.tuner import Device, Tuner
from halocline_engine.backends.cuda.model.launch import Dim3
from halocline_engine.cache import Cache
from halocline_engine.errors import CapacityError, DeviceError
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.tune import Tuning
from halocline_engine.schedule.tune_cost import Chip

DOMAIN: Box = (70, 40, 9)
USUAL, FAST = (32, 4, 1), (64, 2, 1)


@dataclass
class Launched:
    name: str
    block: Dim3
    addresses: tuple[int, ...]


@dataclass
class Idle:
    """Kernels that only say that they were launched."""

    machine: IdleMachine

    def launch(
        self, name: str, grid: Dim3, block: Dim3, arguments: tuple[Any, ...], shared: int = 0
    ) -> None:
        if block in self.machine.refused:
            raise DeviceError(f"A block of {block} is refused.")
        addresses = tuple(int(a) for a in arguments if a.dtype == np.uint64)
        self.machine.launched.append(Launched(name, block, addresses))

    def ready(
        self,
        name: str,
        grid: Dim3,
        block: Dim3,
        arguments: tuple[Any, ...],
        shared: int = 0,
        changing: Sequence[int] = (),
        *,
        follows: bool = False,
    ) -> Callable[..., None]:
        def launch(*values: Any) -> None:
            given = list(arguments)
            for place, value in zip(changing, values, strict=True):
                given[place] = arguments[place].dtype.type(value)
            self.launch(name, grid, block, tuple(given), shared)

        return launch


class IdleMachine(EmulatedMachine):
    """Compiles nothing; `compiling` is called with each source first, and may wait or raise."""

    def __init__(self, compiling: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(Path())
        self.compiling = compiling
        self.refused: set[Dim3] = set()
        self.launched: list[Launched] = []
        self.full = False

    @property
    def compiler(self) -> str:
        return "none"

    def compile(self, source: str) -> bytes:
        self.compiling(source)
        self.sources.append(source)
        return source.encode()

    def load(self, code: bytes) -> Any:
        return Idle(self)

    def allocate(
        self,
        size: int,
        start: Callable[[int], int],
        shape: Box,
        dtype: np.dtype[Any],
        strides: Box,
    ) -> Any:
        if self.full:
            raise CapacityError("There is no room.", needed=size, available=0)
        return super().allocate(size, start, shape, dtype, strides)


@dataclass
class Bench:
    """An executable, with what it runs on, where times are those of the last block's shape."""

    folder: Path
    mode: TuneMode = "cached"
    schedule: Schedule = field(default_factory=lambda: scheduled(SCALED))
    idle: IdleMachine = field(default_factory=IdleMachine)
    seconds: dict[Dim3, float] = field(default_factory=lambda: {FAST: 0.5})
    time: float = 0.0
    timed: int = 0
    cubins: Path | None = None
    broken: bool = False

    def __post_init__(self) -> None:
        self.tunings = Tunings(self.folder / "tunings")
        device = Device("Fake 1", Chip(), self._seconds_of)
        tuner = Tuner(self.schedule, device, self.tunings, self.mode, 20.0, lambda: self.time)
        cache = Cache(self.cubins or self.folder / "cubins")
        self.executable = TunedExecutable(tuner, self.idle, cache)
        self.fields = {"a": drawn((72, 42, 9)), "b": np.full((70, 40, 9), np.nan)}
        self.fields = {name: np.asfortranarray(array) for name, array in self.fields.items()}
        self.origins: dict[str, Box] = {"a": (0, 1, 0), "b": (0, 0, 0)}

    def _seconds_of(self, work: Callable[[], None]) -> float:
        self.timed += 1
        if self.broken:
            raise DeviceError("The clock stopped.")
        self.idle.launched.clear()
        work()
        return sum(self.seconds.get(one.block, 1.0) for one in self.idle.launched)

    def call(self) -> Dim3:
        """Call it, and return the shape of the block that ran last."""
        self.idle.launched.clear()
        self.executable(self.fields, {"c": 0.5}, self.origins, DOMAIN)
        return self.idle.launched[-1].block

    def tune(self) -> Tuning | None:
        return self.executable.tune(self.fields, {"c": 0.5}, self.origins, DOMAIN, 20.0)

    def files(self) -> list[Path]:
        return sorted((self.folder / "tunings").glob("*"))

    def settled(self) -> None:
        """Wait until all that was begun is compiled."""
        for thread in threading.enumerate():
            if thread.name == COMPILING:
                thread.join(60)
