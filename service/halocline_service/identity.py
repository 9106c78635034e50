"""By what the processes of a cluster know each other: one certificate and its key, in one file.

Whoever reaches a scheduler or a worker of Dask can have it run anything. So every connection is
encrypted, and both of its ends show a certificate that the other trusts: their own.
"""

from __future__ import annotations

import os
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

__all__ = ["Identity", "IdentityError", "make_identity", "read_identity"]

_YEARS = 10
_LEFT = timedelta(days=365)
_EARLIER = timedelta(days=1)  # clocks differ
_OTHERS = 0o007
_ROLES = ("SCHEDULER", "WORKER", "CLIENT")
_TLS = "DASK_DISTRIBUTED__COMM__TLS"


class IdentityError(Exception):
    """A certificate is missing, or is not as it must be; `hint` is the way out."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate with its key, and the certificates that are trusted, all PEM."""

    file: Path
    trusted: Path

    def environment(self) -> Mapping[str, str]:
        """Give the variables by which Dask takes it in all roles, and nothing unencrypted."""
        return {
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
            f"{_TLS}__CA_FILE": str(self.trusted),
            **{f"{_TLS}__{role}__CERT": str(self.file) for role in _ROLES},
        }

    def context(self) -> ssl.SSLContext:
        """Give what a client needs for a handshake."""
        context = ssl.create_default_context(cafile=str(self.trusted))
        context.check_hostname = False  # who has the key belongs to the cluster, wherever it runs
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.load_cert_chain(self.file)
        return context


def read_identity(file: Path, trusted: Path | None = None) -> Identity:
    """Return what lies in a file; raises `IdentityError` where it cannot serve."""
    try:
        mode = file.stat().st_mode
        identity = Identity(file.resolve(), (trusted or file).resolve())
        if mode & _OTHERS:
            raise IdentityError(
                f"The key in '{file}' can be read by every user of this machine.",
                hint=f"Run 'chmod 600 {file}', or make another one.",
            )
        identity.context()
    except FileNotFoundError:
        missing = file if trusted is None or not file.exists() else trusted
        raise IdentityError(
            f"There is no certificate '{missing}', and a cluster without one is open to all.",
            hint="Run 'halocline-server certificate' on one machine, copy the file to the others, "
            "and name it by HALOCLINE_TLS_IDENTITY.",
        ) from None
    except (OSError, ssl.SSLError) as error:
        raise IdentityError(
            f"The certificate '{file}' cannot be used: {error}.",
            hint="It must hold a certificate and its key, in PEM. "
            "Delete it and run 'halocline-server certificate'.",
        ) from error
    return identity


def make_identity(file: Path) -> bool:
    """Write a certificate and its key for this user alone, unless a good one is there.

    One that ends within a year is replaced. Returns whether one was written.
    """
    if file.exists() and _ends(file) - datetime.now(UTC) > _LEFT:
        return False
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(_made())
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
    return True


def _ends(file: Path) -> datetime:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    except ValueError as error:
        raise IdentityError(
            f"The certificate '{file}' cannot be used: {error}.",
            hint="Delete it, so that another one is made.",
        ) from error


def _made() -> bytes:
    """Make a key, and a certificate that it signs for itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "halocline")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
