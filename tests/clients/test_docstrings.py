"""What `help()` shows of the client, and what it says where something is not installed."""

from __future__ import annotations

import importlib.metadata
import inspect
import subprocess
import sys
from typing import Any

import pytest
from tests.engine.test_docstrings import SECTIONS, documented, sections

import halocline
import halocline_service
from halocline import Client, Job
from halocline.transfer.uploads import Uploads

METHODS = [
    (kind, name)
    for kind in (Client, Job, Uploads)
    for name, member in inspect.getmembers(kind)
    if not name.startswith("_") and callable(member)
]


@pytest.mark.parametrize(("kind", "name"), METHODS, ids=str)
def test_every_parameter_is_documented(kind: type, name: str) -> None:
    method: Any = getattr(kind, name)
    text = inspect.getdoc(method) or ""
    assert "%(" not in text
    assert max(map(len, text.splitlines())) <= 100
    titles = [one for one in sections(text) if one != "Yields"]
    assert titles == sorted(titles, key=SECTIONS.index)
    given = [one for one in inspect.signature(method).parameters if one != "self"]
    if given:
        assert sorted(documented(text)) == sorted(given)


@pytest.mark.parametrize("package", [halocline, halocline_service])
def test_packages_have_a_version(package: Any) -> None:
    assert package.__version__ == importlib.metadata.version("halocline")
    assert "__version__" in dir(package)
    with pytest.raises(AttributeError, match=rf"^module '{package.__name__}' has no attribute"):
        getattr(package, "versions")  # noqa: B009 - what is tested


def test_public_names_are_sorted_and_exist() -> None:
    assert halocline.__all__ == sorted(halocline.__all__)
    assert {*halocline.__all__} <= {*dir(halocline)}
    assert all(hasattr(halocline, name) for name in halocline.__all__)


def test_the_command_of_the_service_names_the_extra_that_is_missing() -> None:
    script = """
import sys
sys.modules["pydantic"] = None
from halocline_service.cli import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "halocline-server needs the package 'pydantic', which is not installed. Install the extra"
        " 'service': pip install 'halocline[service]'.\n"
    )


def test_the_command_of_the_service_calls_no_installed_package_missing() -> None:
    script = """
import sys
sys.modules["pydantic.fields"] = None
from halocline_service.cli import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert "pydantic.fields" in done.stderr.splitlines()[-1]
    assert "not installed" not in done.stderr
