"""Allow-list of Zarr metadata: dtypes and codecs, checked before any decoding.

Zarr's codecs are a plug-in interface, and one of them has run code out of a chunk; so only those
are let through that turn bytes into numbers and nothing else. Pure functions over JSON: nothing
here imports Zarr.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from halocline_engine.errors import DatasetError
from halocline_service.datasets.json_text import check_json

__all__ = ["check_document", "check_size", "parse_document"]

_DTYPES_V3 = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)|string")
_NAMED_V3 = {"numpy.datetime64", "numpy.timedelta64", "fixed_length_utf32", "null_terminated_bytes"}
_DTYPES_V2 = re.compile(r"[<>|]([biufc](1|2|4|8|16)|[mM]8\[[0-9]*[a-zA-Z]+\]|[US][0-9]{1,5})")
_CODECS_V3 = {
    "bytes", "transpose", "zstd", "blosc", "gzip", "crc32c", "sharding_indexed", "vlen-utf8",
    "numcodecs.zstd", "numcodecs.blosc", "numcodecs.gzip", "numcodecs.zlib", "numcodecs.lz4",
    "numcodecs.shuffle", "numcodecs.delta", "numcodecs.fixedscaleoffset", "numcodecs.crc32c",
}  # fmt: skip
_CODECS_V2 = {
    "zstd", "blosc", "gzip", "zlib", "lz4", "bz2", "shuffle", "delta", "fixedscaleoffset", "crc32",
}  # fmt: skip
_TEXTS = "vlen-utf8"  # of texts of any length, and of nothing else
_MOST_DIMENSIONS = 16
_LARGEST_DOCUMENT = 16 * 2**20
_MOST_VALUES = 500_000  # of a document; the smallest ones take 30 times their text
_BYTES_OF_STRING = 64
_VALUES = (b",", b"[", b"{")  # one of them stands before each value but the first

_Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _At:
    """Document under check, for messages, and the largest chunk allowed in it."""

    key: str
    largest: int

    def refuse(self, what: str, hint: str = "") -> DatasetError:
        return DatasetError(f"Zarr metadata '{self.key}' {what}.", hint=hint)


def check_size(key: str, size: int) -> None:
    """Raise `DatasetError` where a document has too many bytes to be read."""
    if size > _LARGEST_DOCUMENT:
        what = f"is {size} bytes long, but {_LARGEST_DOCUMENT} are allowed"
        raise _At(key, 0).refuse(what)


def parse_document(key: str, data: bytes) -> dict[str, Any]:
    """Read a metadata document. Raises `DatasetError` where it is not a JSON object."""
    at = _At(key, 0)
    check_size(key, len(data))
    if sum(map(data.count, _VALUES)) > _MOST_VALUES:
        raise at.refuse(f"has more than {_MOST_VALUES} values")
    try:
        check_json(data)
    except ValueError as error:
        raise at.refuse(f"cannot be read: {error}") from error
    try:
        document = json.loads(data)
    except ValueError as error:
        raise at.refuse("is not JSON") from error
    if not isinstance(document, dict):
        raise at.refuse("is not a JSON object")
    return cast("dict[str, Any]", document)


def check_document(key: str, document: _Json, *, largest_chunk: int) -> None:
    """Raise `DatasetError` where a document asks for more than plain arrays of numbers.

    `key` is the store's key; `largest_chunk` is in bytes, decoded.
    """
    at = _At(key, largest_chunk)
    match key.rpartition("/")[2]:
        case "zarr.json":
            _check_v3(at, document)
        case ".zarray":
            _check_array_v2(at, document)
        case ".zmetadata":
            for inner, part in _parts(at, document.get("metadata")):
                check_document(inner, part, largest_chunk=largest_chunk)
        case _:  # .zgroup and .zattrs hold nothing that is acted upon
            pass


def _parts(at: _At, parts: object) -> Iterator[tuple[str, _Json]]:
    if not isinstance(parts, dict):
        raise at.refuse("has consolidated metadata that is not a JSON object")
    for name, part in cast("dict[str, object]", parts).items():
        if not isinstance(part, dict):
            raise at.refuse(f"has consolidated metadata '{name}' that is not a JSON object")
        yield name, cast("_Json", part)


def _check_v3(at: _At, document: _Json) -> None:
    if document.get("zarr_format") != 3:
        raise at.refuse("must be of Zarr format 3")
    if document.get("storage_transformers"):
        raise at.refuse("has storage transformers, which are not supported")
    match document.get("node_type"):
        case "group":
            consolidated = document.get("consolidated_metadata")
            if consolidated is not None:
                if not isinstance(consolidated, dict):
                    raise at.refuse("has consolidated metadata that is not a JSON object")
                metadata = cast("_Json", consolidated).get("metadata")
                for name, part in _parts(at, metadata):
                    _check_v3(_At(f"{at.key}#{name}", at.largest), part)
        case "array":
            _check_array_v3(at, document)
        case other:
            raise at.refuse(f"must be a group or an array, got '{other}'")


def _check_array_v3(at: _At, document: _Json) -> None:
    itemsize = _itemsize_v3(at, document.get("data_type"))
    shape = _sizes(at, "shape", document.get("shape"))
    grid = document.get("chunk_grid")
    if _members(grid).get("name") != "regular":
        raise at.refuse("must have a regular chunk grid")
    sizes = _members(_members(grid).get("configuration")).get("chunk_shape")
    _check_chunks(at, shape, _sizes(at, "chunk_shape", sizes), itemsize)
    _check_codecs_v3(at, document.get("codecs"))


def _itemsize_v3(at: _At, dtype: object) -> int:
    if isinstance(dtype, str) and _DTYPES_V3.fullmatch(dtype):
        bits = re.search(r"[0-9]+$", dtype)
        return int(bits.group()) // 8 if bits else _BYTES_OF_STRING
    if _is_one_of(_members(dtype).get("name"), _NAMED_V3):
        length = _members(_members(dtype).get("configuration")).get("length_bytes")
        return length if isinstance(length, int) and 0 < length < 2**20 else 8
    what = f"has data type '{_short(cast('Any', dtype))}', which is not supported"
    raise at.refuse(what, _DTYPE_HINT)


def _check_codecs_v3(at: _At, codecs: object) -> None:
    if not isinstance(codecs, list):
        raise at.refuse("has no list of codecs")
    for codec in cast("list[object]", codecs):
        fields = cast("_Json", codec) if isinstance(codec, dict) else {"name": codec}
        name = fields.get("name")
        if not _is_one_of(name, _CODECS_V3):
            raise at.refuse(f"uses codec '{_short(name)}', which is not supported", _CODEC_HINT)
        if name == "sharding_indexed":
            inner = _members(fields.get("configuration"))
            _check_codecs_v3(at, inner.get("codecs"))
            _check_codecs_v3(at, inner.get("index_codecs"))


def _check_array_v2(at: _At, document: _Json) -> None:
    if document.get("zarr_format") != 2:
        raise at.refuse("must be of Zarr format 2")
    filters: object = document.get("filters") or []
    if not isinstance(filters, list):
        raise at.refuse("has filters that are not a list")
    names = [_id_of(codec) for codec in cast("list[object]", filters)]
    is_text = document.get("dtype") == "|O" and names == [_TEXTS]
    itemsize = _BYTES_OF_STRING if is_text else _itemsize_v2(at, document.get("dtype"))
    shape = _sizes(at, "shape", document.get("shape"))
    _check_chunks(at, shape, _sizes(at, "chunks", document.get("chunks")), itemsize)
    compressor = document.get("compressor")
    for name in [
        *([] if is_text else names),
        *([] if compressor is None else [_id_of(compressor)]),
    ]:
        if not _is_one_of(name, _CODECS_V2):
            raise at.refuse(f"uses codec '{_short(name)}', which is not supported", _CODEC_HINT)


def _id_of(codec: object) -> object:
    """Give the name of a codec of the second format."""
    return cast("_Json", codec).get("id") if isinstance(codec, dict) else codec


def _itemsize_v2(at: _At, dtype: object) -> int:
    if not isinstance(dtype, str) or not _DTYPES_V2.fullmatch(dtype):
        raise at.refuse(f"has data type '{_short(dtype)}', which is not supported", _DTYPE_HINT)
    length = re.search(r"[0-9]+", dtype)
    return int(length.group()) * (4 if "U" in dtype else 1) if length else 8


def _sizes(at: _At, name: str, sizes: object) -> tuple[int, ...]:
    if not isinstance(sizes, list) or len(cast("list[object]", sizes)) > _MOST_DIMENSIONS:
        raise at.refuse(f"must have a list of at most {_MOST_DIMENSIONS} sizes as '{name}'")
    checked: list[int] = []
    for size in cast("list[object]", sizes):
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**62:
            raise at.refuse(f"must have whole numbers as '{name}', got '{_short(size)}'")
        checked.append(size)
    return tuple(checked)


def _check_chunks(at: _At, shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int) -> None:
    if len(chunks) != len(shape) or 0 in chunks:
        raise at.refuse("must have one chunk size above 0 for each dimension")
    size = math.prod(chunks) * itemsize
    if size > at.largest:
        raise at.refuse(
            f"has chunks of {size} bytes, but {at.largest} are allowed",
            "Store the array in smaller chunks.",
        )


def _members(value: object) -> _Json:
    """Give the members of a JSON object; none where it is something else."""
    return cast("_Json", value) if isinstance(value, dict) else {}


def _is_one_of(name: object, allowed: set[str]) -> bool:
    return isinstance(name, str) and name in allowed


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_DTYPE_HINT = "Booleans, integers, floats, complex numbers, times and text are read."
_CODEC_HINT = "Store it with zstd, blosc, gzip, zlib or lz4, or without compression."
