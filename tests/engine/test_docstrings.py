"""What `help()` shows of the public functions and classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import halocline_engine as he

SECTIONS = (
    *("Parameters", "Attributes", "Returns", "Raises", "Warns", "See Also", "Notes", "References"),
    "Examples",
)
PUBLIC = [
    name
    for name in he.__all__
    if not (name.endswith(("Error", "Warning")) or name == "__version__")
]
METHODS = [f"Stencil.{name}" for name in ("__call__", "repeat", "tune", "show")]


def found(name: str) -> Any:
    thing: Any = he
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def sections(text: str) -> list[str]:
    return re.findall(r"^(\w[\w ]+)\n-+$", inspect.cleandoc(text), flags=re.MULTILINE)


def documented(text: str) -> Iterator[str]:
    """Yield the names of the parameters, in their order."""
    body = inspect.cleandoc(text).split("Parameters\n----------\n")[1]
    body = re.split(r"\n\n\w[\w ]+\n-+\n", body)[0]
    for line in re.findall(r"^(\*{0,2}\w.*?) : ", body, flags=re.MULTILINE):
        yield from (part.strip().lstrip("*") for part in line.split(","))


@pytest.mark.parametrize("name", [*PUBLIC, *METHODS])
def test_every_parameter_is_documented(name: str) -> None:
    thing = found(name)
    text = inspect.getdoc(thing) or ""
    assert "%(" not in text
    assert max(map(len, text.splitlines())) <= 100
    titles = sections(text)
    assert titles == sorted(titles, key=SECTIONS.index)
    if name == "Stencil":
        return
    given = [one for one in inspect.signature(thing).parameters if one != "self"]
    assert sorted(documented(text)) == sorted(given)
    assert "Raises" in titles
    assert "Returns" in titles or inspect.isclass(thing) or name.endswith("__call__")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_function_has_an_example(name: str) -> None:
    text = inspect.getdoc(found(name)) or ""
    assert name == "Stencil" or "Examples" in sections(text)


def test_errors_say_what_they_are_for() -> None:
    for name in he.__all__:
        if name.endswith(("Error", "Warning")):
            assert (found(name).__doc__ or "").strip().endswith(".")


def test_shared_parameters_are_the_same_everywhere() -> None:
    shared = ("target", "mode", "chunks", "cluster", "output", "on_event", "cancelled", "options")
    for name in PUBLIC:
        if "cluster" in (given := inspect.signature(found(name)).parameters):
            found_here = [one for one in given if one in shared]
            assert found_here == list(shared), name
            expected = inspect.signature(he.run).parameters
            assert all(given[one] == expected[one] for one in shared), name
