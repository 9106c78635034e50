"""A result over HTTP as a Zarr store, with retries and verified digests.

Zarr reads the chunks that are used, several at a time. A missing chunk consists of fill values, as
Zarr defines; any other failure is an error.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Literal, NoReturn

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype

from halocline.config import Settings, load
from halocline.connection import Connection
from halocline.downloads import check_content, raise_if_gone
from halocline.errors import NotFoundError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ResultStore", "open_store"]


def open_store(settings: Settings, url: str) -> xr.Dataset:
    """Open the Zarr store at an address of a service, without reading its arrays."""
    from halocline_engine.datasets.storing.opening import open_zarr

    store = ResultStore(Connection(settings), url)
    return open_zarr(store, consolidated=True, zarr_format=3)


class ResultStore(Store):
    """Read-only Zarr store of the objects below an address of a service.

    A pickled store holds the address; when it is loaded, the key is taken from the environment or
    the settings file.
    """

    def __init__(self, connection: Connection, url: str) -> None:
        super().__init__(read_only=True)
        self._connection, self._url = self._closing(connection), url.rstrip("/")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResultStore) and other._url == self._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __str__(self) -> str:
        return self._url

    def __reduce__(self) -> tuple[object, ...]:
        return (_attach, (self._connection.settings.url, self._url))

    @property
    def supports_writes(self) -> bool:
        """Whether objects can be written."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """Whether objects can be deleted."""
        return False

    @property
    def supports_partial_writes(self) -> Literal[False]:
        """Whether parts of objects can be written."""
        return False

    @property
    def supports_listing(self) -> bool:
        """Whether objects can be listed."""
        return False

    def close(self) -> None:
        """Close the connections; they are reopened when something is read."""
        self._connection.close()
        self._connection = self._closing(Connection(self._connection.settings))
        super().close()

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return an object or a part of it, None if it does not exist."""
        content = await asyncio.to_thread(self._content, key, byte_range)
        return None if content is None else prototype.buffer.from_bytes(content)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return parts of objects."""
        parts = (self.get(key, prototype, part) for key, part in key_ranges)
        return await asyncio.gather(*parts)

    async def exists(self, key: str) -> bool:
        """Return whether an object exists."""
        return await asyncio.to_thread(self._has, key)

    async def set(self, key: str, value: Buffer) -> NoReturn:  # noqa: ARG002 - of a store
        """Refuse: a result is never written."""
        raise self._unchanged()

    async def delete(self, key: str) -> NoReturn:  # noqa: ARG002 - of a store
        """Refuse: a result is never written."""
        raise self._unchanged()

    def list(self) -> AsyncIterator[str]:
        """Refuse: the metadata say what there is."""
        raise NotImplementedError

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Refuse: the metadata say what there is."""
        raise NotImplementedError

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Refuse: the metadata say what there is."""
        raise NotImplementedError

    def _closing(self, connection: Connection) -> Connection:
        """Return the connection, to be closed when this store is garbage-collected."""
        weakref.finalize(self, connection.close)
        return connection

    def _unchanged(self) -> NotImplementedError:
        return NotImplementedError(f"The result at '{self._url}' cannot be changed.")

    def _content(self, key: str, part: ByteRequest | None) -> bytes | None:
        headers = {} if part is None else {"Range": f"bytes={_range(part)}"}
        try:
            answer = self._connection.send("GET", f"{self._url}/{key}", headers=headers)
        except NotFoundError as error:
            raise_if_gone(error)
            return None
        return check_content(answer, key) if part is None else answer.content

    def _has(self, key: str) -> bool:
        try:
            self._connection.send("HEAD", f"{self._url}/{key}")
        except NotFoundError as error:
            raise_if_gone(error)
            return False
        return True


def _range(part: ByteRequest) -> str:
    """Return a part in the notation of HTTP.

    >>> _range(RangeByteRequest(2, 5)), _range(OffsetByteRequest(7)), _range(SuffixByteRequest(3))
    ('2-4', '7-', '-3')
    """
    match part:
        case RangeByteRequest(start, end):
            return f"{start}-{end - 1}"
        case OffsetByteRequest(offset):
            return f"{offset}-"
        case SuffixByteRequest(suffix):
            return f"-{suffix}"


def _attach(url: str, address: str) -> ResultStore:
    """Return an unpickled store."""
    return ResultStore(Connection(load(url)), address)
