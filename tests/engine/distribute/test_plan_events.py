"""What the plan of many steps tells: transport, why steps are made one by one, expected rate."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr

from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.distribute.modes import plan_events
from halocline_engine.distribute.modes.choose import Choice
from halocline_engine.distribute.stencils.request import Checked, Request, check
from halocline_engine.distribute.tasks.events import Planned
from halocline_engine.functions.reports.planning import plan_of
from halocline_engine.functions.run import run
from halocline_engine.program import compile_program

FIVE = """
def five(u: Field[float], v: Field[float]):
    with computation(PARALLEL), interval(...):
        v = 0.25 * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0])
"""
IN_PLACE = """
def double(u: Field[float]):
    with computation(PARALLEL), interval(...):
        u = 2.0 * u
"""
SWEEP = """
def sweep(u: Field[float], v: Field[float]):
    with computation(FORWARD):
        with interval(0, 1):
            v = u
        with interval(1, None):
            v = u + v[0, 0, -1]
"""
AROUND = {"x": "periodic", "y": "none"}
SEA = xr.Dataset({"u": (("y", "x"), np.ones((40, 60)))})
DEEP = SEA.expand_dims(z=3)


def plan(**arguments: Any) -> Planned:
    defaults: dict[str, Any] = {"boundary": AROUND, "feedback": {"v": "u"}, "target": "cpu"}
    return plan_of(run, FIVE, SEA, **{**defaults, **arguments})


def test_transport_and_mode_are_told_with_their_reasons(two_workers: Any) -> None:
    alone = plan(steps=10)
    assert (alone.mode, alone.transport) == ("resident", "none")
    assert alone.unfused == ""
    slow = plan(steps=10, target="reference")
    assert slow.unfused == "the target 'reference' makes one step after the other"
    several = plan(steps=10, cluster=two_workers, chunks={"y": 20}, mode="resident")
    assert (several.workers, several.transport) == (2, "messages")
    streamed = plan(steps=10, mode="streamed")
    assert (streamed.transport, streamed.unfused) == ("none", "blocks do not stay in memory")
    assert plan(steps=1).unfused == ""


def checked(text: str = FIVE, **changes: Any) -> Checked:
    defaults: dict[str, Any] = {
        "fields": {},
        "scalars": {},
        "axes": None,
        "boundary": AROUND,
        "steps": 10,
        "feedback": {"v": "u"},
        "chunks": {},
        "output": None,
        "workspace": None,
        "attempt": 0,
    }
    request = Request(**{**defaults, **changes})
    data = DEEP if text == SWEEP else SEA
    return check(request, open_source(data), compile_program(text, target="cuda"))


#: A plan of blocks that stay in memory, on two devices.
RESIDENT: Any = Choice("", SimpleNamespace(ranks=((), ())))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("text", "feedback", "boundary", "why"),
    [
        (FIVE, {"v": "u"}, AROUND, ""),
        (FIVE, {"v": "u"}, {"x": "periodic", "y": {"constant": 1.0}}, ""),
        (FIVE, {"v": "u"}, {"x": "extrapolate", "y": {"low": "edge", "high": "reflect"}}, ""),
        (
            IN_PLACE,
            {},
            AROUND,
            "'u' is read before it is written, and so keeps older values",
        ),
        (SWEEP, {"v": "u"}, AROUND, "its levels follow one another"),
    ],
)
def test_a_device_fuses_what_it_can(text: str, feedback: Any, boundary: Any, why: str) -> None:
    found = checked(text, feedback=feedback, boundary=boundary)
    assert plan_events.unfused(found, RESIDENT) == why


def test_peers_of_one_machine_use_peer_memory() -> None:
    here = SimpleNamespace(remote=True, same_host=True)
    away = SimpleNamespace(remote=True, same_host=False)
    on_device: Any = checked()
    assert plan_events.transport(on_device, here, RESIDENT) == "peer memory"  # pyright: ignore[reportArgumentType]
    assert plan_events.transport(on_device, away, RESIDENT) == "messages"  # pyright: ignore[reportArgumentType]


def test_the_rate_follows_from_memory() -> None:
    """Two fields of eight bytes; a second machine doubles it, and small fields wait for steps."""
    target = TARGETS["cpu"]
    points, steps = 40 * 60, 10
    with patch.object(plan_events, "usable_processors", return_value=2):
        found = plan(steps=steps).predicted_rate
    seconds = 16 * points / (2 * target.memory_rate) + target.step_cost
    assert found == pytest.approx(points / seconds)
    streamed = plan(steps=steps, mode="streamed")
    assert 0 < streamed.predicted_rate < found
