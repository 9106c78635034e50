"""Output of the `halocline` command."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from halocline.errors import HaloclineError, JobFailed, ProgramError, from_problem
from halocline.events import Event
from halocline_engine.interface.words import Interface, in_words_of, reworded

__all__ = ["render_error", "render_event", "render_job", "render_jobs", "render_uploads"]

_STYLES = {
    "successful": "green",
    "failed": "red",
    "dismissed": "yellow",
    "running": "cyan",
    "accepted": "default",
}


def render_jobs(documents: Sequence[dict[str, Any]]) -> str:
    """Return a table of jobs, one a line."""
    if not documents:
        return "There are no jobs.\n"
    table = Table(box=None, pad_edge=False, header_style="bold")
    named = any(document.get("job_name") for document in documents)
    for title in ("id", *(("name",) if named else ()), "process", "status", "done", "created"):
        table.add_column(title, no_wrap=True)
    table.add_column("message")
    for document in documents:
        table.add_row(
            str(document["jobID"]),
            *((Text(str(document.get("job_name") or "")),) if named else ()),
            str(document.get("processID", "")),
            _status(document),
            f"{float(document.get('progress') or 0):.0f} %",
            _time(document.get("created")),
            Text(str(document.get("message") or "")),
        )
    return _drawn(table)


def render_uploads(documents: Sequence[dict[str, Any]]) -> str:
    """Return a table of uploads, one a line."""
    if not documents:
        return "There are no uploads.\n"
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("id", "status", "kept", "objects", "bytes", "created"):
        table.add_column(title, no_wrap=True)
    for document in documents:
        table.add_row(
            str(document["id"]),
            str(document.get("status", "")),
            "yes" if document.get("kept", True) else "by jobs",
            str(document.get("keys", "")),
            str(document.get("bytes", "")),
            _time(document.get("created")),
        )
    return _drawn(table)


def render_job(document: dict[str, Any]) -> str:
    """Return the state of a job, one property a line, followed by the error if it failed."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("id", str(document["jobID"]))
    table.add_row("process", str(document.get("processID", "")))
    for key, told in (("name", document.get("job_name")), ("labels", document.get("labels"))):
        if told:
            table.add_row(key, Text(told if isinstance(told, str) else ", ".join(told)))
    table.add_row("status", _status(document))
    table.add_row("done", f"{float(document.get('progress') or 0):.0f} %")
    for key in ("created", "started", "finished"):
        if document.get(key):
            table.add_row(key, _time(document[key]))
    if document.get("message"):
        table.add_row("message", Text(str(document["message"])))
    for link in document.get("links", []):
        if str(link.get("rel", "")).endswith("results"):
            table.add_row("results", Text(str(link["href"])))
    problem = document.get("exception")
    if not isinstance(problem, dict):
        return _drawn(table)
    return f"{_drawn(table)}\n{render_error(from_problem(cast('dict[str, object]', problem)))}\n"


def render_event(event: Event) -> str:
    """Return an event as one line of text."""
    at = str(event.data.get("at", ""))
    share = "" if event.progress is None else f"{100 * event.progress:3.0f} %"
    told = event.data.get("text") or event.data.get("message") or event.data.get("status")
    words = (at, share, event.kind, str(told or ""))
    return " ".join(word for word in words if word)


def render_error(error: HaloclineError, as_json: bool = False) -> str:
    """Return an error for standard error: message, excerpt with its caret, and hint."""
    if as_json:
        inner = error.error if isinstance(error, JobFailed) else error
        document = {"code": inner.code, "message": inner.message, "hint": inner.hint}
        return json.dumps(reworded(Interface.COMMAND, {**document, **inner.problem}))
    lines: list[str] = []
    if isinstance(error, JobFailed):
        lines.append(error.message)
        error = error.error
    lines += _error_lines(error)
    for other in error.others if isinstance(error, ProgramError) else ():
        lines += ["", *_error_lines(other)]
    return "\n".join(lines)


def _error_lines(error: HaloclineError) -> Iterator[str]:
    """Yield the lines of one error."""
    if isinstance(error, ProgramError) and error.place:
        yield f"{error.place}:"
    yield f"error: {in_words_of(Interface.COMMAND, error.message)}"
    if isinstance(error, ProgramError) and error.excerpt:
        yield from ("", *(f"    {line}" for line in error.excerpt.splitlines()), "")
    if error.hint:
        yield f"hint: {in_words_of(Interface.COMMAND, error.hint)}"


def _status(document: dict[str, Any]) -> Text:
    status = str(document["status"])
    return Text(status, style=_STYLES.get(status, "default"))


def _time(stamp: object) -> str:
    """Return a time stamp of the service in local time."""
    if not isinstance(stamp, str):
        return ""
    return f"{datetime.fromisoformat(stamp).astimezone():%Y-%m-%d %H:%M:%S}"


def _drawn(table: Table) -> str:
    """Return a table for the terminal, or without colours and at full width for a pipe."""
    screen = Console()
    width = screen.width if screen.is_terminal else 200
    console = Console(
        file=io.StringIO(), width=width, force_terminal=screen.is_terminal, highlight=False
    )
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"
