"""What a temporary in memory is worth on each target."""

from __future__ import annotations

import halocline_engine as he

DEL6 = """
def del6(q: Field[float64], out: Field[float64]):
    with computation(PARALLEL), interval(...):
        a = q[1, 0, 0] + q[-1, 0, 0] + q[0, 1, 0] + q[0, -1, 0] - 4.0 * q
        b = a[1, 0, 0] + a[-1, 0, 0] + a[0, 1, 0] + a[0, -1, 0] - 4.0 * a
        out = q + b[1, 0, 0] + b[-1, 0, 0] + b[0, 1, 0] + b[0, -1, 0] - 4.0 * b
"""


def test_devices_recompute_what_cores_keep() -> None:
    kept = {
        target: len(he.stencil(DEL6, target=target).compiled.schedule.buffers)
        for target in ("cpu", "cuda")
    }
    assert kept == {"cpu": 1, "cuda": 0}
