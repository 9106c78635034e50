"""Several errors of one text at once, without those that only follow from others."""

from __future__ import annotations

import pytest

import halocline_engine as he

HEAD = "def f(a: Field[np.float64], b: Field[np.float64]):\n"
EMPTY = "An interval must hold a level, but this one is empty"
FORM = "    with computation(PARALLEL), interval(...):\n"


def errors_of(*lines: str) -> list[tuple[int, str]]:
    """Return the lines and messages of all errors in a stencil."""
    text = HEAD + "".join(f"{line}\n" for line in lines)
    with pytest.raises(he.ProgramError) as caught:
        he.stencil(text)
    error = caught.value
    assert all(each.excerpt and not each.others for each in error.others)
    printed = str(error).split("\n\n")
    assert printed[1:] == [str(other) for other in error.others]
    return [(each.line, each.message) for each in (error, *error.others)]


def test_statements_and_computations_are_all_looked_at() -> None:
    found = errors_of(
        FORM + "        b = a + zz",
        "        b = a[1, 0]",
        "        if a > 0.0:\n            b = sqr(a)",
        "    with computation(PARALLEL), interval(2, 1):\n        b = a",
    )
    assert found == [
        (3, "The name 'zz' is unknown."),
        (4, "'a' has the axes I, J, K and needs 3 offsets, but got 2."),
        (6, "The function 'sqr' is unknown."),
        (
            7,
            "An interval must hold a level, but this one is empty: from 2 up to, not including, 1.",
        ),
    ]


def test_what_follows_from_an_error_is_not_told() -> None:
    found = errors_of(
        FORM + "        t = a + zz",
        "        u = t + 1.0",
        "        b = u[0, 0, 0] + t",
        "        b = a.q",
    )
    assert [line for line, _ in found] == [3, 6]


def test_statements_that_are_not_of_the_language() -> None:
    found = errors_of(
        FORM + "        for i in range(3):\n            b = a",
        "        pass",
        "    with interval(...):\n        b = a",
    )
    assert [line for line, _ in found] == [3, 5, 6]


def test_ten_are_told() -> None:
    assert len(errors_of(FORM + "\n".join(f"        b = z{n}" for n in range(40)))) == 10


def test_a_limit_ends_it_all() -> None:
    found = errors_of(FORM + "        b = zz", "        b = a[100, 0, 0]", "        b = yy")
    assert found == [(4, "An offset is at most 64 cells, but got 100.")]
