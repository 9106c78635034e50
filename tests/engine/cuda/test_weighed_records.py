"""Programs with fields that are made of records, as CUDA on the host, against the reference."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import numpy as np
import pytest
from programs import Box, drawn, reference, scheduled
from tile_choices import changed

from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.targets import TARGETS
from halocline_engine.ir.verify import verify
from halocline_engine.passes.weigh_records import Records, weigh_records
from halocline_engine.schedule.plan import plan

TEXT = """
def driven(u: Field[{0}], f: Field[{0}], g: Field[{0}], v: Field[{0}], a: {0}):
    with computation(PARALLEL), interval(...):
        v = u + a * (f[-1, 0, 0] + f[0, 1, 0]) * f - g
        if f > g[1, 0, 0]:
            v = v * f
"""
DOMAIN: Box = (37, 13, 5)
MADE = {
    "f": Records(("f.record0", "f.record1"), ("f.weight1",)),
    "g": Records(("g.record0", "g.record1", "g.record2"), ("g.weight1", "g.weight2")),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_the_reference_and_of_numpy(load: Any, dtype: str, seed: int) -> None:
    random = Random(seed)
    whole = scheduled(TEXT.format(dtype))
    program = weigh_records(whole.program, MADE)
    verify(program)
    assert weigh_records(program, MADE) is program  # they are no fields any more
    schedule = plan(program, analyse(program), TARGETS["cuda"].options())
    names = ("u", *MADE["f"].fields, *MADE["g"].fields)
    shape: Box = (DOMAIN[0] + 2, DOMAIN[1] + 2, DOMAIN[2] + 2)
    fields = {name: drawn(shape, 7 * seed + at, dtype) for at, name in enumerate(names)}
    fields["v"] = np.full(shape, np.nan, dtype)
    weights = {name: random.choice((0.0, random.random())) for name in ("f.weight1", "g.weight1")}
    scalars = {"a": 0.25, **weights, "g.weight2": 0.0}
    fields["g.record2"][...] = np.nan  # of no weight
    scalars = {name: float(np.dtype(dtype).type(one)) for name, one in scalars.items()}
    origins: dict[str, Box] = dict.fromkeys(fields, (1, 1, 1))
    expected = reference(schedule, fields, scalars, origins, DOMAIN)["v"]
    width = random.choice((1, 2))
    load(schedule, tiles=changed(width=width))(fields, scalars, origins, DOMAIN)
    np.testing.assert_array_equal(fields["v"], expected)
    f, g = (made_of(fields, scalars, name) for name in ("f", "g"))
    inner = (slice(1, -1),) * 3
    around = (f[:-2, 1:-1, 1:-1] + f[1:-1, 2:, 1:-1]) * np.dtype(dtype).type(scalars["a"])
    v = fields["u"][inner] + around * f[inner] - g[inner]
    wanted = cast(Any, np).where(f[inner] > g[2:, 1:-1, 1:-1], v * f[inner], v)
    np.testing.assert_array_equal(expected[inner], wanted)


def made_of(fields: dict[str, Any], scalars: dict[str, float], name: str) -> Any:
    first, *others = MADE[name].fields
    found = fields[first]
    for record, weight in zip(others, MADE[name].weights, strict=True):
        if scalars[weight]:
            factor = found.dtype.type(scalars[weight])
            found = found + factor * (fields[record] - fields[first])
    return found
