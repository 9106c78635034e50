"""API keys: `hc_<id>_<secret>`; the store keeps the id and the SHA-256 of the whole key.

The secret has 256 bits, so that a fast hash is enough: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from halocline_service.store.base import ApiKey, KeyStore

__all__ = ["NewKey", "create", "verify"]

_LONGEST_OWNER = 200
_FORM = re.compile(r"hc_([0-9a-f]{12})_[0-9A-Za-z_-]{43}")


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key as it is shown once, and as it is kept."""

    text: str
    kept: ApiKey


def create(store: KeyStore, owner: str) -> NewKey:
    """Make a key for an owner. Raises `ValueError` where that is no name."""
    if owner != owner.strip() or not owner.isprintable() or not 0 < len(owner) <= _LONGEST_OWNER:
        raise ValueError(
            f"An owner must be a name of 1 to {_LONGEST_OWNER} printable characters without spaces "
            f"around it, got {owner[:_LONGEST_OWNER]!r}."
        )
    key_id = secrets.token_hex(6)
    text = f"hc_{key_id}_{secrets.token_urlsafe(32)}"
    return NewKey(text, store.add(key_id, owner=owner, digest=_digest(text)))


def verify(store: KeyStore, text: str) -> str | None:
    """Give the owner of a key, or None where it is not a valid one."""
    form = _FORM.fullmatch(text)
    kept = None if form is None else store.get(form.group(1))
    if kept is None or not hmac.compare_digest(kept.digest, _digest(text)):
        return None
    return kept.owner


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
