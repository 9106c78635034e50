"""Cache of calls: repeated calls are checked by a key of all inputs of the checks.

The key consists of numbers and types: the shapes, strides, types and addresses of arrays, the
origin and the domain. No array is kept. Calls without such a key, such as those with arrays that
have attributes of their own, are checked in full every time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from halocline_engine.analysis.named import given_scalars
from halocline_engine.analysis.scalars import scalar_value
from halocline_engine.analysis.signature import Signature
from halocline_engine.backends.base import Executable, Launch, Launcher, Launching, Value
from halocline_engine.backends.span import Span, disjoint
from halocline_engine.functions.calls.binding import Call, Origin, Point, axes_view, parts
from halocline_engine.functions.calls.variants import Variants
from halocline_engine.ir.nodes import Field, Program, Scalar

__all__ = ["GivenCall", "KnownCalls"]

#: Maximum number of cached kinds of calls, and of addresses of arrays for each.
_KINDS, _PLACES = 256, 64
_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept")
#: Returns the key of an array without its address, and the address.
_Reader = Callable[[Any], tuple[tuple[Hashable, ...], int]]


class GivenCall(NamedTuple):
    """The arguments of a call as a key, in which addresses are separate.

    `values` are the arguments by name.
    """

    kind: Hashable
    addresses: tuple[int, ...]
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Kind:
    """Checked calls that differ only in addresses and values of scalars.

    `bounds` are the first and last bytes of each given array, relative to its element of index
    zero, and `starts` the array and the offset in bytes of each field. `given` are the scalars
    among the arguments, `values` the values of other scalars.
    """

    starts: Mapping[str, tuple[int, int]]
    bounds: tuple[tuple[int, int], ...]
    written: tuple[bool, ...]
    given: tuple[Scalar, ...]
    values: Mapping[str, Value]
    origins: Mapping[str, Point]
    domain: Point
    executable: Executable | None
    launcher: Launcher | None
    launches: dict[tuple[int, ...], Launch | None] = field(
        default_factory=dict[tuple[int, ...], "Launch | None"]
    )

    def apart(self, addresses: tuple[int, ...]) -> bool:
        """Return whether no written array overlaps the bounds of another one."""
        places = zip(addresses, self.bounds, strict=True)
        spans = [(address + low, address + high) for address, (low, high) in places]
        return disjoint(spans, self.written)


class KnownCalls:
    """The cached calls of a stencil."""

    def __init__(self, signature: Signature, variants: Variants) -> None:
        program = signature.program
        self._variants = variants
        self._program = program
        self._used = tuple(signature.used)
        self._arrays = _arrays(program, self._used)
        self._arguments = program.arguments
        self._scalars = {one.name: one for one in given_scalars(program)}
        # Values of tables are checked in each call.
        self._plain = not program.tables
        self._readers: dict[type, _Reader] = {}
        self._kinds: dict[Hashable, _Kind] = {}
        self._lock = threading.Lock()

    def given(
        self,
        arguments: tuple[object, ...],
        keywords: Mapping[str, object],
        origin: Origin | None,
        domain: Sequence[int] | None,
    ) -> GivenCall | None:
        """Return a call with its key, or None if it has none."""
        if not self._plain:
            return None
        looks: list[Hashable] = [len(arguments), tuple(keywords), _plain(origin), _plain(domain)]
        if _ODD in looks:
            return None
        values: dict[str, Any] = {}
        addresses: list[int] = []
        arrays, readers = self._arrays, self._readers
        for name, value in chain(zip(self._arguments, arguments, strict=False), keywords.items()):
            values[name] = value
            if name in arrays:
                kind = type(value)
                reader = readers.get(kind)
                if reader is None:
                    return None
                look, address = reader(value)
                looks.append(kind)
                looks += look
                addresses.append(address)
            else:
                looks.append(value is None)
        outcomes = self._variants.outcomes(values)
        if outcomes is None:
            return None
        looks.append(outcomes)
        return GivenCall(tuple(looks), tuple(addresses), values)

    def make(self, given: GivenCall) -> bool:
        """Make a call if it is cached; otherwise return False.

        Raises `ArgumentError` for invalid scalars.
        """
        kind = self._kinds.get(given.kind)
        if kind is None:
            return False
        known, there = kind.launches, given.addresses
        launch = known.get(there)
        if launch is None and there not in known:
            if not kind.apart(there):
                return False
            launch = self._placed(kind, there)
        values = dict(kind.values)
        for scalar in kind.given:
            values[scalar.name] = scalar_value(scalar, given.values[scalar.name])
        if launch is not None:
            launch(values)
        elif kind.executable is not None:
            arrays = {**given.values, **parts(self._program, given.values)}
            views = {one.name: axes_view(one, arrays[one.name]) for one in self._used}
            kind.executable(views, values, kind.origins, kind.domain)
        return True

    def keep(
        self,
        arguments: tuple[object, ...],
        keywords: Mapping[str, object],
        origin: Origin | None,
        domain: Sequence[int] | None,
        call: Call,
        executable: Executable | None,
    ) -> None:
        """Cache a call; `executable` is None for an empty domain."""
        for value in chain(arguments, keywords.values()):
            reader = _reader(value)
            if reader is not None:
                self._readers[type(value)] = reader
        given = self.given(arguments, keywords, origin, domain)
        if given is None:
            return
        kind = self._kinds.get(given.kind)
        if kind is None:
            kind = self._kind(given, call, executable)
            if kind is None:
                return
            with self._lock:
                _keep(self._kinds, given.kind, kind, _KINDS)
        self._placed(kind, given.addresses)

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._kinds = {}

    def _kind(self, given: GivenCall, call: Call, executable: Executable | None) -> _Kind | None:
        """Return the cached form of a call, or None if a field is a copy of an argument."""
        names = [name for name in given.values if name in self._arrays]
        starts: dict[str, tuple[int, int]] = {}
        bounds: list[tuple[int, int]] = []
        for at, (name, address) in enumerate(zip(names, given.addresses, strict=True)):
            low, high = Span.of(given.values[name]).bounds
            for one in self._arrays[name]:
                span = Span.of(call.fields[one.name])
                first, last = span.bounds
                if first < low or last > high:
                    return None
                starts[one.name] = (at, span.address - address)
            bounds.append((low - address, high - address))
        launcher = None
        if isinstance(executable, Launching):
            launcher = executable.launcher(call.fields, call.origins, call.domain)
        values = {n: v for n, v in call.scalars.items() if given.values.get(n) is None}
        return _Kind(
            starts=starts,
            bounds=tuple(bounds),
            written=tuple(any(one.written for one in self._arrays[name]) for name in names),
            given=tuple(one for name, one in self._scalars.items() if name not in values),
            values=values,
            origins=call.origins,
            domain=call.domain,
            executable=executable,
            launcher=launcher,
        )

    def _placed(self, kind: _Kind, addresses: tuple[int, ...]) -> Launch | None:
        """Return the launch of a kind of call on arrays at some addresses, and cache it."""
        launch = None
        if kind.launcher is not None:
            launch = kind.launcher({n: addresses[at] + by for n, (at, by) in kind.starts.items()})
        with self._lock:
            _keep(kind.launches, addresses, launch, _PLACES)
        return launch


def _arrays(program: Program, used: Sequence[Field]) -> Mapping[str, tuple[Field, ...]]:
    """Return the array arguments, each with its used fields."""
    whole = {
        one.field(number): one.name
        for one in program.components
        for number in range(math.prod(one.shape))
    }
    arrays: dict[str, tuple[Field, ...]] = {}
    for one in used:
        name = whole.get(one.name, one.name)
        arrays[name] = (*arrays.get(name, ()), one)
    return arrays


class _Odd:
    """Placeholder for a value without a key."""


_ODD = _Odd()


def _plain(value: object) -> Hashable:
    """Return a hashable key of an origin or a domain."""
    if value is None or type(value) is int:
        return value
    if type(value) in (tuple, list):
        numbers = tuple(cast("Sequence[object]", value))
        return numbers if all(type(one) is int for one in numbers) else _ODD
    if type(value) is dict:
        several = cast("dict[object, object]", value)
        pairs = tuple((name, _plain(one)) for name, one in several.items())
        named = all(type(name) is str and one is not _ODD for name, one in pairs)
        return ("by name", pairs) if named else _ODD
    return _ODD


def _reader(value: object) -> _Reader | None:
    """Return the reader of keys for arrays of a class, or None if there is none.

    An object with a dictionary may get attributes that change the meaning of its axes.
    """
    if any(hasattr(value, name) for name in ("__gt_dims__", "__gt_origin__", "__dict__")):
        return None
    if type(value) is np.ndarray:
        return _host
    is_cupy = hasattr(type(value), "__cuda_array_interface__")
    return _device if is_cupy and hasattr(getattr(value, "data", None), "ptr") else None


def _host(array: Any) -> tuple[tuple[Hashable, ...], int]:
    look = (array.shape, array.strides, array.dtype, array.flags.writeable)
    return look, array.__array_interface__["data"][0]


def _device(array: Any) -> tuple[tuple[Hashable, ...], int]:
    return (array.shape, array.strides, array.dtype), array.data.ptr


def _keep(known: dict[_Key, _Kept], key: _Key, value: _Kept, most: int) -> None:
    """Add an entry to a cache; the oldest is removed from a full one."""
    if len(known) >= most and key not in known:
        del known[next(iter(known))]
    known[key] = value
