"""Solves of arrays of CuPy: they stay on the device, or go by way of the host and say so."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import xarray as xr
from emulation.machine import ABSENT, compiler
from of_device import MachineOfDevice, OfDevice

import halocline_engine as he
from halocline_engine.datasets.untyped import variable_data
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.jobs import execute
from halocline_engine.distribute.solves import (
    banded,
    factor_request,
    factored,
    partitioned,
    request,
    select,
)
from halocline_engine.functions.reports.planning import plan_of
from halocline_engine.kernels.machine import Library
from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal

NAMES: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d", "dim": "z"}
FIVE: dict[str, Any] = {**NAMES, "second_lower": "e", "second_upper": "f"}
COPIED = "arrays of the device are copied by way of the host"
SIZE = 8


def systems(*dims: str, one: bool = False, **sizes: int) -> xr.Dataset:
    """Return dominant systems, with one matrix for all of them if so."""
    rng = np.random.default_rng(5)
    shape = tuple(sizes[dim] for dim in dims)
    data: dict[str, Any] = {}
    for name in "abcdef":
        along = ("z",) if one and name != "d" else dims
        data[name] = (along, rng.uniform(-1, 1, [sizes[dim] for dim in along]))
    data["b"] = (data["b"][0], data["b"][1] + 5.0)
    assert data["d"][1].shape == shape
    return xr.Dataset(data)


def there(dataset: xr.Dataset, *but: str) -> xr.Dataset:
    """Return the dataset with its variables, except some, on the device."""
    moved = {
        name: (values.dims, OfDevice(values.values))
        for name, values in dataset.items()
        if name not in but
    }
    return dataset.assign(moved)


def gets(dataset: xr.Dataset) -> int:
    return sum(len(variable_data(dataset, name).data.gets) for name in "abcdef")


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the target 'cuda' be the emulated machine, with arrays like CuPy's."""
    if compiler() is None:
        pytest.skip(ABSENT)
    machine: Any = MachineOfDevice(tmp_path)
    library = Library(machine)

    def solver(_: str, *, contiguous: bool) -> Any:
        return CudaTridiagonal(machine, library, 227 * 1024, contiguous=contiguous)

    for module in (select, banded, factored):
        monkeypatch.setattr(module, "tridiagonal_solver", solver)
    for module in (request, partitioned):
        monkeypatch.setattr(module, "PIECE", SIZE)
    for module in (banded, factored):
        monkeypatch.setattr(module, "own_stream", contextlib.nullcontext)
    for module in (banded, factored, execute):
        monkeypatch.setattr(module, "wait_for_all", Mock())
    for module in (factor_request, execute):
        monkeypatch.setattr(module, "brought", OfDevice)
    monkeypatch.setattr("halocline_engine.functions.execution.resolve", str)
    monkeypatch.setattr(LocalPool, "device_memory", Mock(return_value=10**9))


def compare(solve: Callable[..., xr.Dataset], dataset: xr.Dataset, **how: Any) -> xr.Dataset:
    """Solve on the device, and by way of the host, with the same bits; return the former."""
    given = there(dataset)
    found = solve(given, target="cuda", **how)
    expected = solve(dataset, target="cuda", **how)
    assert gets(given) == 0
    assert found.data_vars.keys() == expected.data_vars.keys()
    for name in expected.data_vars:
        values = variable_data(found, str(name)).data
        assert isinstance(values, OfDevice), name
        np.testing.assert_array_equal(values.held, expected[name].values)
        assert str(found[name].attrs) == str(expected[name].attrs)
    return found


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dims", [("z", "x"), ("y", "z"), ("y", "z", "x")])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"residual": True},
        {"periodic": True},
        {"pivoting": True, "residual": True},
    ],
)
@pytest.mark.parametrize("rows", [7, 61])
def test_tridiagonal_systems_stay_on_the_device(
    dims: tuple[str, ...], how: dict[str, Any], rows: int
) -> None:
    """Short systems and long ones, in any order of dimensions."""
    dataset = systems(*dims, z=rows, x=3, y=2)
    dataset["d"][0, 0] = np.nan
    compare(he.tridiagonal, dataset, **NAMES, **how)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("how", [{}, {"pivoting": True}, {"residual": True}])
def test_pentadiagonal_systems_do_too(how: dict[str, Any], *, one: bool) -> None:
    compare(he.pentadiagonal, systems("z", "x", one=one, z=9, x=4), **FIVE, **how)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("rows", [7, 61])
def test_one_matrix_for_all_systems(rows: int) -> None:
    """It is eliminated once where rows are few; bands of the host are brought there."""
    dataset = systems("y", "z", "x", one=True, z=rows, x=3, y=2)
    found = compare(he.tridiagonal, dataset, **NAMES, residual=True)
    mixed = he.tridiagonal(there(dataset, "a", "c"), target="cuda", **NAMES)
    values = variable_data(mixed, "solution").data
    np.testing.assert_array_equal(values.held, variable_data(found, "solution").data.held)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("periodic", [False, True])
def test_factors_and_what_is_solved_with_them(*, periodic: bool, one: bool) -> None:
    """Factors may be of the host, while right-hand sides are on the device."""
    dataset = systems("z", "x", one=one, z=7, x=4).drop_vars(["e", "f"])
    dataset["more"] = dataset["d"] * 2.0
    given, bands = there(dataset), {key: NAMES[key] for key in NAMES if key != "rhs"}
    made = he.factor(given, **bands, periodic=periodic, target="cuda")
    expected = he.factor(dataset, **bands, periodic=periodic, target="cuda")
    for name in expected.data_vars:
        np.testing.assert_array_equal(variable_data(made, str(name)).data.held, expected[name])
    sides = ["d", "more"]
    judge = he.solve(dataset, expected, rhs=sides, target="cuda")
    for factors in (made, expected):
        found = he.solve(given, factors, rhs=sides, target="cuda")
        for name in judge.data_vars:
            np.testing.assert_array_equal(variable_data(found, str(name)).data.held, judge[name])
    assert not any(variable_data(given, str(name)).data.gets for name in dataset)
    by_host = he.solve(given, made, rhs="d", target="cuda", mode="streamed")
    np.testing.assert_array_equal(by_host["solution"].values, judge["d_solution"].values)
    assert plan_of(he.factor, given, **bands, target="cpu").reason.endswith(COPIED)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    "how",
    [
        {"mode": "streamed"},
        {"chunks": {"x": 2}},
        {"target": "cpu"},
        {"periodic": True, "pivoting": True},
    ],
)
def test_others_go_by_way_of_the_host_and_the_plan_says_so(how: dict[str, Any]) -> None:
    dataset = systems("z", "x", z=7, x=4)
    arguments: dict[str, Any] = {"target": "cuda", **NAMES, **how}
    given = there(dataset)
    assert plan_of(he.tridiagonal, given, **arguments).reason.endswith(COPIED)
    found = he.tridiagonal(given, **arguments)
    assert found.equals(he.tridiagonal(dataset, **arguments))
    assert isinstance(found["solution"].values, np.ndarray)
    assert COPIED not in plan_of(he.tridiagonal, dataset, **arguments).reason


@pytest.mark.usefixtures("device")
def test_what_does_not_fit_the_device_goes_by_way_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = there(systems("z", "x", z=7, x=40))
    assert COPIED not in plan_of(he.tridiagonal, given, **NAMES, target="cuda").reason
    monkeypatch.setattr(LocalPool, "device_memory", Mock(return_value=5000))
    assert plan_of(he.tridiagonal, given, **NAMES, target="cuda").reason.endswith(COPIED)


@pytest.mark.usefixtures("device")
def test_a_stage_of_a_sequence_is_as_before() -> None:
    dataset = systems("z", "x", z=7, x=4)
    stages = [{"tridiagonal": {**NAMES, "name": "d"}}]
    found = he.sequence(stages, there(dataset), steps=2, target="cuda")
    expected = he.sequence(stages, dataset, steps=2, target="cuda")
    np.testing.assert_array_equal(found["d"].values, expected["d"].values)
