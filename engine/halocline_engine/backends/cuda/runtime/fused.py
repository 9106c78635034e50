"""Execution of several steps of a feedback in one launch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from halocline_engine.backends.base import (
    Fields,
    Memory,
    OpenSides,
    Origins,
    Point,
    Scalars,
)
from halocline_engine.backends.cuda.kernels.temporal.exchange import shared_of
from halocline_engine.backends.cuda.kernels.temporal.form import (
    SIZE_NAMES,
    Form,
    arrays_of_steps,
    parameters_of,
)
from halocline_engine.backends.cuda.kernels.temporal.launch import (
    FusedLaunch,
    launches_of,
    sizes_of,
)
from halocline_engine.backends.cuda.kernels.temporal.text import KERNEL, fused_text
from halocline_engine.backends.cuda.kernels.temporal.tile import Chooser
from halocline_engine.backends.cuda.model.entries import (
    Arg,
    BlockPointer,
    Pointer,
    ScalarValue,
    Size,
    StrideValue,
)
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.cuda.model.views import View, variant_of, view_of
from halocline_engine.backends.cuda.runtime.calls import (
    Located,
    Queued,
    Ready,
    queued,
    typed_scalars,
)
from halocline_engine.backends.cuda.runtime.machine import Machine
from halocline_engine.backends.cuda.runtime.memory import PitchedMemory
from halocline_engine.cache import Cache, key_of
from halocline_engine.errors import FieldError, InternalError
from halocline_engine.ir.types import Axis
from halocline_engine.kernels.machine import Kernels
from halocline_engine.schedule.temporal.levels import Levels

__all__ = ["FusedExecutable"]


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Loaded code, and the form that it was made for."""

    form: Form
    kernels: Kernels


class FusedExecutable:
    """Several steps of a program in one pass through memory; see `backends.fusing`.

    `sides` says on which sides steps compute more than the domain. With `alternate`, what is beyond
    the others is that of two arrays in turns, as where they change places after each step.
    """

    def __init__(
        self,
        levels: Levels,
        machine: Machine,
        cache: Cache,
        choose: Chooser,
        *,
        sides: OpenSides,
        alternate: bool = False,
    ) -> None:
        program = levels.step.program
        self.levels = levels
        self._machine = machine
        self._cache = cache
        self._choose = choose
        self._sides = sides
        self._alternate = alternate
        self._memory = PitchedMemory(machine)
        self._arrays = arrays_of_steps(levels)
        self._fields = {one.name: one for one in program.fields}
        self._scalars = {s.name: np.dtype(s.dtype.value) for s in program.scalars}
        self._loaded: dict[str, _Loaded] = {}
        self._known: dict[tuple[object, ...], tuple[Queued, ...]] = {}
        self._lock = threading.Lock()

    @property
    def memory(self) -> Memory:
        """The memory in which its arrays must live."""
        return self._memory

    @property
    def steps(self) -> int:
        """Number of steps of a call."""
        return self.levels.steps

    def prepared(
        self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point
    ) -> Callable[[], None]:
        """Return a call that only launches; see `backends.base.Preparable`."""
        views = self._views(fields, origins)
        starts = {name: view.address for name, view in views.items()}
        located = Located(self._queue(views, domain), starts)
        return Ready(located, typed_scalars(self._scalars, scalars), tuple(fields.values()))

    def __call__(self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point) -> None:
        """Queue the steps on the current stream; see `backends.base.Executable`."""
        if 0 not in domain:
            self.prepared(fields, scalars, origins, domain)()

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do again what `work` queues; see `backends.base.Executable`."""
        self._machine.repeat(work, times, look)

    def forms(self) -> tuple[Form, ...]:
        """Return what code was loaded for, in the order of first calls."""
        return tuple(one.form for one in self._loaded.values())

    def tilings(self) -> tuple[str, ...]:
        """Return how the kernels that were loaded are cut."""
        return tuple(
            f"{self.steps} steps at once: {one.form.tile.words}" for one in self._loaded.values()
        )

    def _views(self, fields: Fields, origins: Origins) -> dict[str, View]:
        found: dict[str, View] = {}
        for name in self._arrays:
            array, field = fields[name], self._fields[name]
            i, j, k = (
                stride if axis in field.axes else 0
                for axis, stride in zip(Axis, array.strides, strict=True)
            )
            found[name] = view_of(
                name,
                self._machine.address(array),
                field.dtype.itemsize,
                array.shape,
                (i, j, k),
                origins[name],
            )
        return found

    def _queue(self, views: Mapping[str, View], domain: Domain) -> tuple[Queued, ...]:
        """Return the launches of a kind of call; what was found once is kept."""
        written = [name in self.levels.step.results for name in views]
        variant = variant_of(list(views.values()), written, self._machine.cache)
        if not variant.disjoint:
            raise FieldError(
                "A field that several steps at once write shares memory with another field.",
                hint="Pass arrays of their own.",
            )
        strides = tuple(view.strides for view in views.values())
        aligned = tuple(view.aligned for view in views.values())
        key = (strides, aligned, variant.wide, domain)
        with self._lock:
            found = self._known.get(key)
            if found is None:
                kinds = {
                    name: (number, variant.kinds[number])
                    for name, number in zip(views, variant.arrays, strict=True)
                }
                form = Form(
                    self.levels,
                    kinds,
                    frozenset(name for name, one in views.items() if one.aligned),
                    variant.wide,
                    self._choose(self.levels, domain),
                    self._alternate,
                )
                found = self._known[key] = tuple(self._launches(form, views, domain))
        return found

    def _launches(self, form: Form, views: Mapping[str, View], domain: Domain) -> Iterator[Queued]:
        loaded = self._code(form)
        strides = {form.kinds[name][0]: view.strides for name, view in views.items()}
        for launch in launches_of(form, domain):
            yield _queued(loaded, strides, domain, launch, self._sides)

    def _code(self, form: Form) -> _Loaded:
        """Return the code of a form, which is loaded once."""
        source = fused_text(form)
        found = self._loaded.get(source)
        if found is None:
            key = key_of(source, self._machine.compiler)
            code = self._cache.get(key, lambda: self._machine.compile(source))
            found = self._loaded[source] = _Loaded(form, self._machine.load(code))
        return replace(found, form=form)


def _queued(
    loaded: _Loaded,
    strides: Mapping[int, tuple[int, int, int]],
    domain: Domain,
    launch: FusedLaunch,
    sides: OpenSides,
) -> Queued:
    """Return a launch with the values of its parameters, in order and with their types."""
    form = loaded.form
    types = {one.name: np.dtype(one.dtype.value) for one in form.levels.step.program.scalars}
    index = np.int64 if form.wide else np.int32
    sizes = dict(zip(SIZE_NAMES, sizes_of(form, domain, sides, launch), strict=True))

    def value(arg: Arg) -> np.generic:
        match arg:
            case Size(name):
                return np.int32(sizes[name])
            case StrideValue(number, axis):
                return index(strides[number][axis])
            case Pointer():
                return np.uint64(0)
            case ScalarValue(name):
                return types[name].type(0)
            case BlockPointer():
                raise InternalError("Fused steps have no memory of blocks.")

    ready = partial(loaded.kernels.ready, KERNEL, launch.grid, launch.block, shared=shared_of(form))
    return queued(ready, parameters_of(form), value)
