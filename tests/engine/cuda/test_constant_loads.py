"""NVIDIA's compiler takes no array for constant that a kernel writes and reads again.

It merges loads of both choices of a condition. Where one of the arrays is constant, it takes the
merged load for one of constant memory, and may move it before the stores to the other array. A
kernel that only keeps what it does not assign loads that once, before all stores.
"""

from __future__ import annotations

import pytest
from differential import front
from drawing import GIVEN, whole_programs
from hypothesis import HealthCheck, assume, given, settings
from programs import CHOSEN, COMPONENT, NEVER_WRITTEN, scheduled
from ptx import mistaken_loads, ptx_of

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.entries import Entry, entries_of
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.errors import ProgramError
from halocline_engine.ir.walk import reads
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

DOMAIN: Domain = (32, 4, 9)
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much]


@pytest.mark.parametrize("text", [CHOSEN, COMPONENT, NEVER_WRITTEN])
def test_no_load_of_what_is_written_is_taken_for_constant(text: str) -> None:
    assert mistaken(scheduled(text)) == []


def test_declared_apart_it_would_be() -> None:
    code = source(scheduled(NEVER_WRITTEN))
    apart = code.replace("double* f", "double* __restrict__ f")
    assert apart != code
    assert len(list(mistaken_loads(ptx_of(apart)))) == 1


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=QUIET)
@given(whole_programs())
def test_nor_is_it_in_drawn_programs(text: str) -> None:
    try:
        schedule = plan(*front(text, **GIVEN))
    except ProgramError:
        assume(False)
        return
    assert mistaken(schedule) == []


def mistaken(schedule: Schedule) -> list[str]:
    found = mistaken_loads(ptx_of(source(schedule)))
    back = {entry.name for entry in entries_of(schedule) if reads_back(entry)}
    return [line for kernel, line in found if kernel in back]


def reads_back(entry: Entry) -> bool:
    bodies = [section.body for section in entry.kernel.sections]
    return any(one.name in entry.written for body in bodies for one in reads(body))


def source(schedule: Schedule) -> str:
    variant = usual_variant(schedule)
    return emit(schedule, variant, tiles_of(schedule, variant, DOMAIN))
