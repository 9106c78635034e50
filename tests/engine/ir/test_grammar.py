"""The grammar in the docstring of `ir.nodes` is the grammar of its classes."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, get_args

from halocline_engine.ir import nodes

_FORM = re.compile(r"^(\w+)\s+= (.*)$", re.DOTALL)
_CASE = re.compile(r"(\w+)\(([^)]*)\)")


def grammar() -> dict[str, str]:
    """Return the right side of each rule, by the name on its left."""
    text = (nodes.__doc__ or "").split("::\n\n")[1].split("\n\n")[0]
    rules = re.split(r"\n {4}(?=\w)", "\n" + text.removeprefix("    ").join(["    ", ""]))
    found: dict[str, str] = {}
    for rule in filter(str.strip, rules):
        match = _FORM.match(rule.strip())
        assert match is not None, rule
        found[match[1]] = match[2]
    return found


def declared(text: str) -> list[tuple[str, str]]:
    """Return the (type, name) of each field in a list such as `str name, Expr* arguments`."""
    pairs: list[tuple[str, str]] = []
    for item in filter(None, (part.strip() for part in " ".join(text.split()).split(","))):
        kind, _, name = item.rpartition(" ")
        pairs.append((kind, name))
    return pairs


def actual(kind: type[Any]) -> list[tuple[str, str]]:
    return [(str(field.type), field.name) for field in dataclasses.fields(kind)]


def check(name: str, text: str) -> None:
    found = actual(getattr(nodes, name))
    written = declared(text)
    assert [field for _, field in written] == [field for _, field in found], name
    for (kind, _), (annotation, field) in zip(written, found, strict=True):
        if kind:
            expected = f"tuple[{kind[:-1]}, ...]" if kind.endswith("*") else kind
            assert annotation == expected, f"{name}.{field}"


def test_products() -> None:
    products = {name: text for name, text in grammar().items() if text.startswith("(")}
    assert set(products) == {
        *["Program", "Field", "Scalar", "Temporary", "Table", "Gather", "Position", "Scratch"],
        *["Limit", "Components", "Lookup", "Choice", "Computation", "Block", "Interval", "Bound"],
    }
    for name, text in products.items():
        check(name, text.strip("()"))


def test_sums() -> None:
    rules = grammar()
    for name, union in (("Statement", nodes.Statement), ("Expr", nodes.Expr)):
        cases = _CASE.findall(rules[name])
        assert [case for case, _ in cases] == [kind.__name__ for kind in get_args(union)]
        for case, text in cases:
            check(case, text)


def test_every_class_stands_in_the_grammar() -> None:
    text = " ".join(grammar().values()) + " ".join(grammar())
    for name in nodes.__all__:
        kind = getattr(nodes, name)
        if isinstance(kind, type) and name != "Location":
            assert re.search(rf"\b{name}\b", text), name
