"""The reference of the documentation has every error, code, function and class."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from errors_page import rendered
from settings_page import rendered as rendered_settings

import halocline
import halocline_engine
from halocline_service.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
ERRORS = (DOCS / "errors.md").read_text("utf-8")


def test_the_tables_of_errors_are_those_of_the_classes() -> None:
    assert rendered(ERRORS) == ERRORS, "Run: python tests/support/errors_page.py"


def test_the_tables_of_settings_are_those_of_the_class() -> None:
    page = (DOCS / "settings.md").read_text("utf-8")
    assert rendered_settings(page) == page, "Run: python tests/support/settings_page.py"


def test_every_setting_is_described() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(
    ("package", "page"),
    [(halocline_engine, "engine"), (halocline, "client")],
    ids=["engine", "client"],
)
def test_a_public_name_is_in_the_reference(package: object, page: str) -> None:
    text = (DOCS / "reference" / f"{page}.md").read_text("utf-8")
    directives = re.findall(r"^\.\. auto(?:function|class|exception):: (\w+)$", text, re.MULTILINE)
    named = set(directives) | set(re.findall(r"`(\w+)`", ERRORS)) | {"__version__"}
    if package is halocline:
        named |= set(halocline_engine.__all__)  # on the page of the library
    assert set(getattr(package, "__all__")) <= named  # noqa: B009 - of a module
