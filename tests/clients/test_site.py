"""The configuration of the documentation site: its search, and what is offered for download."""

from __future__ import annotations

import runpy
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docutils import core

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def configuration() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "conf.py"))


@pytest.mark.parametrize(
    ("page", "searched"),
    [
        ("docs/sphere", True),
        ("docs/gallery/cable", True),
        ("docs/reference/engine", True),
        ("CHANGELOG", True),
        ("deploy/runbook", True),
        ("engine/decisions/0114-what-a-field-holds", False),
        ("service/decisions/README", False),
        ("engine/DESIGN", False),
        ("docs/performance", False),
        ("docs/performance/steps", False),
        ("CONTRIBUTING", False),
    ],
)
def test_the_search_has_the_pages_for_users(
    configuration: dict[str, Any], page: str, searched: bool
) -> None:
    assert configuration["is_searched"](page) is searched


def test_a_notebook_is_offered_below_its_title(configuration: dict[str, Any]) -> None:
    folder = SimpleNamespace(output_folder="/site/notebooks")
    env = SimpleNamespace(docname="docs/gallery/cable", mystnb_config=folder)
    made: Any = core
    page = made.publish_doctree("A title\n=======\n\nText.\n")
    configuration["_with_download"](SimpleNamespace(env=env, srcdir="/site"), page)
    title, download, _ = page.children
    assert title.astext() == "A title"
    assert download.astext() == "Download as a notebook"
    assert 'reftarget="/notebooks/docs/gallery/cable.ipynb"' in str(download)


def test_copied_code_has_no_prompts_and_no_output(configuration: dict[str, Any]) -> None:
    assert configuration["copybutton_prompt_text"] == r"\$ "
    assert ":not(.highlight-text)" in configuration["copybutton_selector"]
    assert "'" not in configuration["copybutton_selector"]  # it becomes a string of JavaScript


def test_the_header_has_the_version(configuration: dict[str, Any]) -> None:
    text = configuration["html_theme_options"]["logo"]["text"]
    assert text == f"Halocline {version('halocline')}"
