"""Checks of calls on arrays, with GT4Py's conventions for names, origins and the domain.

Arrays are NumPy's or CuPy's, indexed by the field's axes in the order I, J, K, with any strides; an
array with `__gt_dims__` names its own order. The domain's first point lies on every field's origin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias, cast

import numpy as np

from halocline_engine.analysis.aliasing import may_share
from halocline_engine.analysis.named import given_scalars
from halocline_engine.analysis.scalars import scalar_value
from halocline_engine.analysis.signature import Signature
from halocline_engine.arguments import plain_number
from halocline_engine.backends.base import Array, Value
from halocline_engine.backends.span import Span
from halocline_engine.backends.targets import TARGETS
from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Components, Field, Lookup, Program, Table
from halocline_engine.ir.types import Axis

__all__ = ["Call", "Origin", "Point", "axes_view", "bind", "parts"]

Point: TypeAlias = tuple[int, int, int]
#: A point for every field, the K part alone, or a mapping from field names (or "_all_") to points
#: along all axes or along the field's own.
Origin: TypeAlias = int | Sequence[int] | Mapping[str, int | Sequence[int]]


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments of a call of an executable; see `backends.base.Executable`."""

    fields: Mapping[str, Array]
    scalars: Mapping[str, Value]
    origins: Mapping[str, Point]
    domain: Point


def bind(
    signature: Signature,
    target: str,
    arguments: tuple[object, ...],
    keywords: Mapping[str, object],
    *,
    origin: Origin | None = None,
    domain: Sequence[int] | None = None,
) -> Call:
    """Check the arguments of a call and return 3-D views with their origins.

    Raises `ArgumentError` for names, scalars, origin and domain, and `FieldError` for arrays.
    """
    program, facts = signature.program, signature.facts
    given = _match(signature, arguments, keywords)
    scalars = _scalars(signature, given)
    for table in program.tables:
        given |= _columns(program, table, given[table.name])
    given |= parts(program, given)
    arrays = {f.name: _array(f, given[f.name], target) for f in signature.used}
    points = _origins(program, arrays, origin)
    views = {f.name: axes_view(f, arrays[f.name]) for f in signature.used}
    box = _default_domain(signature, views, points) if domain is None else _domain(domain)
    _check_space(signature, views, points, box)
    _refuse_overlaps(program, facts, views, points)
    return Call(views, scalars, points, box)


def _match(
    signature: Signature, arguments: tuple[object, ...], keywords: Mapping[str, object]
) -> dict[str, object]:
    """Return every argument by name, None for omitted optional ones."""
    program, optional = signature.program, signature.optional
    names = program.arguments
    if len(arguments) > len(names):
        raise ArgumentError(
            f"Stencil '{program.name}' takes {len(names)} arguments, but got {len(arguments)}.",
            hint=f"They are {', '.join(names)}.",
        )
    given: dict[str, object] = dict(zip(names, arguments, strict=False))
    for name, value in keywords.items():
        if name not in names:
            near = get_close_matches(name, names, n=1)
            hint = (
                f"Did you mean '{near[0]}'?" if near else f"The arguments are {', '.join(names)}."
            )
            raise ArgumentError(f"Stencil '{program.name}' has no argument '{name}'.", hint=hint)
        if name in given:
            raise ArgumentError(
                f"Argument '{name}' is given twice, by position and by name.",
                hint="Give it once.",
            )
        given[name] = value
    missing = [name for name in names if name not in given and name not in optional]
    if missing:
        raise ArgumentError(
            f"Stencil '{program.name}' lacks the argument '{missing[0]}'.",
            hint=f"Give all of {', '.join(name for name in names if name not in optional)}.",
        )
    return {name: given.get(name) for name in names}


def _scalars(signature: Signature, given: Mapping[str, object]) -> dict[str, Value]:
    """Return the values of all scalars; an unused scalar that is not given is zero."""
    values: dict[str, Value] = {}
    for scalar in given_scalars(signature.program):
        value = given[scalar.name]
        if value is None and scalar.name in signature.optional:
            value = np.dtype(scalar.dtype.value).type(scalar.default or 0).item()
        values[scalar.name] = scalar_value(scalar, value)
    return values


def _array(field: Field, value: object, target: str) -> Array:
    """Check the kind, the number of dimensions and the dtype of an array argument."""
    if value is None:
        raise FieldError(
            f"Field '{field.name}' is None, but the stencil uses it.", hint="Give an array."
        )
    # The attribute of the class is cheaper: CuPy computes that of an array upon each access.
    on_device = any(hasattr(one, "__cuda_array_interface__") for one in (type(value), value))
    if TARGETS[target].on_device and not on_device:
        raise FieldError(
            f"Field '{field.name}' is a '{type(value).__name__}' in host memory, but the target "
            "'cuda' computes on CuPy arrays.",
            hint="Copy it with cupy.asarray(...), or make the stencil with target='cpu'.",
        )
    if on_device and not TARGETS[target].on_device:
        raise FieldError(
            f"Field '{field.name}' is a '{type(value).__name__}' on a device, but the target "
            f"'{target}' computes on NumPy arrays.",
            hint="Copy it with cupy.asnumpy(...), or make the stencil with target='cuda'.",
        )
    if not (on_device or isinstance(value, np.ndarray)):
        from halocline_engine.datasets.variables import hint_of_conversion

        hint = "For xarray objects pass '.values', or use halocline_engine.run."
        message = f"Field '{field.name}' must be a NumPy array, but is a '{type(value).__name__}'."
        raise FieldError(message, hint=hint_of_conversion(value, hint))
    if isinstance(value, np.ma.MaskedArray):
        raise FieldError(
            f"Field '{field.name}' is a masked array, but masks are not supported.",
            hint="Pass '.filled(numpy.nan)', or another fill value.",
        )
    array = cast("Any", value)
    axes = ", ".join(axis.value for axis in field.axes)
    if array.ndim != len(field.axes):
        raise FieldError(
            f"Field '{field.name}' must have {len(field.axes)} dimensions ({axes}), "
            f"but has {array.ndim}.",
            hint="Add or drop dimensions, as in array[:, :, None], or annotate the field with the"
            " axes that it has, such as Field[IJ, float].",
        )
    if array.dtype != np.dtype(field.dtype.value):
        raise FieldError(
            f"Field '{field.name}' must have the dtype '{field.dtype.value}', "
            f"but has '{array.dtype}'.",
            hint=f"Convert it with .astype('{field.dtype.value}'), or change the annotation.",
        )
    if field.written and isinstance(value, np.ndarray) and not value.flags.writeable:
        raise FieldError(
            f"Field '{field.name}' is written, but its array is read-only.",
            hint="Pass a copy.",
        )
    return array


def _columns(program: Program, table: Table, value: object) -> dict[str, object]:
    """Return the columns of a table, as arrays along I."""
    if value is None:
        fields = {field.name: field for field in program.fields}
        if not any(fields[column].read for column in table.columns):
            return {}
    array, shape = cast("Any", value), getattr(value, "shape", None)
    if not isinstance(shape, tuple) or len(cast("Sequence[int]", shape)) != 2:
        raise FieldError(
            f"Table '{table.name}' must be an array with 2 dimensions, (I, {table.slots}), but got"
            f" {'None' if value is None else type(value).__name__}"
            f"{'' if shape is None else f' of the shape {shape}'}.",
            hint="A row has the neighbours of a point.",
        )
    if array.shape[1] != table.slots or str(array.dtype) != table.dtype.value:
        raise FieldError(
            f"Table '{table.name}' must hold {table.slots} '{table.dtype.value}' for each point"
            f" along I, but got '{array.dtype}' of the shape {tuple(array.shape)}.",
            hint="Pass another array, or change the annotation.",
        )
    columns: dict[str, object] = {}
    for slot, column in enumerate(table.columns):
        columns[column] = array[:, slot]
    return columns


def parts(program: Program, given: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that are parts of arguments: components, and elements of lookup tables.

    Raises `FieldError` for arrays of other shapes.
    """
    fields: dict[str, object] = {}
    for whole in program.components:
        fields |= _components(program, whole, given.get(whole.name))
    for lookup in program.lookups:
        fields[lookup.name] = _elements(lookup, given.get(lookup.name))
    return fields


def _components(program: Program, whole: Components, value: object) -> dict[str, object]:
    """Return views of the used components of an array with data dimensions."""
    parts = {whole.field(n): n for n in range(math.prod(whole.shape))}
    used = [f.name for f in program.fields if f.name in parts and (f.read or f.written)]
    if not used:
        return {}
    array, shape = cast("Any", value), getattr(value, "shape", None)
    sizes = cast("tuple[int, ...]", shape) if isinstance(shape, tuple) else ()
    axes = len(whole.axes)
    if len(sizes) != axes + len(whole.shape) or sizes[axes:] != whole.shape:
        wanted = ", ".join([*(axis.value for axis in whole.axes), *map(str, whole.shape)])
        got = f" of the shape {shape}" if sizes else ""
        raise FieldError(
            f"Field '{whole.name}' must be an array of the shape ({wanted}), but got"
            f" {'None' if value is None else type(value).__name__}{got}.",
            hint="Data dimensions are the last ones.",
        )
    every = (slice(None),) * axes
    return {name: array[(*every, *np.unravel_index(parts[name], whole.shape))] for name in used}


def _elements(lookup: Lookup, value: object) -> object:
    """Return the elements of a lookup table in C order."""
    shape = getattr(value, "shape", None)
    if value is None or shape == lookup.shape:
        return value if shape is None else cast("Any", value).reshape(-1)
    raise FieldError(
        f"'{lookup.name}' must be an array of the shape {lookup.shape}, but got"
        f" {type(value).__name__}{'' if shape is None else f' of the shape {shape}'}.",
        hint="Pass another array, or change the annotation.",
    )


def _order(field: Field, array: Array) -> list[int]:
    """Return the dimension of the array for each axis of the field."""
    dims: object = getattr(array, "__gt_dims__", None)
    axes = [axis.value for axis in field.axes]
    if dims is None:
        return list(range(len(axes)))
    named = [str(dim) for dim in cast("Sequence[object]", dims)]
    if sorted(named) != sorted(axes):
        raise FieldError(
            f"Field '{field.name}' must have the dimensions {', '.join(axes)}, but its array "
            f"names {', '.join(named)}.",
            hint="Correct '__gt_dims__', or pass another array.",
        )
    return [named.index(axis) for axis in axes]


def axes_view(field: Field, array: Array) -> Array:
    """Return the array as [i, j, k], with one point of stride 0 along axes it does not have."""
    if len(field.axes) == len(Axis) and getattr(array, "__gt_dims__", None) is None:
        return array
    index = tuple(slice(None) if axis in field.axes else None for axis in Axis)
    return array.transpose(_order(field, array))[index]


def _origins(
    program: Program, arrays: Mapping[str, Array], origin: Origin | None
) -> dict[str, Point]:
    """Return the origin of every array: the given one, its `__gt_origin__`, or zero."""
    by_name: Mapping[str, object]
    if origin is None:
        by_name = {}
    elif isinstance(origin, Mapping):
        by_name = origin
    else:
        by_name = {"_all_": origin}
    known = {_given(field) for field in program.fields} | {"_all_"}
    tables = {lookup.name for lookup in program.lookups}
    for name in by_name:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "Use field names, or '_all_'."
            raise ArgumentError(f"The origin names '{name}', which is not a field.", hint=hint)
    origins: dict[str, Point] = {}
    for field in program.fields:
        if field.name in arrays:
            array = arrays[field.name]
            asked = by_name.get(_given(field), by_name.get("_all_"))
            if field.name in tables:
                asked = 0
            if asked is None:
                own = getattr(array, "__gt_origin__", None)
                asked = None if own is None else tuple(own[d] for d in _order(field, array))
            origins[field.name] = _point(field, asked)
    return origins


def _given(field: Field) -> str:
    """Return the name of the argument that contains a field."""
    return field.name.partition(".")[0]


def _point(field: Field, asked: object) -> Point:
    """Return an origin along I, J and K, 0 along axes that the field lacks."""
    if asked is None:
        return (0, 0, 0)
    level = plain_number(asked)
    values: tuple[object, ...] = _values(asked) if level is None else (0, 0, level)
    numbers = _sizes(values)
    if len(numbers) != len(values) or len(numbers) not in (3, len(field.axes)):
        sizes = "3" if len(field.axes) == 3 else f"{len(field.axes)} or 3"
        raise ArgumentError(
            f"The origin of '{field.name}' must be {sizes} whole numbers that are not negative, "
            f"but is {asked!r}.",
            hint="It is the index of the domain's first point in the array.",
        )
    if len(numbers) == 3:
        along = dict(zip(Axis, numbers, strict=True))
    else:
        along = dict(zip(field.axes, numbers, strict=True))
    i, j, k = (along[axis] if axis in field.axes else 0 for axis in Axis)
    return (i, j, k)


def _values(given: object) -> tuple[object, ...]:
    """Return the items of a sequence; another object becomes its only item, refused later."""
    try:
        return tuple(cast("Sequence[object]", given))
    except TypeError:
        return (given,)


def _sizes(values: Sequence[object]) -> list[int]:
    """Return the non-negative whole numbers among some values."""
    numbers = [plain_number(value) for value in values]
    return [number for number in numbers if type(number) is int and number >= 0]


def _domain(domain: Sequence[int]) -> Point:
    """Return the given domain, checked."""
    values = _values(domain)
    sizes = _sizes(values)
    if len(sizes) != 3 or len(values) != 3:
        raise ArgumentError(
            f"The domain must be 3 whole numbers that are not negative, but is {domain!r}.",
            hint="It is the number of points along I, J and K.",
        )
    return (sizes[0], sizes[1], sizes[2])


def _default_domain(
    signature: Signature,
    views: Mapping[str, Array],
    origins: Mapping[str, Point],
) -> Point:
    """Return the largest domain for which every array contains its halo.

    Unused levels do not make the domain larger than the arrays, as they do in
    GT4Py, where `interval(1, -1)` on five levels gives a domain of six.
    """
    sizes: list[int] = []
    facts, elsewhere = signature.facts, signature.elsewhere
    tables = {lookup.name for lookup in signature.program.lookups}
    for number, axis in enumerate(Axis):
        room = {
            f.name: views[f.name].shape[number]
            - origins[f.name][number]
            - max(0, facts.required(f.name)[number][1])
            for f in signature.program.fields
            if f.name in views
            and axis in f.axes
            and f.name not in tables
            and not (axis is Axis.I and f.name in elsewhere)
        }
        if not room:
            raise ArgumentError(
                f"No field has the axis {axis.value}, so the domain must be given.",
                hint="Give domain=(ni, nj, nk).",
            )
        least = min(room, key=lambda name: room[name])
        if room[least] <= 0 and views[least].shape[number]:
            high = max(0, facts.required(least)[number][1])
            raise _nothing_left(
                least, axis, views[least].shape[number], origins[least][number], high
            )
        sizes.append(max(0, room[least]))
    return (sizes[0], sizes[1], sizes[2])


def _nothing_left(name: str, axis: Axis, size: int, origin: int, after: int) -> FieldError:
    return FieldError(
        f"Field '{name}' has {_count(size, 'point')} along {axis.value}, but needs at least"
        f" {origin + 1 + after}: its origin is {origin}, and it is read {after} after each point.",
        hint="Give larger arrays, another origin, or domain=(ni, nj, nk), which may have zeros.",
    )


def _check_space(
    signature: Signature,
    views: Mapping[str, Array],
    origins: Mapping[str, Point],
    domain: Point,
) -> None:
    """Refuse a domain that is too small for the intervals or too large for the arrays."""
    if 0 in domain:
        return
    program, facts = signature.program, signature.facts
    if domain[2] < facts.min_levels:
        raise ArgumentError(
            f"The domain has {_count(domain[2], 'level')}, but the intervals of "
            f"'{program.name}' need at least {facts.min_levels}.",
            hint="Use more levels.",
        )
    levels, elsewhere = signature.levels(domain[2]), signature.elsewhere
    for field in program.fields:
        if field.name not in views:
            continue
        extent = facts.required(field.name)
        for number, axis in enumerate(Axis):
            if axis not in field.axes or (axis is Axis.I and field.name in elsewhere):
                continue
            low, high = extent[number]
            first, last = low, domain[number] - 1 + high
            if axis is Axis.K:
                first, last = levels.get(field.name, (0, -1))
            _check_axis(
                field.name,
                axis,
                (first, last),
                origins[field.name][number],
                views[field.name].shape[number],
                domain[number],
            )


def _check_axis(
    name: str, axis: Axis, touched: tuple[int, int], origin: int, size: int, domain: int
) -> None:
    """Refuse an array without all touched points, which count from the domain's first."""
    first, last = touched
    if origin + first < 0:
        raise FieldError(
            f"Field '{name}' is read {_count(-first, 'point')} before the domain along "
            f"{axis.value}, but its origin there is {origin}.",
            hint=f"Use an origin of at least {-first} along {axis.value}, and arrays with a halo.",
        )
    if origin + last >= size:
        raise FieldError(
            f"Field '{name}' has {_count(size, 'point')} along {axis.value}, but a domain of "
            f"{domain} at the origin {origin} needs {origin + last + 1}.",
            hint=f"Use a domain of at most {max(0, domain - (origin + last + 1 - size))} along "
            f"{axis.value}, or a larger array.",
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _refuse_overlaps(
    program: Program, facts: Facts, views: Mapping[str, Array], origins: Mapping[str, Point]
) -> None:
    """Refuse arrays that share memory with a written one, except for well-defined updates."""
    spans = {name: Span.of(view) for name, view in views.items()}
    fields = [field for field in program.fields if field.name in views]
    for one, two in _neighbours(fields, spans):
        a, b = spans[one.name], spans[two.name]
        if (one.written or two.written) and a.shares(b):
            written, other = (one.name, two.name) if one.written else (two.name, one.name)
            same = a == b and origins[one.name] == origins[two.name]
            if same and may_share(program, facts, read=other, written=written):
                continue
            raise FieldError(
                f"Field '{written}' is written and shares memory with '{other}'.",
                hint="Pass different arrays: one array may stand for two fields only where one "
                "statement writes it, from values at the point itself, and nothing else needs "
                "the old ones.",
            )


def _neighbours(
    fields: Sequence[Field], spans: Mapping[str, Span]
) -> Iterator[tuple[Field, Field]]:
    """Yield the pairs of fields whose arrays overlap by their bounds, in order."""
    bounds = [spans[field.name].bounds for field in fields]
    ordered = sorted(range(len(fields)), key=bounds.__getitem__)
    pairs: list[tuple[int, int]] = []
    for position, one in enumerate(ordered):
        for two in ordered[position + 1 :]:
            if bounds[two][0] >= bounds[one][1]:
                break
            pairs.append((min(one, two), max(one, two)))
    for one, two in sorted(pairs):
        yield fields[one], fields[two]
