"""Write the tables of docs/errors.md from the classes of errors when this file is run."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from halocline import errors as client
from halocline_engine import errors as engine
from halocline_service.api.problems import STATUS_BY_CODE, TITLES

__all__ = ["rendered"]

_TREES = (client.__name__, engine.__name__)
_TABLE = re.compile(r"(<!-- (classes|codes) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(page: str) -> str:
    """Return the page with its tables as the classes are now."""
    tables = {"classes": _classes(), "codes": _codes()}
    return _TABLE.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n{found[3]}", page)


def _classes() -> str:
    """List the tree, each class under its parent, with who raises it and when."""
    rows = ""
    for kind, depth in _below(client.HaloclineError, 0):
        own = getattr(engine, kind.__name__, None)
        raised_by = "both" if own else "client"
        rows += f"| {'· ' * depth}`{kind.__name__}` | {raised_by} | {_said(own or kind)} |\n"
    return f"| class | raised by | when |\n|---|---|---|\n{rows}"


def _said(kind: type) -> str:
    return (inspect.getdoc(kind) or "").splitlines()[0]


def _below(kind: type, depth: int) -> list[tuple[type, int]]:
    children = [child for child in kind.__subclasses__() if child.__module__ in _TREES]
    return [(kind, depth)] + [each for child in children for each in _below(child, depth + 1)]


def _codes() -> str:
    rows = "".join(
        f"| `{code}` | {status} | `{client.CODES[code].__name__}` | {TITLES[code]} |\n"
        for code, status in STATUS_BY_CODE.items()
    )
    return f"| code | status | class of the client | title |\n|---|---|---|---|\n{rows}"


if __name__ == "__main__":
    path = Path(__file__).parents[2] / "docs" / "errors.md"
    path.write_text(rendered(path.read_text("utf-8")), "utf-8")
