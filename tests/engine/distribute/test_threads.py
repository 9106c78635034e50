"""How many blocks this process has at hand: as it was asked, for every kind of job."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.executors.base import Done
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.model import BlockWork

MEAN = """
def mean(a: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 0.5 * (a[-1, 0, 0] + a[1, 0, 0])
"""
SHAPE = (12, 8)
DATASET = xr.Dataset(
    {
        **{name: (("y", "x"), np.full(SHAPE, 0.25)) for name in ("low", "up")},
        "a": (("y", "x"), np.random.default_rng(1).normal(size=SHAPE)),
        "turned": (("x", "z"), np.ones((8, 3))),
        "diagonal": (("y", "x"), np.full(SHAPE, 2.0)),
        "index": ("p", [3, 5]),
        "places": ("x", np.arange(8)[::-1].copy()),
        "nodes": ("node", np.ones(3)),
        "parent": ("node", np.array([-1, 0, 1])),
        "count": ("cell", np.array([3]), {"sample_dimension": "node"}),
    },
    coords={
        "lev": ("lev", np.arange(4.0) + 0.5, {"axis": "Z", "bounds": "edges"}),
        "edges": (("lev", "side"), np.stack([np.arange(4.0), np.arange(1.0, 5.0)], axis=1)),
    },
).assign(t=(("y", "x", "lev"), np.random.default_rng(2).normal(size=(*SHAPE, 4))))
BANDS: dict[str, Any] = {"lower": "low", "diagonal": "diagonal", "upper": "up", "dim": "x"}
WEIGHTS = xr.Dataset(
    {
        "row": ("n_s", np.arange(1, 97)),
        "col": ("n_s", np.arange(1, 97)),
        "S": ("n_s", np.ones(96)),
        "src_grid_dims": ("a", np.array([8, 12])),
        "dst_grid_dims": ("b", np.array([8, 12])),
    }
)


def averaged(**more: Any) -> xr.Dataset:
    return he.run(MEAN, DATASET, **more)


def solved(**more: Any) -> xr.Dataset:
    return he.tridiagonal(DATASET, rhs="a", **BANDS, **more)


def with_factors(**more: Any) -> xr.Dataset:
    factors = he.factor(DATASET, **BANDS, target="cpu", options=he.Options(threads=3))
    return he.solve(DATASET, factors, rhs="a", **more)


def factored(**more: Any) -> xr.Dataset:
    return he.factor(DATASET, **BANDS, **more)


def up_trees(**more: Any) -> xr.Dataset:
    named = {"diagonal": "nodes", "upper": "nodes", "rhs": "nodes", "parent": "parent"}
    return he.tree(DATASET, row_size="count", **named, **more)


def gathered(**more: Any) -> xr.Dataset:
    return he.gather(DATASET, source="a", index="index", dim="x", **more)


def gathered_in_buckets(**more: Any) -> xr.Dataset:
    more = {"chunks": {"x": 3, "p": 1}, **more}
    return he.gather(DATASET, source="a", index="index", dim="x", **more)


def scattered(**more: Any) -> xr.Dataset:
    return he.scatter(DATASET, source="a", index="places", dim="c", size=8, **more)


def regridded(**more: Any) -> xr.Dataset:
    return he.regrid(DATASET[["a"]], WEIGHTS, **more)


def columns(**more: Any) -> xr.Dataset:
    return he.column("2.0 * t", DATASET, **more)


def multiplied(**more: Any) -> xr.Dataset:
    return he.matmul(DATASET, left="a", right="turned", dim="x", **more)


KINDS = [
    averaged,
    solved,
    with_factors,
    factored,
    up_trees,
    gathered,
    gathered_in_buckets,
    scattered,
    regridded,
    columns,
]


@pytest.mark.parametrize("make", KINDS)
def test_every_kind_of_job_has_as_many_blocks_at_hand_as_was_asked(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    run = LocalPool.run

    def noted(
        self: LocalPool, work: BlockWork, blocks: Sequence[Block], asked: CancelToken | None
    ) -> Iterator[Event | Done]:
        seen.append(self.threads)
        return run(self, work, blocks, asked)

    monkeypatch.setattr(LocalPool, "run", noted)
    made = make(target="cpu", options=he.Options(threads=3))
    assert set(seen) == {3}
    assert made.drop_attrs().identical(make(target="cpu").drop_attrs())


@pytest.mark.parametrize("make", [*KINDS, multiplied])
def test_a_cluster_has_threads_of_its_own(make: Any) -> None:
    if make is multiplied:
        expected = "a product is one stream of tiles. Leave it out."
    else:
        expected = "a cluster computes them. Leave it out; the workers' own threads count."
    with pytest.raises(he.ArgumentError) as caught:
        make(target="cpu", cluster="tcp://nowhere:1", options=he.Options(threads=3))
    assert str(caught.value) == (
        f"Option 'threads' is how many blocks this process has at hand, got 3, but {expected}"
    )


def test_a_product_is_one_stream() -> None:
    with pytest.raises(he.ArgumentError) as caught:
        multiplied(options=he.Options(threads=1))
    assert str(caught.value) == (
        "Option 'threads' is how many blocks this process has at hand, got 1, but a product is one"
        " stream of tiles. Leave it out."
    )
