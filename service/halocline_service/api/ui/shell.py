"""Common parts of all pages: head, navigation and frame.

Links are relative, since only the browser knows the address of the API.
"""

from __future__ import annotations

from dataclasses import dataclass

from halocline_service.api.ui.html import Html, document, element

__all__ = ["View", "locked", "page"]

_VIEWS = (
    ("", "Jobs"),
    ("new", "New job"),
    ("datasets", "Datasets"),
    ("cluster", "Cluster"),
    ("../docs", "API"),
)


@dataclass(frozen=True, slots=True)
class View:
    """One page: its title, its script, the part of the navigation, and the depth of its path.

    A page beside `/ui/` is one above it, at depth -1.
    """

    title: str
    script: str
    part: str
    depth: int = 0

    @property
    def up(self) -> str:
        """Relative path from this page to `/ui/`."""
        return "ui/" if self.depth < 0 else "../" * self.depth or "./"


def page(view: View, version: str, main: Html) -> str:
    """Write a page."""
    assets = f"{view.up}assets/{version}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("title", f"{view.title} · Halocline"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", type="image/svg+xml", href=f"{assets}/icon.svg"),
        *(
            element("link", rel="stylesheet", href=f"{assets}/{name}.css")
            for name in ("style", "forms", "pictures")
        ),
        # Loaded before the first paint, so that the default theme does not flash.
        element("script", src=f"{assets}/theme.js"),
        element("script", type="module", src=f"{assets}/{view.script}.js"),
    )
    body = element(
        "body",
        element("a", "Skip to content", href="#main", class_="skip"),
        _header(view, assets),
        main,
        element("div", id="status", role="status", aria_live="polite"),
    )
    return document(head, body)


def _header(view: View, assets: str) -> Html:
    items = (
        element(
            "a",
            title,
            href=f"{view.up}{path}",
            aria_current="page" if path == view.part else None,
        )
        for path, title in _VIEWS
    )
    mark = element("img", src=f"{assets}/icon.svg", alt="", class_="mark-of-brand")
    brand = element("a", mark, "Halocline", href=f"{view.up}../", class_="brand")
    theme = element("button", "Theme", type="button", id="theme", hidden=True)
    return element("header", brand, element("nav", *items, aria_label="Pages"), theme, class_="top")


def locked(title: str, *, wrong: bool) -> Html:
    """Write the form for a missing or an invalid key."""
    said = "This API key is not valid." if wrong else "This service requires an API key."
    without = (
        "Reading this page without JavaScript needs the header 'Authorization: Bearer hc_...'."
    )
    form = element(
        "form",
        element("label", "API key", for_="key"),
        element("input", id="key", type="password", autocomplete="off", spellcheck="false"),
        element("button", "Use this key", class_="primary"),
        id="key-form",
        hidden=True,
    )
    return element(
        "main",
        element("h1", title),
        element("p", said, role="alert" if wrong else None),
        element("noscript", element("p", without)),
        form,
        id="main",
        tabindex="-1",
        data_locked=True,
    )
