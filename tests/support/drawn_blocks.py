"""Run a drawn program on a dataset in one block and cut into several, streamed or kept in memory.

Regions, the levels of the run and temporaries over I and J depend on where a block lies; no bit of
the result does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import xarray as xr
from drawing import SCALARS

from halocline_engine.analysis.named import used_fields
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.run import run
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.types import Axis, DType

__all__ = ["Cut", "blocks_agree", "drawn_cut"]

SIZES = {"east": 12, "north": 9, "up": 5}
_SIDES = ("periodic", "edge", "reflect", "extrapolate", "none", {"constant": 0.5})


@dataclass(frozen=True)
class Cut:
    """How a program is run."""

    chunks: dict[str, int]
    boundary: dict[str, Any]
    ranks: int = 1
    steps: int = 1
    per_pass: int = 1
    feedback: dict[str, str] = field(default_factory=dict[str, str])


def drawn_cut(seed: int, meaning: Program) -> Cut:
    """Return the way that belongs to a number; `x` is fed back where the program allows it."""
    random = Random(seed)
    fields = {one.name: one for one in meaning.fields}
    fed = fields["x"].written and not fields["x"].read and fields["a"].read
    bounded = [dim for dim in SIZES if dim != "up" or random.random() < 0.3]
    # Tables name points of all blocks along I.
    cut = list(SIZES.items())[1 if meaning.gathers else 0 : 2]
    return Cut(
        chunks={dim: random.randint(1, size) for dim, size in cut},
        boundary={dim: random.choice(_SIDES) for dim in bounded},
        ranks=random.randint(1, 3),
        steps=random.randint(1, 3),
        per_pass=random.randint(1, 3),
        feedback={"x": "a"} if fed and random.random() < 0.7 else {},
    )


def blocks_agree(
    text: str,
    meaning: Program,
    cut: Cut,
    target: str,
    seed: int,
    options: Mapping[str, Any],
) -> None:
    """Raise `AssertionError` where blocks change a bit; the reference judges what one has.

    `options` says what the names of the text mean.
    """
    given = _dataset(meaning, seed)
    scalars = {name: SCALARS[name] for name in meaning.arguments if name in SCALARS}
    expected = _arrays(text, given, scalars, cut, "reference", **options)
    how = {"chunks": cut.chunks, "options": Options(steps_per_pass=cut.per_pass), **options}
    pool = LocalPool(workers=cut.ranks)
    for mode in ("streamed", "resident"):
        ranks = patch("halocline_engine.distribute.executors.select.local_pool", return_value=pool)
        with ranks:
            found = _arrays(text, given, scalars, cut, target, mode=mode, **how)
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=f"{mode}, {name}")


def _arrays(
    text: str, given: xr.Dataset, scalars: Mapping[str, Any], cut: Cut, target: str, **how: Any
) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        result = run(
            text,
            given,
            scalars=scalars,
            axes=dict(zip("IJK", SIZES, strict=True)),
            boundary=cut.boundary,
            steps=cut.steps,
            feedback=cut.feedback,
            target=target,
            **how,
        )
        return {str(name): result[name].values for name in result.data_vars}


def _dataset(meaning: Program, seed: int) -> xr.Dataset:
    """Return rough inputs for all that the program reads or writes."""
    random = np.random.default_rng(seed)
    shapes = {whole.name: whole.shape for whole in meaning.components}
    types = {one.name: one.dtype for one in meaning.fields}
    dims = dict(zip(Axis, SIZES, strict=True))
    found: dict[str, Any] = {}
    slots = {table.name: table.slots for table in meaning.tables}
    naming = {gather.index.partition(".")[0] for gather in meaning.gathers}
    for one in used_fields(meaning):
        name = one.name.partition(".")[0]
        if name in slots or name in naming:
            found[name] = _table(name, one.dtype, slots.get(name), name in naming, random)
            continue
        extra = shapes.get(name, ())
        axes = [dims[axis] for axis in reversed(one.axes)]
        found[name] = _values(name, axes, extra, one.dtype, random)
    for lookup in meaning.lookups:
        dtype = types[lookup.name]
        found[lookup.name] = _values(lookup.name, [], lookup.shape, dtype, random)
    return xr.Dataset(found)


def _table(
    name: str, dtype: DType, slots: int | None, naming: bool, random: np.random.Generator
) -> tuple[tuple[str, ...], Any]:
    """Return a table, whose columns may come first, or one column; it may be `naming` points."""
    dims, values = _values(name, ["east"], () if slots is None else (slots,), dtype, random)
    if naming:
        values[...] = random.integers(-int(random.integers(0, 2)), SIZES["east"], values.shape)
    return (dims[::-1], values.T) if random.random() < 0.3 else (dims, values)


def _values(
    name: str, axes: list[str], extra: tuple[int, ...], dtype: DType, random: np.random.Generator
) -> tuple[tuple[str, ...], Any]:
    shape = (*(SIZES[dim] for dim in axes), *extra)
    if dtype.is_integer:
        values: Any = random.integers(-9, 10, shape)
    else:
        values = random.normal(size=shape) if dtype.is_float else random.random(shape) > 0.5
    dims = (*axes, *(f"{name}_{number}" for number in range(len(extra))))
    return dims, values.astype(dtype.value)
