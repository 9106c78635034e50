"""Diagnostics as a caller gives them, checked as far as that needs no dataset."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from halocline_engine.analysis.named import near
from halocline_engine.arguments import by_name, check_flags, distinct, number, text, whole
from halocline_engine.datasets.names import check_results
from halocline_engine.errors import ArgumentError

__all__ = ["EXAMPLE", "Diagnostic", "Kind", "diagnostics_of"]

EXAMPLE = "{'heat': {'sum': 'rho * t', 'weights': 'area'}}"
_OTHERS = ("weights", "dims", "by", "bins", "skipna")


class Kind(StrEnum):
    """How values become one."""

    SUM = "sum"
    MEAN = "mean"
    NORM = "norm"
    MIN = "min"
    MAX = "max"
    COUNT = "count"
    HISTOGRAM = "histogram"

    @property
    def is_extreme(self) -> bool:
        """Whether the result is one of the values, with its place."""
        return self in (Kind.MIN, Kind.MAX)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A reduction of the expression `value` over `dims`, or over all dimensions where it is None.

    `by` is the variable of labels, `bins` are the edges of a histogram. In a run it is measured
    after `every` so many steps.
    """

    name: str
    kind: Kind
    value: str
    weights: str | None = None
    dims: tuple[str, ...] | None = None
    by: str | None = None
    bins: tuple[float, ...] = ()
    skipna: bool = True
    every: int = 1


def diagnostics_of(argument: str, given: object, *, of_run: bool = False) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of an argument; raises `ArgumentError` or `FieldError`.

    Only those `of_run` have 'every', and all have the same.
    """
    asked = by_name(argument, given, EXAMPLE)
    if not asked:
        raise ArgumentError(
            f"Argument '{argument}' must have at least one diagnostic, got none.",
            hint=f"Write for example {argument}={EXAMPLE}.",
        )
    check_results([*asked], ())
    known = (*Kind, *_OTHERS, *(("every",) if of_run else ()))
    found = [_diagnostic(f"{argument}['{name}']", name, one, known) for name, one in asked.items()]
    for one in found:
        if one.every != found[0].every:
            raise ArgumentError(
                f"Argument '{argument}' must have one 'every', got {found[0].every} for"
                f" '{found[0].name}' and {one.every} for '{one.name}'.",
                hint="Their results lie along one dimension 'step': give all the smaller one.",
            )
    return tuple(found)


def _diagnostic(place: str, name: str, given: object, known: Sequence[str]) -> Diagnostic:
    told = by_name(place, given, "{'mean': 't', 'dims': ['lon']}")
    asked = {key: value for key, value in told.items() if value is not None}
    for key in asked:
        if key not in known:
            raise ArgumentError(f"Argument '{place}' has no key '{key}'.", hint=near(key, known))
    kinds = [kind for kind in Kind if kind in asked]
    if len(kinds) != 1:
        shown = " and ".join(f"'{kind}'" for kind in kinds) or "none"
        expected = ", ".join(f"'{kind}'" for kind in Kind)
        raise ArgumentError(
            f"Argument '{place}' must have one of {expected}, got {shown}.",
            hint="Give several diagnostics a name each.",
        )
    kind = kinds[0]
    made = Diagnostic(
        name=name,
        kind=kind,
        value=text(f"{place}['{kind}']", asked[kind], "an expression of variables"),
        weights=_text(place, asked, "weights", "an expression of variables"),
        dims=_dims(place, asked.get("dims")),
        by=_text(place, asked, "by", "the name of a variable of labels"),
        bins=_bins(f"{place}['bins']", asked.get("bins")),
        skipna=_skipna(place, asked.get("skipna", True)),
        every=whole(f"{place}['every']", asked.get("every", 1), 1),
    )
    _check_fits(place, made)
    return made


def _text(place: str, asked: Mapping[str, Any], key: str, what: str) -> str | None:
    given = asked.get(key)
    return None if given is None else text(f"{place}['{key}']", given, what)


def _dims(place: str, given: object) -> tuple[str, ...] | None:
    found = distinct(f"{place}['dims']", given, "['lat', 'lon']")
    return None if found is None else tuple(found)


def _skipna(place: str, given: object) -> bool:
    check_flags(**{f"{place}['skipna']": given})
    return cast("bool", given)


def _bins(place: str, given: Any) -> tuple[float, ...]:
    if given is None:
        return ()
    kind = type(given).__name__
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__iter__"):
        raise ArgumentError(
            f"Argument '{place}' must be a list of edges, got '{kind}'.",
            hint="Write for example [0.0, 10.0, 20.0].",
        )
    edges = tuple(number(place, edge, "a list of numbers") for edge in given)
    rising = all(low < high for low, high in itertools.pairwise(edges))
    if len(edges) < 2 or not rising or not all(map(math.isfinite, edges)):
        raise ArgumentError(
            f"Argument '{place}' must have at least two finite edges, each above the one before.",
            hint="Write for example [0.0, 10.0, 20.0].",
        )
    return edges


def _check_fits(place: str, made: Diagnostic) -> None:
    """Raise `ArgumentError` where a key is given, or missing, that the kind does not need."""
    if bool(made.bins) != (made.kind is Kind.HISTOGRAM):
        says = "must have 'bins'" if made.kind is Kind.HISTOGRAM else "has 'bins', but no histogram"
        raise ArgumentError(
            f"Argument '{place}' {says}.",
            hint="Write for example {'histogram': 't', 'bins': [0.0, 10.0, 20.0]}.",
        )
    if made.weights is not None and (made.kind.is_extreme or made.kind is Kind.COUNT):
        raise ArgumentError(
            f"Argument '{place}' has 'weights', but a {made.kind} has none.",
            hint="Leave them out, or multiply the expression by them.",
        )
