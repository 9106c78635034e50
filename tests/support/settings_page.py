"""Write the tables of docs/settings.md from the settings of the service when this file is run."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from halocline_service.settings import Settings

__all__ = ["rendered"]

_TABLE = re.compile(r"(<!-- (settings|processes|requests) -->\n).*?(<!-- end -->)", re.DOTALL)
_UNITS = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10}


def rendered(page: str) -> str:
    """Return the page with its tables as the settings are now."""
    kinds = zip(("settings", "processes", "requests"), Settings.__mro__, strict=False)
    tables = {name: _table(kind) for name, kind in kinds}
    return _TABLE.sub(lambda part: f"{part[1]}\n{tables[part[2]]}\n{part[3]}", page)


def _table(kind: type) -> str:
    """Return the settings that a class adds, in alphabetical order."""
    fields = {
        name: Settings.model_fields[name]
        for name in inspect.get_annotations(kind)
        if name in Settings.model_fields
    }
    rows = "".join(
        f"| `HALOCLINE_{name.upper()}` | {_default(name, field)} | {field.description} |\n"
        for name, field in sorted(fields.items())
    )
    return f"| variable | default | |\n|---|---|---|\n{rows}"


def _default(name: str, field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=True)
    match value:
        case None | []:
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case int() if name.endswith("_bytes"):
            unit, size = next((unit, size) for unit, size in _UNITS.items() if value >= size)
            return f"`{value}` ({value // size} {unit})"
        case Path() if value.is_relative_to(Path.home()):
            return f"`~/{value.relative_to(Path.home())}`"
        case float():
            return f"`{value:g}`" if value < 1000 else f"`{value:.0f}`"
        case _:
            return f"`{value}`"


if __name__ == "__main__":
    path = Path(__file__).parents[2] / "docs" / "settings.md"
    path.write_text(rendered(path.read_text("utf-8")), "utf-8")
