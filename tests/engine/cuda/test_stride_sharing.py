"""Arrays of equal strides share them: fewer parameters of a kernel, and fewer registers."""

from __future__ import annotations

from cubin import resources
from kept import device_code
from programs import DIFFUSION, scheduled

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.entries import (
    StrideValue,
    Variant,
    arrays_of,
    entries_of,
    parameters,
)
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.schedule.nodes import Schedule


def stride_parameters(schedule: Schedule, variant: Variant) -> int:
    (entry,) = entries_of(schedule)
    return sum(isinstance(a, StrideValue) for a in parameters(entry, schedule, variant))


def registers(schedule: Schedule, variant: Variant) -> int:
    """Return the registers of a thread with the tile that the target chooses."""
    tiles = tiles_of(schedule, variant, (1024, 1024, 80))
    (used,) = resources(device_code(emit(schedule, variant, tiles), "sm_90")).values()
    return used.registers


def test_shared_strides_save_parameters_and_registers() -> None:
    """Horizontal diffusion: three fields, each with a stride along J and one along K.

    How many registers that saves depends on the tile; some tiles have enough of them either way.
    """
    schedule = scheduled(DIFFUSION)
    usual = usual_variant(schedule)
    count = len(arrays_of(schedule))
    shared = Variant(
        (0,) * count, usual.kinds[:1], wide=False, disjoint=True, aligned=usual.aligned
    )
    own = Variant(
        tuple(range(count)),
        usual.kinds[:1] * count,
        wide=False,
        disjoint=True,
        aligned=usual.aligned,
    )
    assert stride_parameters(schedule, shared) == 2
    assert stride_parameters(schedule, own) == 2 * count == 6
    assert registers(schedule, shared) < registers(schedule, own)
