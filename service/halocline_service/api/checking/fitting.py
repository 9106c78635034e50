"""Whether checked inputs fit the datasets that they name, as their metadata show.

The engine's own function checks them and is left before it reads a value, so that what is refused
here is what would end a job, in the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from halocline_engine.errors import HaloclineError
from halocline_service.api.checking.inputs import JsonObject, refusal_of
from halocline_service.processes.base import DatasetInputs
from halocline_service.processes.plan import PlanInputs
from halocline_service.processes.table import PROCESSES

__all__ = ["Datasets", "fitted", "warm"]

#: By input: {"place": path} or {"outline": JSON}, see the engine's `outline_of`.
Datasets: TypeAlias = Mapping[str, Mapping[str, Any]]


def fitted(process_id: str, inputs: Mapping[str, Any], datasets: Datasets) -> JsonObject:
    """Return the outcome of a check of inputs with their datasets: `problem`, where there is one.

    The inputs are those that `checked` returned. Files are read as an attempt reads them.
    """
    from halocline_engine.functions.reports.checking import check_call

    model = PROCESSES[process_id].inputs.model_validate(inputs)
    if isinstance(model, PlanInputs):
        process_id, model = (
            model.process,
            PROCESSES[model.process].inputs.model_validate(model.inputs),
        )
    assert isinstance(model, DatasetInputs)
    try:
        opened = {name: _opened(one) for name, one in datasets.items()}
        check_call(_function(process_id), **model.keywords(opened))
    except HaloclineError as error:
        return refusal_of(error)
    return {}


def warm() -> None:
    """Load what `fitted` needs."""
    text = "def f(a: Field[float]):\n    with computation(PARALLEL), interval(...):\n        a = a"
    outline: JsonObject = {
        "variables": {"a": {"dims": ["x"], "shape": [1], "dtype": "float64", "attrs": {}}},
        "coordinates": [],
        "attrs": {},
    }
    datasets = {"dataset": {"outline": outline}}
    fitted("stencil", {"program": text, "dataset": "-"}, datasets)


def _function(process_id: str) -> Any:
    """Return the engine's function of a process, which is loaded when it is first asked for."""
    import halocline_engine

    return getattr(halocline_engine, "run" if process_id == "stencil" else process_id)


def _opened(dataset: Mapping[str, Any]) -> Any:
    """Return a dataset without values. Raises `HaloclineError`."""
    from halocline_engine.datasets.storing.outline import outlined, without_values

    if "outline" in dataset:
        return outlined(dataset["outline"])
    from halocline_engine.datasets.inputs.opening import open_source
    from halocline_service.datasets.tree import check_tree, scan_file

    place = Path(dataset["place"])
    if place.is_dir():
        check_tree(place, largest_chunk=dataset["largest_chunk"])
    else:
        scan_file(place)
    return without_values(open_source(place).dataset)
