"""Address and key of the service, from arguments, environment or the settings file.

Arguments win over the environment (`HALOCLINE_URL`, `HALOCLINE_KEY`), which wins over the file
`~/.config/halocline/config.toml` (or `$XDG_CONFIG_HOME/halocline/config.toml`)::

    url = "https://halocline.example.org"
    key = "hc_..."

A key in the file is only sent to the address in the same file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from halocline.errors import ArgumentError
from halocline.inputs.arguments import text

__all__ = ["DEFAULT_URL", "Settings", "load"]

DEFAULT_URL = "http://127.0.0.1:8000"


@dataclass(frozen=True)
class Settings:
    """An address without a trailing slash, and a key or None."""

    url: str
    key: str | None = field(default=None, repr=False)


def load(
    url: str | None = None,
    key: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Return address and key; raise ArgumentError if the address is not HTTP."""
    url = None if url is None else text("url", url)
    key = None if key is None else text("key", key)
    if key and not (key.isascii() and key.isprintable()):
        raise ArgumentError(
            "The key must consist of printable ASCII characters.",
            hint="Copy the whole key, from 'hc_' on.",
        )
    variables = os.environ if environment is None else environment
    stored = _stored(variables)
    chosen = (url or variables.get("HALOCLINE_URL") or stored.get("url") or DEFAULT_URL).rstrip("/")
    chosen = chosen.partition("/ui/")[0].removesuffix("/ui")  # copied from a browser
    if not chosen.startswith(("http://", "https://")):
        raise ArgumentError(
            f"The address of the service must start with 'http://' or 'https://', got '{chosen}'.",
            hint="Write for example 'http://127.0.0.1:8000'.",
        )
    if not _is_address(chosen):
        raise ArgumentError(
            f"The address of the service must have a host and perhaps a port, got '{chosen}'.",
            hint="Write 'http://127.0.0.1:8000' or 'https://halocline.example/path'.",
        )
    key = key or variables.get("HALOCLINE_KEY")
    if not key and stored.get("url", DEFAULT_URL).rstrip("/") == chosen:
        key = stored.get("key")
    return Settings(chosen, key or None)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        known = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or parts.username)
    return known and plain and not any(sign.isspace() for sign in url)


def _stored(variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return `url` and `key` of the settings file, or nothing without a file."""
    home = variables.get("XDG_CONFIG_HOME") or str(Path(variables.get("HOME", "~")) / ".config")
    path = Path(home).expanduser() / "halocline" / "config.toml"
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ArgumentError(f"The settings in '{path}' cannot be read: {error}.") from error
    return {k: v for k, v in values.items() if isinstance(v, str)}
