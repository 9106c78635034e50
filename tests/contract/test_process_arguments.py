"""Engine, service and client take the same arguments of a process, with the same defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import halocline_engine as he
from halocline import Client
from halocline.accessor import HaloclineAccessor
from halocline_engine.interface.uncompiled import READING
from halocline_service.processes.table import PROCESSES

#: Where the engine works, whom it tells, and what it keeps: not for who asks a service.
OF_THE_ENGINE = {"cluster", "output", "options", "on_event", "cancelled"}
OF_SOME = {"workspace", "plans"}
OF_THE_CLIENT = {"job_name", "dry_run", "labels"}
#: The client leaves these to the service.
LEFT_OUT = {("stencil", "literal_precision"), ("stencil", "arithmetic"), ("stencil", "order")}
COMPUTED = sorted(name for name, one in PROCESSES.items() if one.inline is None and name != "plan")
REQUIRED = inspect.Parameter.empty


def defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    return {name: one.default for name, one in parameters.items() if name != "self"}


@pytest.mark.parametrize("name", COMPUTED)
def test_all_take_the_same(name: str) -> None:
    fields = PROCESSES[name].inputs.model_fields
    asked = {each: REQUIRED if f.is_required() else f.default for each, f in fields.items()}
    engine = defaults(getattr(he, "run" if name == "stencil" else name))
    if name == "stencil":  # the library has these in `stencil` and in `Options`
        reading = defaults(he.stencil)
        engine |= {each: reading[each] for each in READING} | {"order": he.Options().order}
    client = defaults(getattr(Client, name))
    assert OF_THE_ENGINE <= engine.keys() - asked.keys() <= OF_THE_ENGINE | OF_SOME
    assert client.keys() - asked.keys() == OF_THE_CLIENT
    for each, default in asked.items():
        assert engine[each] == default, each
        assert client[each] == (None if (name, each) in LEFT_OUT else default), each


@pytest.mark.parametrize("name", COMPUTED)
def test_datasets_take_what_clients_take(name: str) -> None:
    client, accessor = (defaults(getattr(kind, name)) for kind in (Client, HaloclineAccessor))
    del client["dataset"]
    assert accessor.pop("client") is None
    assert accessor == client
