"""References to datasets, and the files that they name.

`upload:<id>` and `job:<id>` name what the same owner sent or computed; a path or a `file:` URL
names a file under a configured root. Nothing else: no other scheme, no chain of file systems, no
indirection through a reference file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from halocline_engine.errors import DatasetError
from halocline_service.datasets.layout import Layout
from halocline_service.jobs.job import is_id
from halocline_service.jobs.states import State
from halocline_service.store.base import Store

__all__ = ["FORBIDDEN", "MISSING", "DatasetRefused", "Resolver", "Resolves", "no_upload"]

FORBIDDEN = "forbidden"
MISSING = "missing"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LONGEST = 4096


class DatasetRefused(DatasetError):
    """A reference that is not answered; `reason` is FORBIDDEN, MISSING or empty (not a reference).

    It counts as a `DatasetError` everywhere; the HTTP surface also tells the reasons apart.
    `missing` is the reference where the service has no such dataset.
    """

    def __init__(
        self, message: str, *, hint: str = "", reason: str = "", missing: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.missing = missing


def no_upload(upload_id: str) -> DatasetRefused:
    """Make the error of an upload that is not there."""
    return DatasetRefused(
        f"There is no upload '{upload_id}'.",
        hint="GET /uploads lists yours; uploads for jobs are deleted with the last job.",
        reason=MISSING,
        missing=f"upload:{upload_id}",
    )


class Resolves(Protocol):
    """Tells where a dataset lies that a user has named."""

    @property
    def roots(self) -> Sequence[Path]:
        """The folders whose files may be named."""
        ...

    def resolve(self, reference: str, *, owner: str) -> Path:
        """Give the path of a dataset. Raises `DatasetRefused`."""
        ...

    def described(self, reference: str, *, owner: str) -> Mapping[str, str]:
        """Give how a dataset is named and, where known, its content's SHA-256, as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class Resolver:
    """Turns references into paths; `roots` are the folders whose files may be named."""

    store: Store
    layout: Layout
    roots: Sequence[Path]

    def resolve(self, reference: str, *, owner: str) -> Path:
        """Give the path of a dataset that exists and that the owner may read.

        Raises `DatasetRefused`.
        """
        if not reference or len(reference) > _LONGEST or not reference.isprintable():
            raise DatasetRefused(
                "A dataset reference must be 1 to 4096 printable characters.", hint=_HINT
            )
        if "::" in reference:
            raise DatasetRefused(
                "A dataset reference must not chain file systems with '::'.", hint=_HINT
            )
        scheme, _, rest = reference.partition(":")
        match scheme:
            case "upload" if rest != "":
                return self._upload(rest, owner)
            case "job" if rest != "":
                return self._job(rest, owner)
            case "file" if rest != "":
                return self._file(_path_of(reference))
            case _:
                return self._file(reference)

    def described(self, reference: str, *, owner: str) -> Mapping[str, str]:
        """Give how a dataset is named and, where known, its content's SHA-256, as JSON."""
        scheme, _, identity = reference.partition(":")
        if scheme != "upload":
            return {"reference": reference}
        found = self.store.uploads.get(identity, owner=owner)
        digest = None if found is None else found.digest
        return {"reference": reference} | ({} if digest is None else {"sha256": digest})

    def _upload(self, upload_id: str, owner: str) -> Path:
        found = self.store.uploads.get(_identifier(upload_id), owner=owner)
        if found is None:
            raise no_upload(upload_id)
        if not found.is_complete:
            raise DatasetRefused(
                f"Upload '{upload_id}' is not complete.",
                hint=f"Send POST /uploads/{upload_id}/complete first.",
            )
        return self.layout.uploaded(found.id)

    def _job(self, job_id: str, owner: str) -> Path:
        found = self.store.jobs.get(_identifier(job_id), owner=owner)
        if found is None:
            raise DatasetRefused(
                f"There is no job '{job_id}'.", hint="GET /jobs lists yours.", reason=MISSING
            )
        path = self.layout.output(found, "result")
        if found.state is not State.SUCCEEDED or path is None:
            raise DatasetRefused(
                f"Job '{job_id}' has no dataset as its result: it is {found.state}.",
                hint="Name a job that has succeeded with a dataset.",
            )
        return path

    def _file(self, text: str) -> Path:
        if not os.path.isabs(text):
            return self._relative(text)
        resolved = Path(os.path.realpath(text))
        if not any(_is_under(resolved, root) for root in self.roots):
            raise DatasetRefused(
                f"Dataset '{text}' is not under a folder that may be read.",
                hint="An operator names such folders in HALOCLINE_DATA_ROOTS. POST /uploads sends "
                "a dataset of yours.",
                reason=FORBIDDEN,
                missing=text,
            )
        return _existing(resolved, text)

    def _relative(self, text: str) -> Path:
        for root in self.roots:
            resolved = Path(os.path.realpath(root / text))
            if not _is_under(resolved, root):
                raise DatasetRefused(
                    f"Dataset '{text}' is not under a folder that may be read.",
                    hint="Leave out '..' and links that lead out of the folder.",
                    reason=FORBIDDEN,
                )
            if os.path.exists(resolved):  # `Path.exists` raises where a name is too long
                return _existing(resolved, text)
        if _SCHEME.match(text):  # names of files may have colons
            raise _other_scheme(text)
        raise DatasetRefused(
            f"There is no dataset '{text}' under the folders that may be read.",
            hint="GET /datasets lists those of the service; POST /uploads sends one of yours.",
            reason=MISSING,
            missing=text,
        )


_HINT = "Name a file under a configured folder, 'upload:<id>' or 'job:<id>'."


def _other_scheme(text: str) -> DatasetRefused:
    return DatasetRefused(
        f"Dataset '{text}' cannot be read: the service reads no '{text.partition(':')[0]}:' "
        "addresses, and no object stores yet.",
        hint="Name a dataset from GET /datasets, 'upload:<id>' or 'job:<id>'; POST /uploads sends "
        "one of yours.",
    )


def _path_of(url: str) -> str:
    refused = DatasetRefused(
        f"A file URL must have the form 'file:///path', got '{url}'.", hint=_HINT
    )
    try:
        parts = urlsplit(url)
    except ValueError as error:  # brackets that hold no address
        raise refused from error
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise refused
    if not os.path.isabs(path) or not path.isprintable():
        raise refused
    return path


def _identifier(text: str) -> str:
    if not is_id(text):
        raise DatasetRefused(f"'{text}' is not an identifier of an upload or a job.", hint=_HINT)
    return text


def _is_under(path: Path, root: Path) -> bool:
    return path.is_relative_to(os.path.realpath(root))


def _existing(path: Path, text: str) -> Path:
    if not os.path.exists(path):
        raise DatasetRefused(
            f"There is no dataset '{text}'.",
            hint="GET /datasets lists the datasets of the service.",
            reason=MISSING,
        )
    if not (path.is_file() or path.is_dir()):
        raise DatasetRefused(
            f"Dataset '{text}' is neither a file nor a folder.",
            hint="Name a NetCDF file or the folder of a Zarr store.",
        )
    return path
