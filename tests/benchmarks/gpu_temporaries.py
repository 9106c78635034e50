"""Time every place that temporaries can live in, on a real device: GridTools issue 1459.

    PYTHONPATH=engine python tests/benchmarks/gpu_temporaries.py RESULT.json --commit COMMIT
        [--small]

Horizontal diffusion, a chain of three stages, and two stages that meet across points and levels, in
fp64 and fp32: recomputed, in full fields between kernels, in shared memory, and in memory of each
block with its rows unaligned or aligned to 32 or 128 bytes, from a base at the first point or a
moved one. A share is that of copying 1 GiB, counting compulsory bytes alone. The far columns of the
result are compared with the reference. What a program cannot have is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from differential import front
from gpu_stencil import Clock

from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.backends.reference.build import ReferenceBackend
from halocline_engine.cache import Cache
from halocline_engine.device.cupy_types import cupy
from halocline_engine.device.machine import current_machine
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan

HALO = 3
CORNER = (40, 20)
DOMAINS = {"small": (256, 256, 16), "large": (1021, 1019, 160)}
PROGRAMS = {
    "horizontal diffusion": """
def diffusion(inp: Field[{dtype}], coeff: Field[{dtype}], out: Field[{dtype}]):
    with computation(PARALLEL), interval(...):
        lap = {dtype}(4.0) * inp - (inp[-1, 0, 0] + inp[1, 0, 0] + inp[0, -1, 0] + inp[0, 1, 0])
        flx = lap[1, 0, 0] - lap
        flx = {dtype}(0.0) if flx * (inp[1, 0, 0] - inp) > {dtype}(0.0) else flx
        fly = lap[0, 1, 0] - lap
        fly = {dtype}(0.0) if fly * (inp[0, 1, 0] - inp) > {dtype}(0.0) else fly
        out = inp - coeff * (flx - flx[-1, 0, 0] + fly - fly[0, -1, 0])
""",
    "three stages": """
def stages(inp: Field[{dtype}], coeff: Field[{dtype}], out: Field[{dtype}]):
    with computation(PARALLEL), interval(...):
        first = {dtype}(0.5) * (inp[1, 0, 0] + inp[-1, 0, 0]) - inp
        second = {dtype}(0.5) * (first[0, 1, 0] + first[0, -1, 0]) - first
        out = coeff * (second[1, 0, 0] + second[-1, 0, 0] + second[0, 1, 0] + second[0, -1, 0])
""",
    "levels and points": """
def mixed(inp: Field[{dtype}], coeff: Field[{dtype}], out: Field[{dtype}]):
    with computation(PARALLEL), interval(...):
        first = {dtype}(0.5) * (inp[1, 0, 0] + inp[-1, 0, 0]) - inp
    with computation(PARALLEL):
        with interval(0, 1):
            out = coeff * (first[1, 0, 0] + first[-1, 0, 0])
        with interval(1, None):
            out = coeff * (first[1, 0, 0] + first[-1, 0, 0] + first[0, 1, 0] + first[0, 0, -1])
""",
}
STAGED = ("shared", "block", "block-moved")
CHOICES = (
    Options(temporaries="auto"),
    Options(temporaries="recompute"),
    Options(temporaries="field"),
    Options(temporaries="shared"),
    *(Options(temporaries="block", alignment=bytes_) for bytes_ in (1, 32, 128)),
    *(Options(temporaries="block-moved", alignment=bytes_) for bytes_ in (1, 128)),
)


def figures(*, small: bool, cache: Path) -> Iterator[dict[str, Any]]:
    """Yield one line for each program, type and choice."""
    domain = DOMAINS["small" if small else "large"]
    device: Any = cupy()
    clock = Clock(device, small=small)
    for (name, text), dtype in ((p, d) for p in PROGRAMS.items() for d in ("float64", "float32")):
        for options in CHOICES:
            made = front(text.format(dtype=dtype))
            schedule = plan(*made, options)
            if options.temporaries in STAGED and not schedule.staging:
                continue
            run = CudaExecutable(schedule, current_machine(), Cache(cache))
            fields = arrays(run, domain, dtype)
            origins = dict.fromkeys(fields, (HALO, HALO, 0))

            def work(run: Any = run, fields: Any = fields, origins: Any = origins) -> None:
                run(fields, {}, origins, domain)

            timing = clock.compared(work, dtype)
            moved = 3 * np.prod(domain, dtype=np.int64).item() * np.dtype(dtype).itemsize
            yield {
                "program": name,
                "dtype": dtype,
                "temporaries": options.temporaries,
                "alignment": options.alignment if "block" in options.temporaries else None,
                "domain": domain,
                "milliseconds": 1e3 * median(timing.seconds),
                "share": timing.share(moved),
                "same": same(made, fields, domain),
            }
            del fields, work
            device.get_default_memory_pool().free_all_blocks()


def arrays(run: CudaExecutable, domain: tuple[int, int, int], dtype: str) -> dict[str, Any]:
    """Return random inputs on the device, and an output of NaN."""
    shape = (domain[0] + 2 * HALO, domain[1] + 2 * HALO, domain[2])
    made: dict[str, Any] = {}
    device: Any = cupy()
    for seed, name in enumerate(("inp", "coeff", "out")):
        array: Any = run.memory.empty(shape, np.dtype(dtype), (HALO, HALO, 0))
        array[...] = np.nan
        if name != "out":
            generator = device.random.default_rng(seed)
            for level in range(domain[2]):
                array[:, :, level] = generator.standard_normal(shape[:2], dtype=dtype)
        made[name] = array
    return made


def same(made: Any, fields: dict[str, Any], domain: tuple[int, int, int]) -> bool:
    """Return whether the far columns of the output have the bits of the reference."""
    # All levels, as the first one has a section of its own.
    size = (min(CORNER[0], domain[0]), min(CORNER[1], domain[1]), domain[2])
    low = [n - s for n, s in zip(domain, size, strict=True)]
    i, j, k = (slice(b, None) for b in low)
    corner = {name: cupy().asnumpy(array[i, j, k]).copy() for name, array in fields.items()}
    got = corner["out"].copy()
    corner["out"][...] = np.nan
    run = ReferenceBackend().build(plan(*made)).load()
    run(corner, {}, dict.fromkeys(corner, (HALO, HALO, 0)), size)
    inner = (slice(HALO, -HALO), slice(HALO, -HALO))
    return bool(np.array_equal(got[inner], corner["out"][inner]))


def main() -> int:
    """Print the table and write it; returns 1 where a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for line in figures(small=given.small, cache=Path(folder)):
            lines.append(line)
            print(
                f"{line['program']:22}{line['dtype']:9}{line['temporaries']:13}"
                f"{line['alignment'] or '':>4}{line['milliseconds']:10.3f} ms"
                f"{line['share']:8.3f}  {'same bits' if line['same'] else 'WRONG'}",
                flush=True,
            )
    device = cupy().cuda.runtime.getDeviceProperties(0)["name"].decode()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    head = {"date": date, "device": {"name": device}, "commit": given.commit}
    given.result.write_text(json.dumps({**head, "figures": lines}, indent=1) + "\n")
    return 0 if all(line["same"] for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
