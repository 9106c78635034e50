"""Programs with loops, levels that only a run knows, and components, on a real device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from differential import Inputs, assert_same, copied, front, inputs
from drawing import SCALARS, program
from general_runs import complete, for_scalars

from halocline_engine.backends.cuda.build import CudaBackend
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.backends.reference.build import ReferenceBackend
from halocline_engine.schedule.plan import plan

pytestmark = pytest.mark.gpu

#: Programs that are drawn from these numbers keep the rules of the language.
NUMBERS = (1, 2, 4, 7, 8, 9, 12, 13, 14, 21, 39, 41, 44, 54, 56, 58, 63, 67, 71, 78, 84, 94, 97)


@pytest.mark.parametrize("layout", ["along I", "along K"])
@pytest.mark.parametrize("number", NUMBERS)
def test_drawn_programs_give_the_same_bits(cupy: Any, number: int, layout: str) -> None:
    domain = (37, 13, 9)
    meaning, facts = front(program(number, general=True))
    found = inputs(meaning, facts, domain, layout=layout, seed=number)
    given = Inputs(
        {name: array for name, array in found.arrays.items() if name not in meaning.made},
        found.origins,
    )
    schedule = plan(meaning, facts)
    expected = copied(given)
    reference = with_made_fields(ReferenceBackend().build(schedule), meaning, facts).load()
    reference(expected.arrays, SCALARS, expected.origins, domain)
    for one in (schedule, plan(*for_scalars(meaning, facts))):
        moved: dict[str, Any] = {}
        for name, array in given.arrays.items():
            # An array on the device keeps strides of 0 if it is a view of one point.
            points = tuple(slice(None) if step else slice(0, 1) for step in array.strides)
            own: Any = cupy.array(array[points], order="K")
            moved[name] = cupy.broadcast_to(own, array.shape) if own.shape != array.shape else own
        kernels = complete(CudaBackend().build(one), meaning, facts, one.program.choices).load()
        kernels(moved, SCALARS, given.origins, domain)
        got = {name: np.array(cupy.asnumpy(array)) for name, array in moved.items()}
        assert_same(got, expected.arrays)
