"""The tree of errors: as drawn, with stable codes, well worded, and safe to send elsewhere."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from halocline_engine import errors
from halocline_engine.errors import CapacityError, HaloclineError, ProgramError

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "engine/halocline_engine"

# Codes are a promise to clients: a code is added here, never changed.
CODES = {
    "HaloclineError": "error",
    "ProgramError": "program",
    "SyntaxRuleError": "program-syntax",
    "NameRuleError": "program-name",
    "TypeRuleError": "program-type",
    "DependenceError": "program-dependence",
    "LimitError": "program-limit",
    "SourceError": "program-source",
    "RequestError": "request",
    "ArgumentError": "argument",
    "FieldError": "field",
    "AxisError": "axis",
    "BoundaryError": "boundary",
    "DatasetError": "dataset",
    "OutputError": "output",
    "CapacityError": "capacity",
    "DivergenceError": "divergence",
    "CancelledError": "cancelled",
    "DeviceError": "device",
    "ClusterError": "cluster",
    "InternalError": "internal",
}
CLASSES: list[type[HaloclineError]] = [getattr(errors, name) for name in CODES]


def drawn() -> dict[str, str]:
    """Class and parent of every line of the tree in the docstring."""
    stack: list[str] = []
    parents: dict[str, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([│├└─ ]*)([A-Z]\w+Error)\b", line)
        if found is None:
            continue
        depth = len(found[1]) // 4
        parents[found[2]] = stack[depth - 1] if depth else "Exception"
        stack[depth:] = [found[2]]
    return parents


def sentences(source: str, kinds: set[str]) -> Iterator[tuple[int, str]]:
    """Line and text of every message and hint given to one of `kinds`, `{}` for what varies."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id not in kinds:
            continue
        hints = [keyword.value for keyword in node.keywords if keyword.arg == "hint"]
        for value in [*node.args[:1], *hints]:
            text = skeleton(value)
            if text is not None:
                yield node.lineno, text


def skeleton(value: ast.expr) -> str | None:
    """Read the text of a string or f-string; None for anything else."""
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts
            )
        case _:
            return None


def badly_worded(text: str) -> bool:
    """Whether a message is not one capital-to-full-stop sentence with code in single quotes."""
    return bool(text) and not (
        re.match(r"[A-Z]|'|\{\}", text) and text.endswith((".", "{}")) and '"' not in text
    )


def full(kind: type[HaloclineError]) -> HaloclineError:
    """Make an error with every field set."""
    if issubclass(kind, ProgramError):
        error = kind("No.", hint="Yes.", rule="r", line=3, column=4, excerpt="a = b\n    ^")
        error.file, error.file_line = "program.py", 7
        error.others = (kind("Another.", line=5, column=1),)
        return error
    if issubclass(kind, CapacityError):
        return kind("No.", hint="Yes.", needed=5, available=4)
    return kind("No.", hint="Yes.")


def test_the_drawing_is_the_tree() -> None:
    members = inspect.getmembers(errors, inspect.isclass)
    defined = {
        name: kind.__bases__[0].__name__
        for name, kind in members
        if kind.__module__ == errors.__name__
    }
    assert drawn() == defined
    assert set(defined) == set(errors.__all__)


def test_codes_are_stable_and_unique() -> None:
    assert {kind.__name__: kind.code for kind in CLASSES} == CODES
    assert set(CODES) == set(errors.__all__)
    assert len(set(CODES.values())) == len(CODES)
    assert all("code" in vars(kind) for kind in CLASSES)


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_arrives_with_every_field(kind: type[HaloclineError]) -> None:
    sent = full(kind)
    assert all(vars(sent).values()), "A field is not set, so its loss would not be seen."
    arrived = pickle.loads(pickle.dumps(sent))
    assert type(arrived) is kind
    assert str(arrived) == str(sent)
    assert arrived.args == sent.args
    others = [vars(error).pop("others", ()) for error in (arrived, sent)]
    assert vars(arrived) == vars(sent)
    assert [vars(one) for one in others[0]] == [vars(one) for one in others[1]]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_says_what_it_means(kind: type[HaloclineError]) -> None:
    summary = (kind.__doc__ or "").splitlines()[0]
    assert not badly_worded(summary)


def test_messages_are_sentences() -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(ENGINE.rglob("*.py"))
        for line, text in sentences(path.read_text(), set(CODES))
        if badly_worded(text)
    ]
    assert offenders == []


def test_bad_wording_is_found() -> None:
    source = (
        "raise FieldError('lower case.')\nraise FieldError(f'No stop {x}s', hint='do it.')\n"
        "raise FieldError('Field \"u\" is bad.')\nraise FieldError(f\"Field '{x}' is bad.\")"
    )
    found = {text for _, text in sentences(source, {"FieldError"}) if badly_worded(text)}
    assert found == {"lower case.", "No stop {}s", "do it.", 'Field "u" is bad.'}


def test_a_printed_program_error_names_the_place_and_the_way_out() -> None:
    assert str(full(ProgramError)) == (
        "program.py, line 7, column 4: No.\na = b\n    ^\nYes.\n\nline 5, column 1: Another."
    )
