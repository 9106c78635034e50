"""What a failed job keeps of its error."""

from __future__ import annotations

from halocline_engine.errors import FieldError
from halocline_service.jobs.errors import error_fields


def test_what_is_long_is_cut() -> None:
    names = ", ".join(f"v{number}" for number in range(100_000))
    told = error_fields(FieldError(f"There is no 'x' in {names}.", hint=names))
    assert told["message"].startswith("There is no 'x' in v0, v1")
    assert told["message"].endswith("...")
    assert len(told["message"]) == len(told["hint"]) == 4003


def test_what_is_short_is_kept() -> None:
    told = error_fields(FieldError("There is no 'x'.", hint="There is 'y'."))
    assert told == {"code": "field", "message": "There is no 'x'.", "hint": "There is 'y'."}
