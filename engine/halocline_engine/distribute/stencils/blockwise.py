"""A step of a stencil program as a job over blocks, which may be one stage of several."""

from __future__ import annotations

from dataclasses import replace

from halocline_engine.backends.settled import left_of
from halocline_engine.datasets.stores.result import attributes_of
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.blocks.work import Code, Work, saved_results, sources_of
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.jobs.execute import Blockwise, Output
from halocline_engine.distribute.jobs.shares import step_work
from halocline_engine.distribute.stencils.demand import Demand, Supply
from halocline_engine.distribute.stencils.plan import RESULT_CHUNK, chunks_for, make_plan
from halocline_engine.distribute.stencils.request import Checked, temporaries_of
from halocline_engine.distribute.tasks.options import Options, check_compiled

__all__ = ["stencil_job"]


def stencil_job(checked: Checked, pool: Pool, options: Options) -> Blockwise:
    """Return the job. Raises `CapacityError` where no block fits."""
    check_compiled(checked.compiled, options)
    compiled, uses, grid = checked.compiled, checked.match.uses, checked.match.grid
    demand = Demand.of(checked, steps_per_pass=1, in_memory=not pool.remote)
    demand = replace(demand, steps=1, every=None, order=options.order, cache=0)
    plan = make_plan(demand, Supply.of(pool, compiled.target))

    def work(source: Source, sink: Sink) -> Work:
        return Work(
            layout=plan.layout,
            code=Code.of(compiled),
            scalars=checked.scalars,
            sources=sources_of(uses, source),
            sink=sink,
            saved=saved_results(uses),
            steps=1,
            temporaries=temporaries_of(compiled),
        )

    dims = [
        *zip(grid.dims, grid.sizes, strict=True),
        *zip(grid.extra, grid.extra_sizes, strict=True),
        *((dim, size) for dim, _, size in grid.positions),
    ]
    attributes = attributes_of(checked.opened.dataset, uses)
    return Blockwise(
        opened=checked.opened,
        sizes={dim: size for dim, size in dims if dim is not None},
        reads=tuple(use.variable for use in uses if use.loaded),
        outputs=tuple(
            Output(
                use.variable,
                use.dims,
                use.dtype,
                tuple(chunks_for(plan, use, RESULT_CHUNK).values()),
                attributes[use.variable],
            )
            for use in uses
            if use.result
        ),
        blocks=plan.blocks,
        work=work,
        what=f"program '{compiled.program.name}'",
        target=compiled.target,
        projected=plan.projected,
        output=checked.request.output,
        operations=step_work(left_of(compiled.program, checked.scalars.constant), grid).operations,
    )
