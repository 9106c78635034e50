"""Every diagnostic, as a person sees it: `tests/golden/messages` holds a file for each rule.

A file is a sequence of cases: a line `### name`, the program, a line `---` with the arguments of
`lower` as JSON where there are any, and the rendered error with its class.
"""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lowered import lower

import halocline_engine.ir
import halocline_engine.language
from halocline_engine.errors import HaloclineError
from halocline_engine.language.gtscript import parse

FOLDER = Path(__file__).parents[2] / "golden" / "messages"
LANGUAGE = Path(str(halocline_engine.language.__file__)).parent
IR = Path(str(halocline_engine.ir.__file__)).parent


def cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.txt")):
        for block in path.read_text().split("### ")[1:]:
            name, rest = block.split("\n", 1)
            program, answer = rest.split("\n---", 1)
            options, rendered = answer.split("\n", 1)
            given: dict[str, Any] = json.loads(options) if options.strip() else {}
            yield pytest.param(program, given, rendered.strip("\n"), id=f"{path.stem}-{name}")


@pytest.mark.parametrize(("program", "options", "rendered"), list(cases()))
def test_message(program: str, options: dict[str, Any], rendered: str) -> None:
    with pytest.raises(HaloclineError) as caught:
        lower(parse(program), **options)
    assert f"{type(caught.value).__name__}: {caught.value}" == rendered


def fragments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the longest fixed part of each message that a module can raise."""
    for node in ast.walk(ast.parse(path.read_text())):
        texts: list[ast.expr] = []
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "message":
            texts = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "fault" and len(node.args) > 3:
                texts = [node.args[3]]
            elif node.func.id == "not_yet":
                texts = [node.args[1]]
            elif node.func.id == "ArgumentError":
                texts = [node.args[0]]
        for text in texts:
            parts = [c.value for c in ast.walk(text) if isinstance(c, ast.Constant)]
            fixed = [part for part in parts if isinstance(part, str) and len(part) > 3]
            if fixed:
                yield text.lineno, max(fixed, key=len)


def test_every_message_is_pinned() -> None:
    pinned = "".join(path.read_text() for path in FOLDER.glob("*.txt"))
    pinned += "".join(path.read_text() for path in Path(__file__).parent.glob("test_limits.py"))
    missing = [
        f"{path.name}:{line}: {text}"
        for path in [*sorted(LANGUAGE.rglob("*.py")), *sorted((IR / "lower").rglob("*.py"))]
        if not path.name.startswith("columns")  # another language: test_columns_messages.py
        for line, text in fragments(path)
        if text not in pinned
    ]
    assert not missing, "\n".join(missing)


def test_messages_are_sentences_with_a_way_out() -> None:
    for parameter in cases():
        _, _, rendered = parameter.values
        lines = str(rendered).split("\n")
        assert lines[-1].endswith((".", "?")), parameter.id
        assert len(lines) in (1, 4) or "Python syntax" in lines[0], parameter.id
