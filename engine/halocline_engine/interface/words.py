"""Messages in the words of the interface that somebody uses.

Errors and warnings name arguments in Python's notation: ``boundary={'x': 'edge'}``, ``dims=`` or
"Argument 'steps'". This module is the only one that knows how the command line, JSON and the page
write the same.

>>> hint = "Say which one: feedback={'s': 't'}."
>>> for interface in Interface:
...     print(in_words_of(interface, hint))
Say which one: feedback={'s': 't'}.
Say which one: --feedback s=t.
Say which one: "feedback": {"s": "t"}.
Say which one: s=t in 'Feedback'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar, assert_never, cast

from halocline_engine.interface.notation import Placeholder, Value, end_of_value, value_of

__all__ = ["ARGUMENTS", "OPTIONS", "Interface", "in_words_of", "reworded"]

_Document = TypeVar("_Document")


class Interface(StrEnum):
    """Interfaces to the same functions."""

    PYTHON = "python"
    COMMAND = "command"
    JSON = "json"
    PAGE = "page"


#: Options of the command by argument; values of other arguments stand in its '.json' file.
OPTIONS: Mapping[str, str] = {
    "arithmetic": "--arithmetic",
    "axes": "--axes",
    "boundary": "--boundary",
    "chunks": "--chunk",
    "dtypes": "--dtype",
    "externals": "--external",
    "feedback": "--feedback",
    "fields": "--field",
    "grid": "--grid",
    "job_name": "--job-name",
    "labels": "--label",
    "literal_precision": "--literal-precision",
    "mode": "--mode",
    "order": "--order",
    "output": "--output",
    "positions": "--position",
    "scalars": "--scalar",
    "snapshot_every": "--snapshot-every",
    "stencil_name": "--stencil-name",
    "steps": "--steps",
    "target": "--target",
    "time": "--time",
}
#: Options whose words may be joined by commas; others are repeated.
_JOINED = ("axes", "boundary", "chunks", "grid", "time")

#: Arguments that messages name in Python's notation.
ARGUMENTS = (
    *OPTIONS,
    *(
        "axis",
        "dataset",
        "diagnostics",
        "dim",
        "dims",
        "factors",
        "heights",
        "location",
        "mesh",
        "na_thres",
    ),
    *("negative", "out_of_range", "program", "results", "skipna", "stages", "target_dims"),
    *("until", "variables", "weights"),
)
#: What stands for routes of the API, in Python, on the command line and on the page.
_ROUTES: Mapping[str, tuple[str, str, str]] = {
    "GET /jobs": ("'client.jobs()'", "'halocline ls'", "'Jobs'"),
    "GET /uploads": ("'client.uploads.list()'", "'halocline uploads ls'", "'Datasets'"),
    "GET /datasets": ("'client.datasets()'", "'halocline datasets'", "'Datasets'"),
    "POST /uploads": ("'client.upload(dataset)'", "'halocline upload FILE'", "'Datasets'"),
    "DELETE /jobs/{id}": ("'job.cancel()'", "'halocline cancel ID'", "'Cancel'"),
    "DELETE /uploads/{id}": (
        "'client.uploads.remove(id)'",
        "'halocline uploads rm ID'",
        "'Delete' in 'Datasets'",
    ),
}
_TEXT = "Write the text of a program: a function with 'with computation(...)' in its body."
_ADDRESS = "Check the address of the service."
_SEND = "Copy it, and send the copy: POST /uploads."
#: What others are told in place of a sentence for Python, or for readers of JSON.
_SENTENCES: Mapping[str, Mapping[Interface, str]] = {
    "Pass the text of a program, the path of a '.py' file that is here, or the function itself.": {
        Interface.COMMAND: "Name a '.py' file that is here.",
        Interface.JSON: _TEXT,
        Interface.PAGE: _TEXT,
    },
    "Open it with xarray.open_zarr or xarray.open_dataset, and pass the dataset.": {
        Interface.COMMAND: "Copy it to this machine first.",
        Interface.JSON: _SEND,
        Interface.PAGE: _SEND,
    },
    "GET /api describes every path; start at /.": {
        Interface.PYTHON: _ADDRESS,
        Interface.COMMAND: _ADDRESS,
        Interface.PAGE: _ADDRESS,
    },
}
_BY_NAME = {name: (route, *names) for route, names in _ROUTES.items() for name in (route, names[0])}
_ROUTE = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, _BY_NAME))})(?![\w/{{?])")
_NAMES = "|".join(sorted(ARGUMENTS, key=len, reverse=True))
_SETTING = re.compile(rf"(?<![\w.'\"(-])({_NAMES})=(?!=)")
_SUBJECT = re.compile(r"\b([Aa]rgument|[Ii]nput) '(\w+)((?:[.\[][^' ]*)?)'")


_Writer: TypeAlias = Callable[[str, Value], str]


def reworded(interface: Interface, document: _Document) -> _Document:
    """Return a JSON document with the texts of errors in it in the words of an interface."""
    match document:
        case dict():
            members = cast("dict[str, Any]", document)
            made: Any = {
                name: in_words_of(interface, value)
                if name in ("detail", "message", "hint") and isinstance(value, str)
                else reworded(interface, value)
                for name, value in members.items()
            }
            return made
        case list():
            items = cast("list[Any]", document)
            return cast("Any", [reworded(interface, item) for item in items])
        case _:
            return document


def in_words_of(interface: Interface, text: str) -> str:
    """Return a message with the arguments that it names as an interface calls them."""
    for sentence, others in _SENTENCES.items():
        text = text.replace(sentence, others.get(interface, sentence))
    text = _SUBJECT.sub(lambda match: _subject(interface, match), text)
    text = _ROUTE.sub(lambda match: _route(interface, match[1]), text)
    if interface is Interface.PYTHON:
        return text
    write = _WRITERS[interface]
    parts: list[str] = []
    at = 0
    while match := _SETTING.search(text, at):
        end = end_of_value(text, match.end())
        try:
            value = value_of(text[match.end() : end])
        except (SyntaxError, ValueError):  # code of a program or of another library
            end, written = match.end(), match[0]
        else:
            written = write(match[1], value)
        parts += [text[at : match.start()], written]
        at = end
    return "".join([*parts, text[at:]])


def _route(interface: Interface, route: str) -> str:
    in_json, in_python, in_command, on_page = _BY_NAME[route]
    match interface:
        case Interface.PYTHON:
            return in_python
        case Interface.COMMAND:
            return in_command
        case Interface.PAGE:
            return on_page
        case Interface.JSON:
            return in_json
        case _:
            assert_never(interface)


def _subject(interface: Interface, match: re.Match[str]) -> str:
    word, name, rest = match[1], match[2], match[3]
    capital = word[0].isupper()
    match interface:
        case Interface.PYTHON:
            return f"{'Argument' if capital else 'argument'} '{name}{rest}'"
        case Interface.JSON:
            return f"{'Input' if capital else 'input'} '{name}{rest}'"
        case Interface.COMMAND if name in OPTIONS and not rest:
            return f"{'Option' if capital else 'option'} '{OPTIONS[name]}'"
        case Interface.COMMAND:
            return f"{'Input' if capital else 'input'} '{name}{rest}'"
        case Interface.PAGE:
            return f"'{_title(name)}{rest}'"
        case _:
            assert_never(interface)


def _as_option(name: str, value: Value) -> str:
    if name not in OPTIONS:
        return f"{_as_json(name, value)} in the '.json' file"
    option = OPTIONS[name]
    match value:
        case Placeholder():
            return option
        case dict():
            words = list(_words(cast("dict[Any, Any]", value)))
            if name in _JOINED:
                return f"{option} {','.join(words)}"
            return " ".join(f"{option} {word}" for word in words)
        case list():
            return " ".join(f"{option} {_word(one)}" for one in cast("list[Any]", value))
        case _:
            return f"{option} {_word(value)}"


def _words(value: Mapping[Any, Any]) -> list[str]:
    """Return `NAME=VALUE` words, as the command and the page take them."""
    words: list[str] = []
    for key, one in value.items():
        match one:
            case {"constant": number}:
                words.append(f"{_word(key)}={_word(number)}")
            case dict():
                inner = _words(cast("dict[Any, Any]", one))
                words += [f"{_word(key)}.{word}" for word in inner]
            case list():
                several = cast("list[Any]", one)
                words.append(f"{_word(key)}={','.join(map(_word, several))}")
            case _:
                words.append(f"{_word(key)}={_word(one)}")
    return words


def _word(value: Value) -> str:
    match value:
        case Placeholder():
            return "VALUE" if value.name == "..." else value.name
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def _as_json(name: str, value: Value) -> str:
    if isinstance(value, Placeholder):
        return f'"{name}"'
    return f'"{name}": {_json(value)}'


def _json(value: Value) -> str:
    match value:
        case Placeholder():
            return value.name if value.name == "..." else json.dumps(value.name)
        case dict():
            items = cast("dict[Any, Any]", value).items()
            return f"{{{', '.join(f'{_json(key)}: {_json(one)}' for key, one in items)}}}"
        case list():
            return f"[{', '.join(_json(one) for one in cast('list[Any]', value))}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _as_entry(name: str, value: Value) -> str:
    title = f"'{_title(name)}'"
    match value:
        case Placeholder():
            return title
        case dict():
            return f"{', '.join(_words(cast('dict[Any, Any]', value)))} in {title}"
        case list():
            return f"{', '.join(_word(one) for one in cast('list[Any]', value))} in {title}"
        case _:
            return f"{_word(value)} in {title}"


def _title(name: str) -> str:
    """Return how the page labels an argument: by its name, in words."""
    return name.replace("_", " ").capitalize()


_WRITERS: Mapping[Interface, _Writer] = {
    Interface.COMMAND: _as_option,
    Interface.JSON: _as_json,
    Interface.PAGE: _as_entry,
}
