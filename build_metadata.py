"""Readme and links of the package, made for PyPI when it is built: hatchling's metadata hook.

Links between files of the repository lead nowhere on PyPI. With an `address` in pyproject.toml they
become links into the repository, and without one their text stays alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

__all__ = ["PackageMetadata", "readme_of", "urls_of"]

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


class PackageMetadata(MetadataHookInterface):
    """Fills in the dynamic fields of the package's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the readme and the links."""
        root = Path(self.root)
        address = _address(root)
        text = readme_of((root / "README.md").read_text("utf-8"), address)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls_of(address)


def _address(root: Path) -> str:
    import tomllib

    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    return str(project["tool"]["halocline"]["address"]).rstrip("/")


def readme_of(text: str, address: str) -> str:
    """Return a readme whose relative links are absolute, or text where there is no address.

    >>> readme_of("[a](docs/a.md), ![b](b.png), [c](https://c)", "https://h/o/n")
    '[a](https://h/o/n/blob/main/docs/a.md), ![b](https://h/o/n/raw/main/b.png), [c](https://c)'
    >>> readme_of("[a](docs/a.md), ![b](b.png), [c](https://c)", "")
    'a, , [c](https://c)'
    """

    def link(match: re.Match[str]) -> str:
        image, words, place = match.groups()
        if not address:
            return "" if image else words
        kind = "raw" if image else "blob"
        return f"{image}[{words}]({address}/{kind}/main/{place})"

    return _LINK.sub(link, text)


def urls_of(address: str) -> dict[str, str]:
    """Return the links of the package by their labels.

    >>> urls_of("https://h/o/n")["Changelog"]
    'https://h/o/n/blob/main/CHANGELOG.md'
    """
    if not address:
        return {}
    return {
        "Homepage": address,
        "Documentation": f"{address}/blob/main/docs/index.md",
        "Source": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
    }
