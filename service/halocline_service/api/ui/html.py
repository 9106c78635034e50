"""HTML as values, in which everything that is not markup is escaped."""

from __future__ import annotations

from html import escape

__all__ = ["Child", "Html", "document", "element"]

_VOID = frozenset({"img", "input", "link", "meta"})


class Html(str):
    """Markup."""

    __slots__ = ()


Child = str | int | float | None
_Attribute = str | int | float | bool | None


def element(name: str, /, *children: Child, **attributes: _Attribute) -> Html:
    """Write an element; an attribute that is None or False is left out.

    Names of attributes have '_' for '-', and a trailing '_' if they are keywords of Python.

    >>> element("a", "1 < 2", href='?q="', class_="x", hidden=True, title=None)
    '<a href="?q=&quot;" class="x" hidden>1 &lt; 2</a>'
    >>> element("p", element("b", "<img onerror>"), 3)
    '<p><b>&lt;img onerror&gt;</b>3</p>'
    """
    start = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    if name in _VOID:
        return Html(start)
    return Html(f"{start}{''.join(map(_child, children))}</{name}>")


def _attribute(key: str, value: _Attribute) -> str:
    if value is None or value is False:
        return ""
    word = key.rstrip("_").replace("_", "-")
    return f" {word}" if value is True else f' {word}="{_text(value)}"'


def _child(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Html) else _text(child)


def _text(value: object) -> str:
    """Escape a text; halves of surrogate pairs, which UTF-8 has no bytes for, are replaced."""
    return escape(str(value).encode("utf-8", "replace").decode())


def document(head: Html, body: Html, **attributes: _Attribute) -> str:
    """Write a whole page."""
    return f"<!doctype html>\n{element('html', head, body, lang='en', **attributes)}\n"
