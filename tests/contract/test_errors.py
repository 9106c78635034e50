"""Engine, service and client know the same errors, each class in one table and back."""

from __future__ import annotations

import inspect
import pickle

import pytest

import halocline
import halocline.errors as client
import halocline_engine
import halocline_engine.errors as engine
from halocline_service.api.problems import (
    STATUS_BY_CODE,
    TITLES,
    problem_body,
    stored_problem,
)
from halocline_service.jobs.errors import error_fields

ENGINE = [
    kind
    for _, kind in inspect.getmembers(engine, inspect.isclass)
    if issubclass(kind, engine.HaloclineError)
]
CLIENT = [
    kind
    for _, kind in inspect.getmembers(client, inspect.isclass)
    if issubclass(kind, client.HaloclineError)
]


def test_engine_codes_are_unique() -> None:
    assert len({kind.code for kind in ENGINE}) == len(ENGINE) >= 18


def test_client_codes_are_unique() -> None:
    assert len({kind.code for kind in CLIENT}) == len(CLIENT) >= 28


def test_the_service_has_a_status_and_a_title_for_every_code() -> None:
    assert {kind.code for kind in ENGINE} <= set(STATUS_BY_CODE)
    assert set(STATUS_BY_CODE) == set(TITLES)


def test_the_client_has_a_class_for_every_code_of_the_service() -> None:
    assert set(client.CODES) == set(STATUS_BY_CODE)


@pytest.mark.parametrize("kind", ENGINE, ids=lambda kind: kind.code)
def test_an_engine_error_reaches_the_client_as_itself(kind: type[engine.HaloclineError]) -> None:
    sent = kind("Expected a, got b.", hint="Do this.")
    if isinstance(sent, engine.ProgramError):
        sent.line, sent.column, sent.excerpt, sent.rule = 3, 7, "b = c\n    ^", "names"
    if isinstance(sent, engine.CapacityError):
        sent.needed, sent.available = 20, 10
    body = problem_body("http://service", stored_problem(error_fields(sent)))
    got = client.from_problem(body, int(body["status"]))
    assert type(got).__name__ == kind.__name__
    assert type(got).code == kind.code
    assert (got.message, got.hint) == ("Expected a, got b.", "Do this.")
    assert str(got) == str(sent)
    status = STATUS_BY_CODE[kind.code]
    final = 500 if status == 503 else status  # a job that failed is not tried again by a client
    assert (got.status, got.problem) == (final, body)
    for name in ("line", "column", "excerpt", "rule", "needed", "available"):
        assert getattr(got, name, None) == getattr(sent, name, None)


@pytest.mark.parametrize("kind", ENGINE, ids=lambda kind: kind.code)
def test_there_is_one_tree(kind: type[engine.HaloclineError]) -> None:
    """`except` of either module catches the errors of both."""
    assert client.CODES[kind.code] is kind is getattr(client, kind.__name__)
    assert getattr(halocline, kind.__name__) is getattr(halocline_engine, kind.__name__) is kind


@pytest.mark.parametrize("code", sorted(STATUS_BY_CODE))
def test_the_client_picks_a_class_of_the_same_kind_by_status_alone(code: str) -> None:
    status = STATUS_BY_CODE[code]
    by_status = client.from_problem({"detail": "So."}, status)
    assert isinstance(by_status, client.HaloclineError)
    assert (str(by_status), by_status.status) == ("So.", status)


@pytest.mark.parametrize("kind", CLIENT, ids=lambda kind: kind.__name__)
def test_client_errors_survive_pickling(kind: type[client.HaloclineError]) -> None:
    if kind is client.JobFailed:
        error: client.HaloclineError = client.JobFailed("17", client.AxisError("No K."))
    else:
        error = kind("So.", hint="Thus.")
        error.status, error.problem = 400, {"line": 2, "needed": 5}
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert {k: str(v) for k, v in vars(again).items()} == {
        k: str(v) for k, v in vars(error).items()
    }


def test_the_docstring_draws_every_class() -> None:
    assert client.__doc__ is not None
    missing = [kind.__name__ for kind in CLIENT if kind.__name__ not in client.__doc__]
    assert missing == []
