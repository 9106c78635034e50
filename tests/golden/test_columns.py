"""Convergence orders of staggered operators, from ClimaCore's own tests; see `column_golden`.

What compiles once runs here on every target, as does the start of what compiles for each size.
The rest `tests/benchmarks/columns_orders.py` did, and wrote what came out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from column_cases import Loader
from column_golden import GROUPS, Found, faults, measure

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
#: What was run on a target, by its name.
WRITTEN: dict[str, Any] = {
    record["target"]: record["groups"]
    for path in sorted(RESULTS.glob("*-column-orders.json"))
    for record in (json.loads(path.read_text()),)
}


@pytest.fixture(params=("reference", "cpu", "cuda-emulated"))
def target(request: pytest.FixtureRequest) -> str | Loader:
    if request.param != "cuda-emulated":
        return str(request.param)
    load: Loader = request.getfixturevalue("emulated_columns")
    return load


def check(name: str, found: dict[str, Found]) -> None:
    """Assert that figures are what they must be, and what was written on any target."""
    assert not faults(GROUPS[name], found)
    for record in WRITTEN.values():
        for row, (first, orders) in found.items():
            written_first, written_orders = record[name][row]
            assert first == pytest.approx(written_first, rel=1e-9)
            assert orders == pytest.approx(written_orders[: len(orders)], abs=1e-7)


@pytest.mark.parametrize("name", ["uniform", "stretched", "half", "open"])
def test_errors_fall_as_fast_as_they_should(name: str, target: str | Loader) -> None:
    check(name, measure(GROUPS[name], target))


def test_transport_around_a_periodic_column(target: str | Loader) -> None:
    # Periodic programs know their size: what must compile each takes one, for the first errors.
    if target == "reference":
        check("round", measure(GROUPS["round"], target))
        check("limited", measure(GROUPS["limited"], target))
        return
    found = measure(GROUPS["round"], target, names=("steady",), sizes=(32,))
    assert found["steady"][0] <= 5e-4
    check("round", found)
    if target != "cpu":
        check("limited", measure(GROUPS["limited"], target, names=("mono5",), sizes=(32,)))


def test_third_order_transport_with_one_sided_ends(target: str | Loader) -> None:
    names = ("first", "third") if target == "reference" else ("first",)
    check("closed", measure(GROUPS["closed"], target, names=names))
    # The same program as above, but on cells that grow with height.
    check("thin", measure(GROUPS["thin"], target))


@pytest.mark.parametrize("target", tuple(WRITTEN))
def test_what_was_written_is_within_its_bounds(target: str) -> None:
    assert tuple(WRITTEN[target]) == tuple(GROUPS)
    for name, group in GROUPS.items():
        found: dict[str, Found] = WRITTEN[target][name]
        assert tuple(found) == tuple(group.rows)
        assert {len(orders) for _, orders in found.values()} == {len(group.sizes) - 1}
        assert not faults(group, found)
