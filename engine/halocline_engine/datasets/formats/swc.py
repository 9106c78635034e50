"""Neuron morphologies from SWC files: trees of nodes, as a CF contiguous ragged array.

A line of an SWC file is a node: number, type, x, y, z, radius, number of the parent (-1 at the
root), separated by blanks or commas; further values behind them are ignored, and so is what follows
a #. Nodes keep their order, whether or not parents come before their children.

A soma of one point is a sphere. One of several points is the truncated cones between them, which
for the three points of NeuroMorpho.Org have the area of that sphere.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine import arguments
from halocline_engine.datasets.formats.ragged import CELL, NODE, row_size_attributes
from halocline_engine.errors import ArgumentError, DatasetError

__all__ = ["read_swc"]

_FIELDS = 7
_SOMA = 1
_SEPARATOR = re.compile(r"\s*,\s*|\s+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_TYPES = np.iinfo(np.int32)
#: Micrometres: nodes that coincide count as this far apart.
_SHORTEST = 1e-3
# ohm cm, over micrometres, in megaohms.
_MEGAOHM = 1e-2


@dataclass(frozen=True, slots=True, eq=False)
class _Cell:
    """The nodes of one file: parents are places in it, -1 at a root; lengths in micrometres."""

    kind: NDArray[np.int32]
    place: NDArray[np.float64]
    radius: NDArray[np.float64]
    parent: NDArray[np.int32]


def read_swc(
    paths: str | Path | Sequence[str | Path],
    *,
    micrometres: float | Mapping[str, float] = 1.0,
    resistivity: float = 100.0,
) -> xr.Dataset:
    """Return the cells of some SWC files, in the order of the files.

    `micrometres` is the length of a file's unit, for all files or by the file's name without its
    suffix (1 where it is not named). `resistivity` is that of the axoplasm, in ohm cm.

    The dataset has `row_size` (cell), and for each node: `parent` (its place in the cell, -1 at the
    root), `type`, `x`, `y`, `z`, `radius` and `length` (to the parent) in micrometres; `area`, the
    membrane that belongs to the node, in square micrometres; `conductance`, that of the axoplasm
    between the node and its parent, in microsiemens, 0 at the root. Between a node and its parent
    is a truncated cone, half of whose side belongs to each. Between a soma and another node it is a
    cylinder with the other node's radius, and belongs to that node. A soma of one point is a
    sphere, one of several points their cones, without ends. Raises `DatasetError` with the line
    that is wrong.
    """
    files = _files(paths)
    if not files or not arguments.number("resistivity", resistivity, "a positive number") > 0:
        raise ArgumentError("Expected at least one SWC file and a positive resistivity.")
    names = [Path(file).stem for file in files]
    units = _units(micrometres, names)
    cells = [_read(Path(file), unit) for file, unit in zip(files, units, strict=True)]
    shapes = [_shape(cell, resistivity) for cell in cells]

    def joined(parts: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.concatenate(parts)

    units_of = {"units": "um"}
    return xr.Dataset(
        {
            "row_size": (
                CELL,
                np.array([len(cell.kind) for cell in cells], np.int64),
                row_size_attributes(),
            ),
            "parent": (NODE, joined([cell.parent for cell in cells])),
            "type": (NODE, joined([cell.kind for cell in cells])),
            "x": (NODE, joined([cell.place[:, 0] for cell in cells]), units_of),
            "y": (NODE, joined([cell.place[:, 1] for cell in cells]), units_of),
            "z": (NODE, joined([cell.place[:, 2] for cell in cells]), units_of),
            "radius": (NODE, joined([cell.radius for cell in cells]), units_of),
            "length": (NODE, joined([shape[0] for shape in shapes]), units_of),
            "area": (NODE, joined([shape[1] for shape in shapes]), {"units": "um2"}),
            "conductance": (NODE, joined([shape[2] for shape in shapes]), {"units": "uS"}),
        },
        coords={CELL: (CELL, np.array(names))},
        attrs={"featureType": "cell", "Conventions": "CF-1.11"},
    )


def _files(paths: object) -> list[Path]:
    """Return the paths of one file or of several."""
    found, kind = [paths], type(paths).__name__
    if isinstance(paths, Iterable) and not isinstance(paths, str):
        found = list(cast("Iterable[object]", paths))
    if not all(isinstance(path, str | Path) for path in found):
        raise ArgumentError(
            f"Argument 'paths' must be a path or a list of paths, got the {kind}.",
            hint="Write for example paths=['a.swc', 'b.swc'].",
        )
    return [Path(cast("str | Path", path)) for path in found]


def _units(micrometres: object, names: Sequence[str]) -> list[float]:
    """Return the length of each file's unit in micrometres."""
    if isinstance(micrometres, Mapping):
        of = cast("Mapping[str, object]", micrometres)
        unknown = [name for name in of if name not in names]
        if unknown:
            raise ArgumentError(
                f"Argument 'micrometres' names {unknown[0]!r}, but the files are {list(names)}.",
                hint="Name files without their folders and suffixes.",
            )
        given = [of.get(name, 1.0) for name in names]
    else:
        given = [micrometres] * len(names)
    units = [arguments.number("micrometres", unit, "a positive length") for unit in given]
    if not all(0 < unit < np.inf for unit in units):
        raise ArgumentError(f"Argument 'micrometres' must be positive, got {micrometres!r}.")
    return units


def _read(path: Path, unit: float) -> _Cell:
    rows = _rows(path)
    if not rows:
        raise DatasetError(f"SWC file '{path}' has no nodes.")
    at: dict[int, int] = {}
    for place, row in enumerate(rows):
        if at.setdefault(row.number, place) != place:
            first = rows[at[row.number]].line
            raise _wrong(path, row.line, f"node {row.number} occurs again; it is in line {first}.")
    parents = np.empty(len(rows), np.int32)
    for place, row in enumerate(rows):
        if row.parent != -1 and row.parent not in at:
            raise _wrong(
                path,
                row.line,
                f"there is no node {row.parent}, which should be the parent.",
                "A root has the parent -1.",
            )
        parents[place] = at.get(row.parent, -1)
    _refuse_cycles(path, rows, parents)
    table = np.array([row.values for row in rows])
    kinds = np.array([row.kind for row in rows], np.int32)
    return _Cell(kinds, table[:, :3] * unit, table[:, 3] * unit, parents)


class _Row(NamedTuple):
    """A node: its line, number, type and parent, and x, y, z and radius."""

    line: int
    number: int
    kind: int
    parent: int
    values: tuple[float, ...]


def _rows(path: Path) -> list[_Row]:
    """Return the nodes of a file."""
    try:
        text = _decode(path.read_bytes())
    except OSError as error:
        raise DatasetError(f"SWC file '{path}' cannot be read: {error}.") from error
    # Not `splitlines`: comments have its separators of paragraphs and the like in them.
    lines = (
        (n, line.split("#", 1)[0].strip()) for n, line in enumerate(io.StringIO(text, None), 1)
    )
    return [_row(path, number, line) for number, line in lines if line]


def _decode(content: bytes) -> str:
    """Return the text of a file. Numbers are ASCII: only comments depend on the encoding."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _row(path: Path, line: int, text: str) -> _Row:
    words = _SEPARATOR.split(text)
    # Behind a decimal comma numbers would be others, so that they are counted.
    fits = len(words) == _FIELDS if "," in text else len(words) >= _FIELDS
    values = [float(word) for word in words[:_FIELDS] if _NUMBER.fullmatch(word)]
    if not fits or len(values) != _FIELDS or not np.isfinite(values).all():
        hint = "Numbers have a point, and commas only separate them." if "," in text else ""
        raise _wrong(path, line, f"expected {_FIELDS} numbers, got '{text[:60]}'.", hint)
    number, kind, parent = (
        _whole(path, line, name, words[place])
        for name, place in (("number of the node", 0), ("type", 1), ("parent", 6))
    )
    if number < 0:
        raise _wrong(path, line, f"the number of the node must be at least 0, got {number}.")
    if not _TYPES.min <= kind <= _TYPES.max:
        raise _wrong(path, line, f"the type must be from {_TYPES.min} to {_TYPES.max}, got {kind}.")
    if parent == number:
        raise _wrong(path, line, f"node {number} is its own parent.", "A root has the parent -1.")
    if values[5] < 0:
        raise _wrong(
            path,
            line,
            f"the radius must be at least 0, got {words[5]}.",
            "A radius that is not known may be 0.",
        )
    return _Row(line, number, kind, parent, tuple(values[2:6]))


def _whole(path: Path, line: int, name: str, word: str) -> int:
    """Return a whole number exactly: those of connectomes exceed what doubles hold."""
    try:
        return int(word)
    except ValueError:
        value = float(word)
    if not value.is_integer():
        raise _wrong(path, line, f"the {name} must be a whole number, got {word}.")
    return int(value)


def _wrong(path: Path, line: int, what: str, hint: str = "") -> DatasetError:
    return DatasetError(f"SWC file '{path}', line {line}: {what}", hint=hint)


def _refuse_cycles(path: Path, rows: Sequence[_Row], parents: NDArray[np.int32]) -> None:
    """Raise `DatasetError` where the parents of a node lead to no root."""
    above = np.where(parents < 0, np.arange(len(rows)), parents)
    # Each turn doubles the distance to the node above.
    for _ in range(len(rows).bit_length()):
        above = above[above]
    lost = np.flatnonzero(parents[above] >= 0)
    if lost.size:
        row = rows[int(lost[0])]
        raise _wrong(
            path,
            row.line,
            f"node {row.number} leads to no root: its parents form a cycle.",
            "A root has the parent -1.",
        )


def _shape(
    cell: _Cell, resistivity: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return lengths, areas and conductances."""
    child = cell.parent >= 0
    parent = np.where(child, cell.parent, np.arange(len(cell.parent)))
    far = np.linalg.norm(cell.place - cell.place[parent], axis=1)
    length = np.where(child, np.maximum(far, _SHORTEST), 0.0)
    soma, above = cell.kind == _SOMA, cell.kind[parent] == _SOMA
    own = np.where(soma & ~above, cell.radius[parent], cell.radius)
    near = np.where(above & ~soma, cell.radius, cell.radius[parent])
    side = np.where(child, np.pi * (near + own) * np.hypot(near - own, length), 0.0)
    # Both ends have half of a side, but a soma has none of a neurite's.
    share = np.where(soma == above, 0.5, np.where(soma, 0.0, 1.0))
    area = side * share
    np.add.at(area, parent, side * (1 - share))
    area += _spheres(cell, parent, np.where(soma & above, far, 0.0))
    resistance = _MEGAOHM * resistivity * np.where(child, length, 1.0)
    cross = np.pi * near * own
    return length, area, np.where(child, cross / resistance, 0.0)


def _spheres(
    cell: _Cell, parent: NDArray[np.intp], extent: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the areas of somas that are one point, at the first of their nodes.

    `extent` is the length from a soma's node to its parent, 0 for other nodes.
    """
    soma = cell.kind == _SOMA
    top = np.where(soma & soma[parent], parent, np.arange(len(parent)))
    for _ in range(len(parent).bit_length()):
        top = top[top]
    whole = np.bincount(top, extent, len(parent))
    radius = np.zeros(len(parent))
    np.maximum.at(radius, top[soma], cell.radius[soma])
    return np.where(whole == 0, 4 * np.pi * radius**2, 0.0)
