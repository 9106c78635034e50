"""Bounds of JSON: depth and digits are judged as a parser would, in time by the length only."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halocline_service.datasets.json_text import DEEPEST, MOST_DIGITS, check_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('[]{}"\\ab\n', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('["{', max_size=3), inner),
    max_leaves=30,
)


@given(_VALUES, st.integers(0, 90), st.booleans())
def test_the_depth_is_that_of_the_value(value: Any, more: int, is_list: bool) -> None:
    for _ in range(more):
        value = [value] if is_list else {"a": value}
    is_deep = _depth(value) > DEEPEST
    try:
        check_json(json.dumps(value).encode())
    except ValueError as error:
        told = str(error)
    else:
        told = ""
    wanted = "its lists and objects are nested more than 64 levels deep"
    assert told == (wanted if is_deep else "")


def _depth(value: Any) -> int:
    match value:
        case dict():
            inner = list(cast("dict[str, Any]", value).values())
        case list():
            inner = cast("list[Any]", value)
        case _:
            return 0
    return 1 + max(map(_depth, inner), default=0)


@pytest.mark.parametrize("form", ["{}", "-{}", "1.{}", "[1, {}]", '{{"a": {}}}'])
def test_a_number_has_bounded_digits(form: str) -> None:
    check_json(form.format("9" * (MOST_DIGITS - 1)).encode())
    with pytest.raises(ValueError, match="it has a number of more than 300 digits"):
        check_json(form.format("9" * 5000).encode())
    check_json(json.dumps("9" * 5000).encode())


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ['"', '"\\"', "[", "[]", '"a', "]", '[{"', "\\", "9"])
def test_any_text_takes_time_by_its_length(text: str) -> None:
    data = text.encode() * (2**20 // len(text))
    with suppress(ValueError):
        check_json(data)
