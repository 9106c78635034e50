"""Old names of arguments: translated where requests are read, and workspaces still found."""

from __future__ import annotations

from typing import Any

import dask.base
import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.tasks.events import Resumed
from halocline_engine.functions import sequence as module
from halocline_engine.interface.renames import RENAMED, complement, with_new_names, with_old_names
from halocline_engine.interface.uncompiled import Uncompiled

OLD_SEQUENCE: dict[str, Any] = {
    "every": 2,
    "stages": [
        {"stencil": {"program": "text", "name": "smooth", "until": {"every": 3}}},
        {"regrid": {"missing": "propagate", "least": 0.3}},
        {"gather": {"name": "kept"}},
    ],
}
NEW_SEQUENCE: dict[str, Any] = {
    "snapshot_every": 2,
    "stages": [
        {"stencil": {"program": "text", "stencil_name": "smooth", "until": {"check_every": 3}}},
        {"regrid": {"skipna": False, "na_thres": 0.7}},
        {"gather": {"name": "kept"}},
    ],
}


def test_every_process_is_translated_there_and_back() -> None:
    assert with_new_names("sequence", OLD_SEQUENCE) == NEW_SEQUENCE
    assert with_old_names("sequence", NEW_SEQUENCE) == OLD_SEQUENCE
    assert with_new_names("sequence", NEW_SEQUENCE) == NEW_SEQUENCE
    planned = {"process": "sequence", "inputs": OLD_SEQUENCE}
    assert with_new_names("plan", planned)["inputs"] == NEW_SEQUENCE
    assert with_new_names("matmul", {"name": "product"}) == {"name": "product"}


def test_what_is_wrong_stays_for_who_checks_it() -> None:
    both = {"every": 2, "snapshot_every": 3}
    assert with_new_names("stencil", both) == both
    assert with_new_names("regrid", {"missing": "drop", "least": "half"}) == {
        "skipna": "drop",
        "na_thres": "half",
    }
    odd: dict[str, Any] = {"stages": ["a", {"stencil": 3}], "until": 3}
    assert with_new_names("sequence", odd) == odd


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.3, 0.5, 0.6, 0.75, 1.0])
def test_shares_come_back_as_they_were(share: float) -> None:
    assert complement(complement(share)) == share
    assert complement(np.float64(share)) == complement(share)


def test_what_is_no_share_stays() -> None:
    assert [complement(wrong) for wrong in (True, None, "1", 10**400)] == [
        True,
        None,
        "1",
        10**400,
    ]


def test_old_names_are_no_arguments_and_new_ones_are() -> None:
    functions: dict[str, Any] = {"stencil": he.run, "sequence": he.sequence, "regrid": he.regrid}
    for name, function in functions.items():
        taken = set(function.__signature__.parameters)
        assert taken.isdisjoint(RENAMED[name])
        assert taken >= set(RENAMED[name].values())
    options = set(he.Options.__dataclass_fields__)
    assert options.isdisjoint(RENAMED["Options"])
    assert options >= set(RENAMED["Options"].values())


DECAY = """
def decay(t: Field[float]):
    with computation(PARALLEL), interval(...):
        t = 0.5 * t
"""


def named_before(stages: list[Any]) -> Any:
    functions: Any = module
    return functions._named_before(functions._stages(stages))


def test_workspaces_of_sequences_are_named_as_before() -> None:
    new = [{"stencil": {"program": DECAY, "stencil_name": "decay"}}]
    assert named_before(new) == [{"stencil": {"program": DECAY, "name": "decay"}}]
    service = [{"stencil": {"program": Uncompiled(DECAY, arithmetic="fused")}}]
    assert named_before(service) == [{"stencil": {"program": DECAY, "arithmetic": "fused"}}]


def test_a_sequence_resumes_from_a_workspace_of_old_names(tmp_path: Any, monkeypatch: Any) -> None:
    """The token is that of stages by their old names, whoever made the workspace."""
    tokens: list[Any] = []
    tokenize: Any = dask.base.tokenize

    def noted(*parts: Any) -> Any:
        tokens.append(parts[0])
        return tokenize(*parts)

    monkeypatch.setattr(dask.base, "tokenize", noted)
    data = xr.Dataset({"t": ("x", [8.0])})
    stage = {"program": DECAY, "stencil_name": "decay", "axes": {"I": "x", "J": None, "K": None}}
    events: list[Any] = []
    how: dict[str, Any] = {"target": "reference", "workspace": tmp_path, "on_event": events.append}
    how["options"] = he.Options(checkpoint_steps=1)
    stops = iter([False] * 8)
    with pytest.raises(he.CancelledError):
        he.sequence(
            [{"stencil": stage}], data, steps=30, cancelled=lambda: next(stops, True), **how
        )
    result = he.sequence([{"stencil": stage}], data, steps=30, **how)
    assert [event for event in events if isinstance(event, Resumed)]
    assert float(result["t"][0]) == 8.0 * 0.5**30
    before = {name: value for name, value in stage.items() if name != "stencil_name"}
    assert tokens[0] == [{"stencil": {**before, "name": "decay"}}]
