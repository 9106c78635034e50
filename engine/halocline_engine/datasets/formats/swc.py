"""Neuron morphologies from SWC files: trees of nodes, as a CF contiguous ragged array.

A line of an SWC file is a node: number, type, x, y, z, radius, number of the parent (-1 at the
root); lines that begin with # are comments. Nodes keep their order, whether or not parents come
before their children.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine import arguments
from halocline_engine.datasets.formats.ragged import CELL, NODE, row_size_attributes
from halocline_engine.errors import ArgumentError, DatasetError

__all__ = ["read_swc"]

_FIELDS = 7
_SOMA = 1
#: Micrometres: nodes that coincide count as this far apart.
_SHORTEST = 1e-3
# ohm cm, over micrometres, in megaohms.
_MEGAOHM = 1e-2


@dataclass(frozen=True, slots=True, eq=False)
class _Cell:
    """The nodes of one file: parents are places in it, -1 at a root; lengths in micrometres."""

    kind: NDArray[np.int8]
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
    is a truncated cone, half of whose side belongs to each; from a soma, which is a sphere, it is a
    cylinder with the node's own radius. Raises `DatasetError` with the line that is wrong.
    """
    files = _files(paths)
    if not files or not arguments.number("resistivity", resistivity, "a positive number") > 0:
        raise ArgumentError("Expected at least one SWC file and a positive resistivity.")
    names = [Path(file).stem for file in files]
    units = [
        micrometres if isinstance(micrometres, float | int) else micrometres.get(name, 1.0)
        for name in names
    ]
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


def _read(path: Path, unit: float) -> _Cell:
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"SWC file '{path}' cannot be read: {error}.") from error
    rows: list[list[float]] = []
    lines: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if words:
            rows.append(_row(path, number, words))
            lines.append(number)
    if not rows:
        raise DatasetError(f"SWC file '{path}' has no nodes.")
    table = np.array(rows)
    numbers = table[:, 0].astype(np.int64)
    at = {int(number): place for place, number in enumerate(numbers)}
    if len(at) < len(rows):
        place = next(n for n, number in enumerate(numbers) if at[int(number)] != n)
        raise DatasetError(
            f"SWC file '{path}', line {lines[place]}: node {numbers[place]} occurs more than once."
        )
    parents = np.empty(len(rows), np.int32)
    for place, parent in enumerate(table[:, 6].astype(np.int64).tolist()):
        if parent != -1 and parent not in at:
            raise DatasetError(
                f"SWC file '{path}', line {lines[place]}: there is no node {parent}, which should"
                " be the parent."
            )
        parents[place] = at.get(parent, -1)
    return _Cell(table[:, 1].astype(np.int8), table[:, 2:5] * unit, table[:, 5] * unit, parents)


def _row(path: Path, number: int, words: Sequence[str]) -> list[float]:
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = []
    if len(values) == _FIELDS and values[5] < 0:
        raise DatasetError(
            f"SWC file '{path}', line {number}: the radius must be at least 0, got {words[5]}.",
            hint="A radius that is not known may be 0.",
        )
    if len(values) != _FIELDS or not np.isfinite(values).all():
        raise DatasetError(
            f"SWC file '{path}', line {number}: expected {_FIELDS} numbers, got"
            f" '{' '.join(words)[:60]}'."
        )
    return values


def _shape(
    cell: _Cell, resistivity: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return lengths, areas and conductances."""
    child = cell.parent >= 0
    parent = np.where(child, cell.parent, 0)
    far = np.linalg.norm(cell.place - cell.place[parent], axis=1)
    length = np.where(child, np.maximum(far, _SHORTEST), 0.0)
    near = cell.radius[parent]
    from_soma = (cell.kind[parent] == _SOMA) & (cell.kind != _SOMA)
    near = np.where(from_soma, cell.radius, near)
    side = np.pi * (near + cell.radius) * np.hypot(near - cell.radius, length)
    half = np.where(child, side / 2, 0.0)
    area = half.copy()
    given = child & ~from_soma
    np.add.at(area, parent[given], half[given])
    area[child & from_soma] += half[child & from_soma]
    sphere = (cell.kind == _SOMA) & ~child
    area[sphere] += 4 * np.pi * cell.radius[sphere] ** 2
    resistance = _MEGAOHM * resistivity * np.where(child, length, 1.0)
    cross = np.pi * near * cell.radius
    return length, area, np.where(child, cross / resistance, 0.0)
