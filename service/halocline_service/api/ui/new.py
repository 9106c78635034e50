"""The form for a new job, in which a script creates the fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from halocline_service.api.ui.html import Html, element
from halocline_service.processes.base import Process

__all__ = ["Reference", "new_main"]

_HIDDEN = ("plan",)  # available as a button


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference and title of a dataset."""

    value: str
    title: str


def new_main(references: Sequence[Reference], processes: Sequence[Process]) -> Html:
    """Write the form; `references` are offered as datasets."""
    offered = (element("option", value=each.value, label=each.title) for each in references)
    return element(
        "main",
        element("h1", "New job"),
        element("noscript", element("p", "This form needs JavaScript; the REST API does not.")),
        element(
            "form",
            _process(processes),
            element("div", id="fields"),
            element("section", element("h2", "Job"), element("div", id="job"), class_="card group"),
            element("datalist", *offered, id="references"),
            _end(),
            id="new",
            novalidate=True,
        ),
        id="main",
        tabindex="-1",
    )


def _process(processes: Sequence[Process]) -> Html:
    options = (
        element("option", process.title, value=process.id)
        for process in processes
        if process.id not in _HIDDEN
    )
    return element(
        "section",
        element("label", "Process", for_="process"),
        element("select", *options, id="process"),
        element("p", id="about", class_="help"),
        element("a", "All its inputs in the API reference", id="reference", href="../docs"),
        element("div", id="examples", class_="examples", hidden=True),
        class_="card group process",
    )


def _end() -> Html:
    return element(
        "div",
        element("div", id="wrong", role="alert"),
        element(
            "div",
            element("button", "Submit", class_="primary", id="submit"),
            element("span", id="state", role="status"),
            element("span", "Ctrl+Enter submits", class_="note wide-only"),
            class_="actions",
        ),
        element("div", id="planned"),
        element("div", id="copies"),
        class_="end card",
    )
