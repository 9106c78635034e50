"""Write the tables of docs/language.md from the constructs when this file is run."""

from __future__ import annotations

import re
from pathlib import Path

from language_constructs import SECTIONS, Construct

__all__ = ["rendered"]

_TABLE = re.compile(r"(<!-- constructs: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(page: str) -> str:
    """Return the page with its tables as the constructs are now."""
    return _TABLE.sub(lambda found: f"{found[1]}\n{_table(SECTIONS[found[2]])}\n{found[3]}", page)


def _table(constructs: tuple[Construct, ...]) -> str:
    rows = "".join(f"| {_forms(one)} | {one.meaning} |\n" for one in constructs)
    return f"| write | meaning |\n|---|---|\n{rows}"


def _forms(construct: Construct) -> str:
    return ", ".join("`" + form.replace("|", "\\|") + "`" for form in construct.forms)


if __name__ == "__main__":
    path = Path(__file__).parents[2] / "docs" / "language.md"
    path.write_text(rendered(path.read_text("utf-8")), "utf-8")
