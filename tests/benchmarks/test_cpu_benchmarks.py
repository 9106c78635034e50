"""Generated loops beside hand-written ones on the CPU, both with the same result.

Timed with `pytest tests/benchmarks --benchmark-only`; `python tests/benchmarks/cpu_stencil.py`
prints one table with shares of the copy bandwidth. With `--benchmark-disable` each runs once, which
tests that both agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cpu_cases import CASES, Case
from differential import front

from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.schedule.plan import plan

DOMAIN = (128, 96, 40)


def arrays(case: Case, domain: tuple[int, int, int]) -> dict[str, Any]:
    """Return arrays indexed [k, j, i]; a dominant `b` keeps the solve tame."""
    random = np.random.default_rng(3)
    program, _ = front(case.text)
    shape = [n + 2 * case.halo for n in reversed(domain)]
    made = {f.name: random.random(shape) for f in program.fields}
    if "b" in made:
        made["b"] += 4.0
    made["x"][...] = np.nan
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("kind", ["generated", "by hand"])
def test_time(case: Case, kind: str, benchmark: Any) -> None:
    made = arrays(case, DOMAIN)
    if kind == "by hand":
        benchmark(case.by_hand, *made.values())
    else:
        program, facts = front(case.text)
        executable = CpuBackend().build(plan(program, facts)).load()
        fields = {name: array.transpose(2, 1, 0) for name, array in made.items()}
        origins = dict.fromkeys(fields, (case.halo, case.halo, case.halo))
        benchmark(executable, fields, {}, origins, DOMAIN)
    inner = tuple(slice(case.halo, case.halo + n) for n in reversed(DOMAIN))
    expected = arrays(case, DOMAIN)
    case.by_hand(*expected.values())
    np.testing.assert_allclose(made["x"][inner], expected["x"][inner], rtol=1e-12, atol=1e-12)
