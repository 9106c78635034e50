"""Conditions for ending a run of many steps early."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from halocline_engine.arguments import number, whole
from halocline_engine.errors import ArgumentError

__all__ = ["Until", "until_of"]

_EXAMPLE = "{'field': 'v', 'change': 'max', 'below': 1e-6, 'check_every': 100}"
_CHANGES = ("max", "norm")
_NON_FINITE = ("error", "ignore")
_KNOWN = ("field", "change", "below", "check_every", "non_finite")


@dataclass(frozen=True, slots=True)
class Until:
    """Condition that a step changes an output by at most `below`.

    Every `check_every` steps, the change of the last step is measured: its largest absolute value,
    or the square root of the sum of its squares. NaN is ignored. A value that becomes infinite or
    NaN is an error unless `non_finite` is 'ignore'.
    """

    field: str
    change: Literal["max", "norm"]
    below: float
    check_every: int
    non_finite: Literal["error", "ignore"] = "error"


def until_of(given: object) -> Until | None:
    """Return the argument `until`, checked; raises `ArgumentError` if it is invalid."""
    if given is None:
        return None
    if not isinstance(given, Mapping) or not {"field", "below"} <= set(cast(Any, given)):
        raise ArgumentError(
            f"Argument 'until' must be a mapping with 'field' and 'below', got {given!r}.",
            hint=f"Write for example until={_EXAMPLE}.",
        )
    members = cast("Mapping[str, Any]", given)
    for name in members:
        if name not in _KNOWN:
            from halocline_engine.interface.refusals import renamed_to

            raise ArgumentError(
                f"Argument 'until' has no '{name}'{renamed_to('until', name)}.",
                hint=f"Write for example until={_EXAMPLE}.",
            )
    change = _word(members, "change", _CHANGES)
    non_finite = _word(members, "non_finite", _NON_FINITE)
    below = number("until['below']", members["below"], "a number")
    if not below >= 0 or math.isinf(below):
        raise ArgumentError(
            f"The 'below' of argument 'until' must be a finite number from 0, got {below!r}.",
            hint=f"Write for example until={_EXAMPLE}.",
        )
    check_every = whole("until['check_every']", members.get("check_every", 100), 1)
    return Until(str(members["field"]), change, below, check_every, non_finite)


def _word(members: Mapping[str, Any], name: str, words: tuple[str, str]) -> Any:
    """Return one of two words, by default the first."""
    word = members.get(name, words[0])
    if not isinstance(word, str) or word not in words:
        raise ArgumentError(
            f"The '{name}' of argument 'until' must be '{words[0]}' or '{words[1]}', got {word!r}.",
            hint=f"Write for example until={_EXAMPLE}.",
        )
    return word
