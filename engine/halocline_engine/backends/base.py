"""Protocols of targets: an artifact that travels, an executable that runs, its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import AnyArray
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.tune import Tuning

__all__ = [
    "Adjustable",
    "Arguments",
    "Array",
    "Artifact",
    "Backend",
    "Drawable",
    "Executable",
    "Fields",
    "HostArray",
    "HostFields",
    "Launch",
    "Launcher",
    "Launching",
    "Memory",
    "OpenSides",
    "Origins",
    "Overlap",
    "Overlapping",
    "Placed",
    "Point",
    "Preparable",
    "Repeating",
    "Repetition",
    "Scalars",
    "Tunable",
    "TuneMode",
    "Turning",
    "Value",
    "WrappedArtifact",
    "WrappedExecutable",
    "prepare",
    "repetition",
]

#: A NumPy or CuPy array; only the target that made it looks inside.
Array: TypeAlias = Any
HostArray: TypeAlias = NDArray[Any]
Value: TypeAlias = bool | int | float
#: Along I, J and K: an index, or numbers of points.
Point: TypeAlias = tuple[int, int, int]
#: What a call is about, by name: arrays, values, and the domain's first point in each array.
Fields: TypeAlias = Mapping[str, Array]
HostFields: TypeAlias = Mapping[str, HostArray]
Scalars: TypeAlias = Mapping[str, Value]
Origins: TypeAlias = Mapping[str, Point]
#: Fields, scalars, origins and domain of a call.
Arguments: TypeAlias = tuple[Fields, Scalars, Origins, Point]
#: For I, J and K, whether the low and the high side of a domain are open.
OpenSides: TypeAlias = tuple[tuple[bool, bool], tuple[bool, bool], tuple[bool, bool]]
#: Whether a target looks for the fastest code: never, as it was measured before, or by measuring.
TuneMode: TypeAlias = Literal["off", "cached", "measure"]

#: Makes a call with values of its scalars.
Launch: TypeAlias = Callable[[Mapping[str, Value]], None]
#: Queues work, and other work beside it.
Overlap: TypeAlias = Callable[[Sequence[Callable[[], None]], Sequence[Callable[[], None]]], None]
#: Returns a call on fields whose elements of index zero have some addresses.
Launcher: TypeAlias = Callable[[Mapping[str, int]], Launch]


class Memory(Protocol):
    """The memory in which a target's arrays live."""

    def empty(
        self, shape: tuple[int, int, int], dtype: np.dtype[Any], halo: tuple[int, int, int]
    ) -> Array:
        """Return an array indexed [i, j, k], unit stride along I (then J, then K).

        Rows are padded and the base is moved so that the element at index `halo`, the first
        non-halo point, and with it the first non-halo point of every row, is aligned for the
        device. The contents are not defined.
        """
        ...

    def shared_row(self, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> Array:
        """Return an array indexed [i, j, k] whose rows along I all are one; it is not defined."""
        ...

    def upload(self, host: AnyArray, into: Array, threads: int = 1) -> None:
        """Copy a host array of the same shape into a target's array, with so many threads."""
        ...

    def download(self, array: Array, into: AnyArray | None = None, threads: int = 1) -> Any:
        """Return the contents in host memory, complete: a new array, or `into`."""
        ...


class Executable(Protocol):
    """A program that is alive on one device."""

    @property
    def memory(self) -> Memory:
        """The memory in which its arrays must live."""
        ...

    def __call__(self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point) -> None:
        """Run once. Every check was made before.

        `fields` are 3-D arrays indexed [i, j, k] with any strides (0 along an axis that the field
        does not have); `origins` are the indices of the domain's first point in each field, 0
        along absent axes; `domain` is the number of points along I, J and K. On a device the work
        is queued on the current stream.
        """
        ...

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do work again, on the same arrays and with the same values; return when it is complete.

        `work` was done before, and copies nothing from or to the host. It may be called fewer
        times: a device is asked once for many. `look` is called now and then meanwhile, at least
        ten times a second if `work` is shorter than that; what it raises ends the repetition, and
        nothing is under way then.
        """
        ...


@runtime_checkable
class Preparable(Protocol):
    """An executable for which making the same call again costs less than making it."""

    def prepared(
        self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point
    ) -> Callable[[], None]:
        """Return a call on these arrays, for what they hold when it is made, by one thread."""
        ...


@runtime_checkable
class Launching(Protocol):
    """An executable that is told by numbers alone where the arrays of a call are."""

    def launcher(self, fields: Fields, origins: Origins, domain: Point) -> Launcher | None:
        """Return calls on arrays with these shapes, strides and origins, or None if it cannot.

        It keeps none of the arrays: whoever calls has them, with whatever they hold then.
        """
        ...


@runtime_checkable
class Turning(Protocol):
    """An executable whose steps need not all go through the domain in the same order."""

    def turned(self) -> Executable:
        """Return an executable with the same results, for every other step of many.

        It may begin where the step before it ended, whose last results a cache has still.
        """
        ...


@runtime_checkable
class Placed(Protocol):
    """An executable for which it matters where the domain of a call lies in a larger one."""

    def placed(
        self,
        first: tuple[int, int, int],
        sizes: tuple[int, int, int],
        periodic: tuple[bool, bool, bool],
    ) -> Executable:
        """Return an executable for domains that begin at a point of one of some sizes.

        Along an axis that is periodic, indices are taken modulo its size.
        """
        ...


class Repetition(Protocol):
    """Work that is done again and again, on the same arrays and with the same values."""

    def __call__(self, times: int, look: Callable[[], None] | None = None) -> None:
        """Do it so many times; see `Executable.repeat`."""
        ...


@runtime_checkable
class Repeating(Protocol):
    """An executable that keeps what it records of work for the next time."""

    def repetition(self, work: Callable[[], None]) -> Repetition:
        """Return what does the work again and again."""
        ...


@runtime_checkable
class Overlapping(Protocol):
    """An executable whose calls other work of the device may run beside."""

    def overlap(self) -> Overlap:
        """Return what queues work on the current stream, and other work beside it.

        Both must be independent of each other. The other work, which others wait for, comes first
        where there is room for one. What is queued afterwards waits for both.
        """
        ...


class Artifact(Protocol):
    """Code for a program: frozen, picklable, equal after pickling, with nothing alive inside."""

    @property
    def source(self) -> str:
        """The generated code, or the printed IR where nothing is generated."""
        ...

    def load(self) -> Executable:
        """Make it run in this process, on the current device."""
        ...


@runtime_checkable
class Tunable(Protocol):
    """An executable that can find out which code is the fastest for calls of a kind."""

    def tune(
        self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point, seconds: float
    ) -> Tuning | None:
        """Measure for calls like this one, for some seconds at most; no field is changed.

        None where nothing can be found, as fields share memory or there is no room to try.
        """
        ...

    def tilings(self) -> tuple[str, ...]:
        """Return lines that say how kernels are cut for each kind of call so far, and why so."""
        ...


@runtime_checkable
class Adjustable(Protocol):
    """An artifact whose executables look for the fastest code."""

    @property
    def tuning(self) -> tuple[TuneMode, float]:
        """How it looks for it, and how long measuring takes at most."""
        ...

    def tuned(self, mode: TuneMode, seconds: float) -> Artifact:
        """Return the artifact with another mode, and how long measuring takes at most."""
        ...

    def tilings(self) -> tuple[str, ...]:
        """Return lines that say how kernels will be cut."""
        ...


@runtime_checkable
class Drawable(Protocol):
    """An artifact of loops that go through points in an order."""

    def walks(self) -> tuple[str, ...]:
        """Return lines that say in which order, and draw it."""
        ...


@dataclass(frozen=True, slots=True)
class WrappedArtifact:
    """What an artifact and the one inside it, whose kernels run, have in common."""

    artifact: Artifact

    @property
    def source(self) -> str:
        """The code of the kernels."""
        return self.artifact.source

    @property
    def tuning(self) -> tuple[TuneMode, float]:
        """How the kernels look for the fastest code; see `Adjustable`."""
        return self.artifact.tuning if isinstance(self.artifact, Adjustable) else ("off", 0.0)

    def tuned(self, mode: TuneMode, seconds: float) -> Self:
        """Return the artifact with kernels that look for the fastest code, where they can."""
        if not isinstance(self.artifact, Adjustable):
            return self
        return replace(self, artifact=self.artifact.tuned(mode, seconds))

    def tilings(self) -> tuple[str, ...]:
        """Return how kernels will be cut; see `Adjustable`."""
        return self.artifact.tilings() if isinstance(self.artifact, Adjustable) else ()

    def walks(self) -> tuple[str, ...]:
        """Return how loops go through points; see `Drawable`."""
        return self.artifact.walks() if isinstance(self.artifact, Drawable) else ()


@dataclass(frozen=True, slots=True)
class WrappedExecutable:
    """What an executable and the one inside it, which runs the kernels, have in common."""

    kernels: Executable

    @property
    def memory(self) -> Memory:
        """That of the kernels."""
        return self.kernels.memory


class Backend(Protocol):
    """A target: schedules become artifacts."""

    def build(self, schedule: Schedule) -> Artifact:
        """Generate the code; needs no device."""
        ...


def prepare(
    executable: Executable,
    fields: Fields,
    scalars: Scalars,
    origins: Origins,
    domain: Point,
) -> Callable[[], None]:
    """Return a call that can be made many times, as cheaply as the target can."""
    if isinstance(executable, Preparable):
        return executable.prepared(fields, scalars, origins, domain)
    return partial(executable, fields, scalars, origins, domain)


def repetition(executable: Executable, work: Callable[[], None]) -> Repetition:
    """Return what does work again and again, as cheaply as the target can."""
    if isinstance(executable, Repeating):
        return executable.repetition(work)
    return partial(executable.repeat, work)
