"""Blocks, passes and chunks that a plan chooses."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from halocline_engine.analysis.boundaries import Kind, Side
from halocline_engine.datasets.grids.match import FieldUse, match_fields
from halocline_engine.distribute.grid.boundary import Line
from halocline_engine.distribute.grid.geometry import Layout, geometry, reaches_of
from halocline_engine.distribute.grid.partition import Block, Span, partition
from halocline_engine.distribute.resident.plan import plan_resident
from halocline_engine.distribute.stencils.conditions import lines_of
from halocline_engine.distribute.stencils.demand import Demand, Supply
from halocline_engine.distribute.stencils.memory import cost_of
from halocline_engine.distribute.stencils.plan import chunks_for, make_plan
from halocline_engine.errors import CapacityError
from halocline_engine.program import compile_program

STAR = """
def star(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = inp[1, 0, 0] + inp[-1, 0, 0] + inp[0, 1, 0] + inp[0, -1, 0]
"""


def demand(
    sizes: dict[str, int],
    chunks: dict[str, int] | None = None,
    boundary: dict[str, Any] | None = None,
    **changes: Any,
) -> Demand:
    compiled = compile_program(STAR, target="reference")
    values = np.broadcast_to(np.float64(0), tuple(sizes.values()))
    dataset = xr.Dataset({"inp": (tuple(sizes), values)})
    if chunks:
        dataset["inp"].encoding["chunks"] = tuple(chunks.get(dim, sizes[dim]) for dim in sizes)
    match = match_fields(compiled.program, compiled.facts, dataset, {}, {"out": "inp"}, None)
    reaches = tuple(reaches_of(compiled.facts.fields[use.name]) for use in match.uses)
    lines = lines_of(boundary or {}, match.grid, match.uses, reaches, {})
    plain = Demand(
        layout=Layout(match.grid, match.uses, lines, reaches),
        temporaries=(),
        steps=1,
        target="cpu",
        block={},
        steps_per_pass=None,
        in_memory=False,
    )
    return replace(plain, **changes)


def test_small_data_is_one_block() -> None:
    plan = make_plan(demand({"time": 2, "y": 30, "x": 40}), Supply(1, 2, 10**9))
    assert (plan.block, plan.extra_block, plan.passes) == ((40, 30, 1), (2,), 1)


def test_dimensions_that_are_looped_over_are_split_first() -> None:
    plan = make_plan(demand({"time": 64, "y": 1000, "x": 1000}), Supply(1, 2, 10**9))
    assert plan.block == (1000, 1000, 1)
    assert plan.extra_block[0] < 64


def test_blocks_fit_into_memory_and_their_bytes_are_projected() -> None:
    for memory in (10**7, 10**8, 10**9):
        wanted = demand({"time": 8, "y": 2000, "x": 2000})
        plan = make_plan(wanted, Supply(3, 2, memory))
        assert plan.projected <= 3 * memory
        worst = max(
            2 * cost.host + cost.target
            for cost in (cost_of(plan.layout, block, 1, (), 0) for block in plan.blocks)
        )
        assert worst <= memory


def test_blocks_follow_the_chunks_of_the_source() -> None:
    wanted = demand({"y": 3000, "x": 3000}, {"y": 250, "x": 3000})
    plan = make_plan(wanted, Supply(1, 1, 150_000_000))
    assert plan.block[0] == 3000
    assert plan.block[1] % 250 == 0
    assert plan.block[1] < 3000


def test_several_steps_are_fused_where_stores_are_slow() -> None:
    wanted = demand({"y": 3000, "x": 3000}, steps=100)
    plan = make_plan(wanted, Supply(2, 2, 10**8))
    assert 1 < plan.steps_per_pass < 100
    assert plan.passes == -(-100 // plan.steps_per_pass)


@pytest.mark.parametrize(("steps", "passes"), [(100, 1), (500, 1), (50_000, 20), (10**7, 153)])
def test_a_long_job_of_one_block_shows_progress(steps: int, passes: int) -> None:
    """A pass through memory that is over at once shows none; neither is one of all steps."""
    sides = {"x": "periodic", "y": "edge"}
    wanted = demand({"y": 330, "x": 360}, boundary=sides, steps=steps, in_memory=True)
    plan = make_plan(wanted, Supply(1, 2, 10**9))
    assert len(plan.blocks) == 1
    assert plan.passes == passes


@pytest.mark.parametrize(("steps", "passes"), [(100, 1), (500, 1), (50_000, 20), (10**6, 96)])
def test_a_job_of_one_block_is_kept_in_stores_now_and_then(steps: int, passes: int) -> None:
    """By the estimate of 0.95 ms a step: passes of a second and less are not worth a store."""
    sides = {"x": "periodic", "y": "edge"}
    wanted = demand({"y": 330, "x": 360}, boundary=sides, steps=steps)
    plan = make_plan(wanted, Supply(1, 2, 10**9))
    assert (len(plan.blocks), plan.passes) == (1, passes)


@pytest.mark.parametrize("side", [100, 1000, 4000])
@pytest.mark.parametrize("steps", [10, 300, 30_000])
@pytest.mark.parametrize("workers", [1, 3])
def test_passes_cost_little_of_the_whole(side: int, steps: int, workers: int) -> None:
    """What passes move is no more than a twentieth of what they compute, or there is but one."""
    sides = {"x": "periodic", "y": "edge"}
    wanted = demand({"y": side, "x": side}, boundary=sides, steps=steps)
    plan = make_plan(wanted, Supply(workers, 1, 10**10))
    moved = 2 * side**2 * 8 * 4e-9 + 0.04
    computed = plan.steps_per_pass * side**2 * 2 * 4e-9
    deep = plan.steps_per_pass >= 512 or len(plan.blocks) > 1
    assert plan.passes == 1 or deep or moved <= 0.06 * computed


def test_a_million_steps_are_planned_at_once() -> None:
    started = time.process_time()
    plan = make_plan(demand({"y": 5, "x": 6}, steps=1_000_000), Supply(1, 2, 10**9))
    assert time.process_time() - started < 10
    assert plan.steps_per_pass <= 65536
    assert plan.steps_per_pass * plan.passes >= 1_000_000


def test_what_cannot_fit_is_refused_with_numbers() -> None:
    wanted = demand({"y": 1000, "x": 1000}, block={"y": 1000, "x": 1000})
    with pytest.raises(CapacityError) as caught:
        make_plan(wanted, Supply(1, 2, 10**6))
    assert str(caught.value) == (
        "The smallest block needs 40 MB of a worker's memory, but only 1 MB are free. Give smaller"
        " 'chunks', fewer steps at once, or workers with more memory."
    )
    assert caught.value.available == 10**6
    assert caught.value.needed == 24_000_000 + 16_000_000


def test_rows_stay_whole_in_a_pipeline_unless_memory_forbids() -> None:
    wanted = demand({"y": 4000, "x": 30000}, block={"y": 1000}, target="cuda", slots=3)
    plan = make_plan(wanted, Supply(1, 2, 10**10, 10**10))
    assert (plan.block, plan.slots, len(plan.blocks)) == ((30000, 1000, 1), 3, 4)
    scarce = make_plan(wanted, Supply(1, 2, 10**10, 10**9))
    assert scarce.block[0] < 30000
    assert scarce.projected > 3 * 2 * 8 * 1000 * scarce.block[0]
    assert make_plan(replace(wanted, slots=0), Supply(1, 2, 10**10, 10**10)).block[0] < 30000


def test_a_device_has_its_own_limit() -> None:
    wanted = demand({"y": 1000, "x": 1000}, block={"y": 1000, "x": 1000}, target="cuda")
    with pytest.raises(CapacityError, match="of a device's memory, but only 1 MB are free"):
        make_plan(wanted, Supply(1, 2, 10**9, 10**6))
    smaller = make_plan(replace(wanted, block={}), Supply(1, 2, 10**9, 10**6))
    assert len(smaller.blocks) > 16


@pytest.mark.parametrize("block", [{"y": 7, "x": 100}, {"y": 60, "x": 90}, {"y": 64, "x": 64}])
@pytest.mark.parametrize("most", [1, 2000, 20_000, 10**9])
def test_a_chunk_lies_in_one_block(block: dict[str, int], most: int) -> None:
    plan = make_plan(demand({"y": 210, "x": 190}, block=block), Supply(1, 1, 10**9))
    output: FieldUse = plan.layout.uses[1]
    chunks = chunks_for(plan, output, most)
    for dim, size in (("y", 210), ("x", 190)):
        step = min(block[dim], size)
        assert step % chunks[dim] == 0 or step == size
    assert np.prod(list(chunks.values())) * 8 <= max(most, 8)


def test_blocks_cover_the_grid_once() -> None:
    seen = np.zeros((5, 7, 3, 4), int)
    for block in partition((5, 7, 3), (4,), (2, 3, 3), (3,)):
        i, j, k = block.box
        seen[i.start : i.stop, j.start : j.stop, k.start : k.stop][
            ..., block.extra[0].start : block.extra[0].stop
        ] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.WRAP])
def test_what_a_step_reads_was_right_before(kind: Kind) -> None:
    """All that a step reads, and all that its ghosts are made of, is valid after the one before."""
    wanted = demand({"y": 9, "x": 11})
    line = Line(11, Side(kind), Side(kind))
    layout = replace(wanted.layout, lines=tuple((line, *o[1:]) for o in wanted.layout.lines))
    for start, steps in itertools.product(range(0, 11, 2), (1, 2, 5)):
        block = Block(0, (Span(start, min(11, start + 2)), Span(0, 9), Span(0, 1)), ())
        cells = geometry(layout, block, steps)
        assert cells.valid[-1] == block.box
        for before, after, domain in zip(cells.valid, cells.valid[1:], cells.domains, strict=False):
            assert before[0].hull(after[0]) == before[0]
            reads = domain[0].widen(-1, 1) if domain[0].size else domain[0]
            inside = reads if kind is Kind.PERIODIC else reads.meet(Span(0, 11))
            assert before[0].hull(inside) == before[0]
            if kind is Kind.NONE:
                assert reads == inside


def test_halos_that_nothing_hides_are_exchanged_seldom() -> None:
    """Cells inside are computed beside an exchange from 32 MiB of them on."""
    devices = Supply(4, 1, 10**10, 10**10, remote=True, same_host=True)

    def steps(rows: int) -> int:
        sizes = {"y": 4 * rows, "x": 2048}
        wanted = demand(sizes, steps=1000, target="cuda", block={"y": rows}, in_memory=True)
        return plan_resident(wanted, devices).plan.steps_per_pass

    assert steps(1030) == 1
    assert steps(1024) > 1
