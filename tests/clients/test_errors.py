"""What errors say, and what is made of answers that are no good problems."""

from __future__ import annotations

import pytest

from halocline.errors import (
    BusyError,
    HaloclineError,
    InternalError,
    JobFailed,
    NameRuleError,
    NotFoundError,
    RequestError,
    ServiceError,
    WaitTimeout,
    from_problem,
)


@pytest.mark.parametrize(
    ("problem", "status", "kind", "text"),
    [
        ({"code": "no-such-job", "detail": "There is no job '7'."}, 404, NotFoundError, None),
        (
            {"code": "of a later version", "detail": "There is no job '7'."},
            404,
            NotFoundError,
            None,
        ),
        ({"title": "Bad input"}, 422, RequestError, "Bad input"),
        ({}, 418, ServiceError, "The service answered with status 418."),
        ({"detail": 7, "hint": None, "line": "x"}, 500, InternalError, None),
        ({"status": 503, "detail": "Later."}, 0, BusyError, "Later."),
    ],
)
def test_a_problem_becomes_an_error(
    problem: dict[str, object], status: int, kind: type[HaloclineError], text: str | None
) -> None:
    error = from_problem(problem, status)
    assert type(error) is kind
    assert str(error) == (text or problem.get("detail")) or text is None


def test_a_program_error_shows_the_place_the_line_and_the_way_out() -> None:
    problem = {
        "code": "program-name",
        "detail": "The name 'c' is unknown.",
        "hint": "Did you mean 'a'?",
        "line": 3,
        "column": 13,
        "excerpt": "        b = c\n            ^",
    }
    error = from_problem(problem, 400)
    assert isinstance(error, NameRuleError)
    assert str(error) == (
        "line 3, column 13: The name 'c' is unknown.\n"
        "        b = c\n            ^\n"
        "Did you mean 'a'?"
    )
    error.file, error.file_line = "model.py", 40
    assert str(error).startswith("model.py, line 40, column 13: The name 'c' is unknown.\n")


def test_a_failed_job_says_which_and_why() -> None:
    error = JobFailed("17", from_problem({"code": "axis", "detail": "No K.", "hint": "Give it."}))
    assert str(error) == "Job '17' failed.\nNo K. Give it."


def test_a_wait_that_is_over_is_a_timeout() -> None:
    assert isinstance(WaitTimeout("Over."), TimeoutError)
