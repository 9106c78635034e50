"""The home page of the service, with links to its parts."""

from __future__ import annotations

from halocline_service.api.ui.html import Html, element

__all__ = ["home_main"]

_WAYS = (
    ("ui/new", "New job", "Fill in a form: a program, a dataset, boundaries and steps."),
    ("ui/", "Jobs", "Follow your jobs, and look at their results as maps and series."),
    ("ui/datasets", "Datasets", "Browse the datasets of the service, and upload your own."),
    ("ui/cluster", "Cluster", "Workers, their load, and your limits."),
    ("docs", "API reference", "Every request, and the inputs of every process."),
    ("api", "OpenAPI", "The same for machines, in OpenAPI 3.1; /api/3.0 for older tools."),
)


def home_main(title: str, about: str, base: str) -> Html:
    """Write the page; `base` is the address of the API."""
    ways = (
        element("a", element("strong", name), element("span", words), href=href, class_="way card")
        for href, name, words in _WAYS
    )
    return element(
        "main",
        element(
            "section",
            element("h1", title),
            element("p", about, class_="lead"),
            class_="hero",
        ),
        element("div", *ways, class_="ways"),
        element(
            "div",
            _snippet("Python", _python(base)),
            _snippet("Command line", _command(base)),
            _snippet("curl", f"curl -s {base}/processes"),
            class_="cards",
        ),
        id="main",
        tabindex="-1",
    )


def _snippet(title: str, text: str) -> Html:
    return element(
        "section", element("h2", title), element("pre", text, tabindex="0"), class_="card"
    )


def _python(base: str) -> str:
    return f'import halocline\nwith halocline.Client("{base}") as client:\n    print(client.jobs())'


def _command(base: str) -> str:
    return f"export HALOCLINE_URL={base}\nhalocline ls"
