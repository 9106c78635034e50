"""The kinds of keyword arguments that public functions take, checked before anything is done.

Each function returns what was given, in the form that the engine uses, or raises `ArgumentError`
with what was expected, what was got, and an example.
"""

from __future__ import annotations

import math
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import unquote, urlsplit

import numpy as np

from halocline_engine.errors import ArgumentError, DatasetError

__all__ = [
    "MODES",
    "RESIDENT_MODES",
    "WEB",
    "PlainNumber",
    "address_scheme",
    "as_held",
    "by_name",
    "check_flags",
    "check_functions",
    "check_mode",
    "dataset_hint",
    "distinct",
    "literal_bits",
    "local_path",
    "names",
    "names_by_name",
    "number",
    "output_path",
    "place_of",
    "plain_number",
    "several",
    "sizes_by_name",
    "source_of",
    "text",
    "types_by_name",
    "whole",
    "written",
]

PlainNumber: TypeAlias = bool | int | float

#: Schemes of datasets that are read over HTTP.
WEB = ("http", "https")
#: A scheme has two letters, as one is a drive; 'file:' may be followed by a relative path.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/|([Ff][Ii][Ll][Ee]):")

#: Modes of all functions on datasets, and those of programs whose blocks may stay in memory.
MODES = ("auto", "streamed")
RESIDENT_MODES = (*MODES, "resident")


def plain_number(given: object) -> PlainNumber | None:
    """Return a number as Python's bool, int or float, or None for anything else.

    Scalars of NumPy and arrays without dimensions, of any library, are numbers of their type.

    >>> plain_number(np.float32(0.5)), plain_number(np.array(2)), plain_number("2")
    (0.5, 2, None)
    """
    value: Any = given
    if getattr(value, "ndim", None) == 0 and hasattr(value, "dtype"):
        if getattr(value.dtype, "kind", "") not in tuple("biuf") or np.ma.is_masked(value):
            return None
        value = value.item() if hasattr(value, "item") else np.asarray(value).item()
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if cast("Any", value) > 0 else -math.inf
    if number == value or not math.isfinite(number):
        return number
    whole = int(cast("Any", value))
    return whole if whole == value else number


def as_held(number: PlainNumber, dtype: np.dtype[Any]) -> PlainNumber | None:
    """Return a number as a type holds it, or None where it does not.

    Whole numbers must be held exactly. Others are rounded in types of real numbers, but not to
    infinity.

    >>> [as_held(n, np.dtype("int8")) for n in (2.0, 2.5, 200)]
    [2, None, None]
    >>> [as_held(n, np.dtype("float32")) for n in (2, 2**24 + 1, 1e300)]
    [2.0, None, None]
    """
    try:
        exact = int(number) if dtype.kind in "iu" else number
        with np.errstate(over="ignore"):
            held = dtype.type(exact).item()
    except (OverflowError, ValueError):
        return None
    if isinstance(number, float) and dtype.kind == "f":
        return held if math.isfinite(held) or not math.isfinite(number) else None
    return held if held == number else None


def written(number: PlainNumber) -> str:
    """Return a number as text that is never long.

    >>> written(0.5), written(10**50), written(10**5000)
    ('0.5', '100000000000000000...0000000000000000000', 'a whole number of 16610 bits')
    """
    try:
        return reprlib.repr(number)
    except ValueError:  # Python writes no longer numbers, as that takes long
        return f"a whole number of {int(number).bit_length()} bits"


def by_name(argument: str, given: object, example: str) -> Mapping[str, Any]:
    """Return a mapping from text; empty where None was given."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f"Argument '{argument}' must be a mapping, got {_kind(given)} {_shown(given)}.",
            hint=f"Write for example {argument}={example}.",
        )
    found = cast("Mapping[Any, Any]", given)
    for name in found:
        if not isinstance(name, str):
            raise ArgumentError(
                f"Argument '{argument}' must have names as keys, got {_kind(name)} {_shown(name)}.",
                hint=f"Write for example {argument}={example}.",
            )
    return found


def types_by_name(
    argument: str, given: object, example: str, bits: tuple[int, int]
) -> tuple[Mapping[str, Any], tuple[int, int]]:
    """Return types by name, and the bits of whole numbers and of others in a text.

    As in GT4Py, `float` itself may be a key: it means annotations `float`, which become `<float>`
    here, and the numbers of the text, but not the string "float".
    """
    if not isinstance(given, Mapping):
        return by_name(argument, given, example), bits
    named: dict[Any, Any] = {}
    integer, floating = bits
    for key, value in cast("Mapping[Any, Any]", given).items():
        if key is int or key is float or key is bool:
            named[f"<{key.__name__}>"] = value
            width = 32 if _is_narrow(value) else 64
            integer = width if key is int else integer
            floating = width if key is float else floating
        else:
            named[key] = value
    return by_name(argument, named, example), (integer, floating)


def _is_narrow(value: Any) -> bool:
    """Say whether a type has 32 bits; a wrong one is refused where types are read."""
    try:
        return np.dtype(value).itemsize == 4
    except TypeError:
        return False


def names_by_name(
    argument: str, given: object, example: str, *, none: bool = False
) -> Mapping[str, Any]:
    """Return a mapping from text to text, or to None where that is allowed."""
    found = by_name(argument, given, example)
    for name, value in found.items():
        if not (isinstance(value, str) or (none and value is None)):
            raise ArgumentError(
                f"Argument '{argument}' must give a name for '{name}', got {_kind(value)}"
                f" {_shown(value)}.",
                hint=f"Write for example {argument}={example}.",
            )
    return found


def sizes_by_name(argument: str, given: object) -> dict[str, int]:
    """Return whole numbers by dimension; who knows the dimensions checks how large they are."""
    example = "{'lat': 180, 'lon': 360}"
    found = by_name(argument, given, example)
    sizes = {name: plain_number(size) for name, size in found.items()}
    for name, size in found.items():
        number = sizes[name]
        if type(number) is not int:
            raise ArgumentError(
                f"Argument '{argument}' must give a whole number along '{name}', got"
                f" {_kind(size)} {_shown(size)}.",
                hint=f"Write for example {argument}={example}, or leave it out: sizes are then"
                " planned from memory.",
            )
        if number < 1:
            raise ArgumentError(
                f"Argument '{argument}' must be at least 1 along '{name}', got {written(number)}.",
                hint="Leave it out: sizes are then planned from memory.",
            )
    return cast("dict[str, int]", sizes)


def text(argument: str, given: object, what: str) -> str:
    """Return a text; `what` says of what."""
    if not isinstance(given, str):
        raise ArgumentError(
            f"Argument '{argument}' must be {what}, got {_kind(given)} {_shown(given)}.",
            hint=_hint_of_text(argument, given, what),
        )
    return given


def _hint_of_text(argument: str, given: object, what: str) -> str:
    """Return how a text is given in place of something else, such as the variable that it names."""
    if given is None:
        return f"Give {what}: {argument}='...'."
    if isinstance(name := getattr(given, "name", None), str) and hasattr(given, "dims"):
        return f"Write {argument}='{name}', and leave the variable in the dataset."
    if hasattr(given, "shape"):
        return (
            f"Put it into the dataset, dataset.assign(v=(dims, values)), and write {argument}='v'."
        )
    return "Write it as text, in quotes."


def names(argument: str, given: object, example: str) -> list[str]:
    """Return several names; a text alone is none, as its letters would be taken for them."""
    found = None
    if not isinstance(given, (str, bytes, Mapping)):
        with suppress(TypeError):
            found = list(cast("Iterable[object]", given))
    if found is None or not all(isinstance(name, str) for name in found):
        raise ArgumentError(
            f"Argument '{argument}' must be a list of names, got {_kind(cast('object', given))}"
            f" {_shown(cast('object', given))}.",
            hint=f"Write for example {argument}={example}.",
        )
    return [str(name) for name in found]


def several(argument: str, given: object, example: str) -> list[str] | None:
    """Return several names, or None where that was given."""
    if given is None:
        return None
    found = names(argument, given, example)
    if not found:
        raise ArgumentError(
            f"Argument '{argument}' must have at least one name, got none.", hint="Leave it out."
        )
    return found


def distinct(argument: str, given: object, example: str) -> list[str] | None:
    """Return several names, each of which is there once, or None where that was given."""
    found = several(argument, given, example)
    twice = [name for at, name in enumerate(found or ()) if found and name in found[:at]]
    if twice:
        raise ArgumentError(
            f"Argument '{argument}' must have different names, got '{twice[0]}' twice.",
            hint=f"Write for example {argument}={example}.",
        )
    return found


def whole(argument: str, given: object, least: int) -> int:
    """Return a whole number that is not too small."""
    number = plain_number(given)
    if type(number) is not int or number < least:
        raise ArgumentError(
            f"Argument '{argument}' must be a whole number from {least}, got {_shown(given)}.",
            hint=f"Write for example {argument}={max(least, 10)}.",
        )
    return number


def number(argument: str, given: object, what: str) -> float:
    """Return a number that is not a truth value; `what` says which, and who knows checks it."""
    plain = plain_number(given)
    if plain is None or isinstance(plain, bool):
        raise ArgumentError(
            f"Argument '{argument}' must be {what}, got {_kind(given)} {_shown(given)}.",
            hint=f"Write for example {argument}=0.5.",
        )
    try:
        return float(plain)
    except OverflowError:
        return math.inf if plain > 0 else -math.inf


def check_flags(**given: object) -> None:
    """Raise unless all are True or False."""
    for argument, value in given.items():
        if not isinstance(cast("Any", value), (bool, np.bool)):
            raise ArgumentError(
                f"Argument '{argument}' must be True or False, got {_kind(value)} {_shown(value)}.",
                hint=f"Write {argument}=True, or leave it out.",
            )


def check_functions(on_event: object, cancelled: object) -> None:
    """Raise unless both can be called, or are None."""
    for argument, value in (("on_event", on_event), ("cancelled", cancelled)):
        if value is not None and not callable(value):
            raise ArgumentError(
                f"Argument '{argument}' must be a function, got {_kind(value)} {_shown(value)}.",
                hint="Leave it out.",
            )


def check_mode(mode: object, modes: Sequence[str] = MODES) -> None:
    """Raise unless it is one of the modes of a function."""
    if not isinstance(mode, str) or mode not in modes:
        *names, last = (f"'{name}'" for name in modes)
        raise ArgumentError(
            f"Argument 'mode' must be {', '.join(names)} or {last}, got {_kind(mode)}"
            f" {_shown(mode)}.",
            hint="Leave it out.",
        )


def address_scheme(text: str) -> str:
    """Return the scheme of an address such as 'https://host/x'; empty where it is a path.

    >>> [address_scheme(text) for text in ("s3://b/x", "FILE:/a", "file:a", "C:/a", "a/b:/c")]
    ['s3', 'file', 'file', '', '']
    """
    match = _ADDRESS.match(text)
    scheme = (match[1] or match[2]).lower() if match else ""
    return "" if scheme and os.path.isdir(f"{scheme}:") else scheme


def local_path(text: str) -> Path | None:
    """Return a path, also that of a 'file:' URL; None where it is an address elsewhere.

    >>> local_path("file:///a%20b/c"), local_path("x.nc"), local_path("s3://b/x")
    (PosixPath('/a b/c'), PosixPath('x.nc'), None)
    """
    scheme = address_scheme(text)
    if not scheme:
        return Path(text)
    parts = urlsplit(text)
    is_here = scheme == "file" and parts.netloc in ("", "localhost") and parts.path
    return Path(unquote(parts.path)) if is_here else None


def output_path(text: str, refuse: Callable[..., Exception], what: str = "output") -> Path:
    """Return the path of a result; raises what `refuse` makes where it is an address elsewhere.

    `refuse` takes a sentence and a `hint`; `what` names the argument.
    """
    path = local_path(text)
    if path is None:
        raise refuse(
            f"The {what} '{text}' is an address, but files are written to paths of this machine.",
            hint="Name a path, and copy the files from there.",
        )
    return path


def place_of(argument: str, given: object) -> Path | None:
    """Return where something is written, as users name it."""
    if given is None:
        return None
    found = _path(output_path(given, ArgumentError, argument) if isinstance(given, str) else given)
    if found is None:
        raise ArgumentError(
            f"Argument '{argument}' must be a path, got {_kind(given)} {_shown(given)}.",
            hint=f"Write for example {argument}='result.zarr'.",
        )
    return _at_home(found).absolute()


def source_of(given: object) -> Path:
    """Return the path of a dataset that is not in memory.

    Raises `DatasetError` where it is an address of something else than a file.
    """
    scheme = address_scheme(given) if isinstance(given, str) else ""
    found = _path(local_path(given) if isinstance(given, str) else given)
    if found is None and scheme:
        raise DatasetError(
            f"Dataset {_shown(given)} cannot be read: addresses may begin with 'file:', 'http:' or"
            f" 'https:', and object stores are not read yet; got '{scheme}:'.",
            hint="Open it with xarray.open_zarr or xarray.open_dataset, and pass the dataset.",
        )
    if found is None:
        raise ArgumentError(
            f"A dataset must be an xarray.Dataset or a path, got {_kind(given)}"
            f"{f' {_shown(given)}' if isinstance(given, int | float) else ''}.",
            hint=dataset_hint(given),
        )
    return _at_home(found)


def dataset_hint(given: object) -> str:
    """Return how something that is no dataset becomes one."""
    kind = f"{type(given).__module__.partition('.')[0]}.{type(given).__name__}"
    match kind:
        case "builtins.NoneType":
            return "Pass the dataset, for example xr.open_dataset('data.nc') or the path 'data.nc'."
        case "numpy.ndarray" | "numpy.MaskedArray" | "cupy.ndarray" | "torch.Tensor" | "dask.Array":
            dims = [f"dim_{n}" for n in range(getattr(given, "ndim", 2))]
            return f"Name its variable and dimensions: xr.Dataset({{'t': ({dims}, array)}})."
        case "pandas.DataFrame" | "pandas.Series":
            return "Convert it with its method to_xarray(), its index being the dimensions."
        case "xarray.DataArray":
            return "A variable becomes a dataset by its method to_dataset(name=...)."
        case "xarray.DataTree":
            return "Pass one of its nodes as a dataset: tree['node'].to_dataset()."
        case "zarr.Group" | "fsspec.FSMap" | "zarr.Array":
            return "Open it with xarray.open_zarr(...), and pass the dataset."
        case "builtins.list" | "builtins.tuple" | "builtins.dict":
            return "Write for example xr.Dataset({'t': (('y', 'x'), values)})."
        case _:
            return "Write for example xr.Dataset({'t': (('y', 'x'), array)}), or name a file."


def _at_home(path: Path) -> Path:
    """Return a path whose "~" is the home directory of whom it means."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ArgumentError(
            f"The path '{path}' begins with an unknown home directory.",
            hint="Write the whole path, or './~...' for a name that begins so.",
        ) from error


def _path(given: object) -> Path | None:
    found = fspath(cast("PathLike[Any]", given)) if isinstance(given, PathLike) else given
    return Path(found) if isinstance(found, str) and "\0" not in found else None


def _kind(given: object) -> str:
    """Return the type of what was given, with its article.

    >>> _kind(3), _kind("a"), _kind([])
    ('the int', 'the str', 'the list')
    """
    return f"the {type(given).__name__}"


def _shown(given: object) -> str:
    """Return how a value is written, cut where that is long."""
    return written(given) if isinstance(given, int) else reprlib.repr(given)


def literal_bits(given: int | Mapping[str, int]) -> tuple[int, int]:
    """Return the bits of whole numbers and of others in a text, which `literal_precision` gives."""
    example = "{'int': 64, 'float': 32}"
    if isinstance(given, Mapping):
        found = by_name("literal_precision", given, example)
        unknown = sorted(found.keys() - {"int", "float"})
        bits = (found.get("int", 64), found.get("float", 64))
    else:
        unknown, bits = list[str](), (given, given)
    if unknown or any(isinstance(each, bool) or each not in (32, 64) for each in bits):
        raise ArgumentError(
            f"Argument 'literal_precision' must be 32 or 64, got {given!r}.",
            hint=f"Write 32, or {example} to tell whole numbers from others.",
        )
    return bits
