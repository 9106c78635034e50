"""The form for a new job of the stencil process."""

from __future__ import annotations

from collections.abc import Sequence

from halocline_service.api.ui.html import Html, element

__all__ = ["new_main"]

_EXAMPLE = """\
def smooth(t: Field[np.float64], smoothed: Field[np.float64], strength: float):
    with computation(PARALLEL), interval(...):
        around = t[-1, 0, 0] + t[1, 0, 0] + t[0, -1, 0] + t[0, 1, 0]
        smoothed = t + strength * (around - 4.0 * t)
"""
_TARGETS = ("auto", "cuda", "cpu", "reference")


def new_main(references: Sequence[str]) -> Html:
    """Write the form; `references` are offered as datasets."""
    offered = (element("option", value=each) for each in references)
    return element(
        "main",
        element("h1", "New job"),
        element("noscript", element("p", "This form needs JavaScript; the REST API does not.")),
        element(
            "form",
            _program(),
            element("div", *_inputs(), class_="inputs"),
            element("datalist", *offered, id="references"),
            element("div", id="wrong", role="alert"),
            element(
                "div",
                element("button", "Submit", class_="primary", id="submit"),
                element("span", "Ctrl+Enter submits", class_="note"),
                element("span", id="copies"),
                class_="actions",
            ),
            id="new",
            novalidate=True,
        ),
        id="main",
        tabindex="-1",
    )


def _program() -> Html:
    return element(
        "div",
        element("label", "Program", for_="program"),
        element(
            "div",
            element("pre", id="marks", aria_hidden="true"),
            element(
                "textarea",
                _EXAMPLE,
                id="program",
                rows=14,
                spellcheck="false",
                autocapitalize="off",
                autocomplete="off",
                wrap="off",
                aria_describedby="checked",
            ),
            class_="editor",
        ),
        element("div", id="checked", aria_live="polite"),
        class_="program",
    )


def _inputs() -> list[Html]:
    return [
        _line(
            "Dataset",
            "dataset",
            "A name, 'upload:...' or 'job:...'",
            list="references",
            required=True,
        ),
        _line("Boundary", "boundary", "x=periodic, y=edge"),
        _line("Scalars", "scalars", "strength=0.2"),
        element(
            "label",
            element("span", "Steps"),
            element("input", id="steps", type="number", min=1, max=10_000_000, value=1),
        ),
        _line("Feedback", "feedback", "smoothed=t"),
        _line("Fields", "fields", "t=temperature"),
        _line("Axes", "axes", "I=x, J=y"),
        element(
            "label",
            element("span", "Target"),
            element("select", *(element("option", word) for word in _TARGETS), id="target"),
        ),
    ]


def _line(title: str, name: str, example: str, **attributes: str | bool) -> Html:
    return element(
        "label",
        element("span", title),
        element(
            "input",
            id=name,
            placeholder=example,
            autocomplete="off",
            spellcheck="false",
            **attributes,
        ),
    )
