"""Many steps on blocks that stay in memory, through `run`, beside the kernels alone.

Usage: gpu_resident.py RESULT.json [--commit COMMIT] [--side SIDE] [--steps STEPS]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import halocline_engine as he
from halocline_engine.device.probe import device_count, device_facts
from halocline_engine.distribute.tasks.events import Event, Planned, StepsFinished

TEXT = """
def p(u: Field[np.float32], v: Field[np.float32], w: np.float32):
    with computation(PARALLEL), interval(...):
        around = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0]
        v = u + w * (around - np.float32(4.0) * u)
"""


def timed(data: xr.Dataset, steps: int, mode: str, cluster: int | None) -> dict[str, Any]:
    """Run once; say how long the call took, and the steps alone."""
    events: list[tuple[float, Event]] = []
    began = time.perf_counter()
    result = he.run(
        TEXT,
        data,
        scalars={"w": np.float32(0.2)},
        boundary={"x": "periodic", "y": "periodic"},
        steps=steps,
        feedback={"v": "u"},
        mode=mode,
        cluster=cluster,
        on_event=lambda event: events.append((time.perf_counter() - began, event)),
    )
    wall = time.perf_counter() - began
    values = np.ascontiguousarray(result["v"].values)
    planned = events[0][1]
    assert isinstance(planned, Planned)
    stepped = [e for _, e in events if isinstance(e, StepsFinished)]
    cells = values.size * steps
    return {
        "mode": mode,
        "cluster": cluster,
        "wall": wall,
        "stepping": stepped[-1].seconds if stepped else None,
        "gstencil_wall": cells / wall / 1e9,
        "steps_per_pass": planned.steps_per_pass,
        "reason": planned.reason,
        "events": [(round(at, 3), type(e).__name__) for at, e in events][:3]
        + [(round(at, 3), type(e).__name__) for at, e in events][-3:],
        "sha256": hashlib.sha256(values.tobytes()).hexdigest()[:16],
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--side", type=int, default=16384)
    parser.add_argument("--steps", type=int, default=512)
    given = parser.parse_args()
    rng = np.random.default_rng(7)
    data = xr.Dataset({"u": (("y", "x"), rng.random((given.side, given.side), dtype=np.float32))})
    rows: list[dict[str, Any]] = []
    clusters = [None, *(n for n in (1, 2, 4, 8) if n <= device_count())]
    for cluster in clusters:
        for mode in ("streamed", "resident", "resident"):
            if mode == "streamed" and cluster is not None:
                continue
            row = timed(data, given.steps, mode, cluster)
            rows.append(row)
            print(json.dumps(row), flush=True)
    assert len({row["sha256"] for row in rows}) == 1, "all of them have the same bits"
    facts = device_facts()
    record = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": facts.name,
        "devices": device_count(),
        "commit": given.commit,
        "side": given.side,
        "steps": given.steps,
        "rows": rows,
    }
    given.result.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
