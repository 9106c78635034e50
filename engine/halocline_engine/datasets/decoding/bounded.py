"""Zarr's pipeline of codecs, with a bound for each chunk that is decoded.

It is the one that Zarr has, for both formats and within shards, and looks at the bytes before each
codec that decompresses: see `bounds`.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from zarr.registry import register_pipeline

from halocline_engine.datasets.decoding.bounds import decoded
from halocline_engine.datasets.untyped import (
    CODEC_PIPELINE,
    SHARDING,
    V2_CODEC,
    ZARR,
)

__all__ = ["BoundedPipeline", "bounded_decoding"]

_PIPELINE = "codec_pipeline.path"
_SLACK = 2**20
#: Bytes of text that one chunk may hold: its length is in the chunk alone.
_MOST_TEXT = 2**28
_TEXTS = "vlen-utf8"
#: What filters may make of a number in between: one byte may have been eight.
_FILTERED = 8
_opening = threading.Lock()


@contextmanager
def bounded_decoding() -> Generator[None]:
    """Let arrays of Zarr that are opened inside decode within bounds, as long as they live."""
    with _opening:  # the configuration is one for the process
        register_pipeline(BoundedPipeline)
        name = f"{BoundedPipeline.__module__}.{BoundedPipeline.__qualname__}"
        with ZARR.config.set({_PIPELINE: name}):
            yield


class BoundedPipeline(CODEC_PIPELINE):
    """Decodes chunks to the size that their array declares, and no further."""

    @classmethod
    def from_codecs(cls, codecs: Iterable[Any], *, batch_size: int | None = None) -> Self:
        """Make one of codecs."""
        made: Any = CODEC_PIPELINE.from_codecs.__func__
        return made(cls, tuple(map(_bounded, codecs)), batch_size=batch_size)

    async def decode_batch(self, chunk_bytes_and_specs: Iterable[tuple[Any, Any]]) -> Any:
        """Decode chunks. Raises `Corrupt` where one would be larger than it is declared."""
        pairs = list(chunk_bytes_and_specs)
        batch = [data for data, _ in pairs]
        resolved: Any = self._codecs_with_resolved_metadata_batched([spec for _, spec in pairs])
        arrays, (last, specs), packed = resolved
        for left, (codec, stage_specs) in zip(range(len(packed))[::-1], packed[::-1], strict=True):
            exact = left == 0 and _name(last) == "bytes"
            most = [_most(spec, exact=exact) for spec in specs]
            batch = await _device_decoding(codec, list(zip(batch, stage_specs, most, strict=True)))
        if _name(last) == _TEXTS:
            for data in batch:
                if data is not None:
                    decoded(_TEXTS, _bytes_of(data.as_numpy_array()), _MOST_TEXT)
        batch = await last.decode(zip(batch, specs, strict=True))
        for codec, stage_specs in arrays[::-1]:
            batch = await codec.decode(zip(batch, stage_specs, strict=True))
        return batch


async def _device_decoding(codec: Any, chunks: list[tuple[Any, Any, int]]) -> list[Any]:
    """Undo one codec of bytes."""
    name = _name(codec)
    ready: dict[int, Any] = {}
    for at, (data, spec, most) in enumerate(chunks):
        if data is not None:
            found = await asyncio.to_thread(decoded, name, _bytes_of(data.as_numpy_array()), most)
            if found is not None:
                ready[at] = spec.prototype.buffer.from_bytes(found)
    asked = [(None if at in ready else data, spec) for at, (data, spec, _) in enumerate(chunks)]
    others = await codec.decode(asked)
    return [ready.get(at, other) for at, other in enumerate(others)]


def _bounded(codec: Any) -> Any:
    """Give a codec that decodes within bounds what it has inside."""
    if type(codec) is V2_CODEC:
        return _BoundedV2(filters=codec.filters, compressor=codec.compressor)
    if type(codec) is SHARDING:
        return _BoundedShards(
            chunk_shape=codec.chunk_shape,
            codecs=codec.codecs,
            index_codecs=codec.index_codecs,
            index_location=codec.index_location,
        )
    return codec


class _BoundedShards(SHARDING):
    """A shard whose chunks are decoded within bounds."""

    @property
    def codec_pipeline(self) -> Any:
        """Decoder of chunks."""
        return BoundedPipeline.from_codecs(self.codecs)


class _BoundedV2(V2_CODEC):
    """The codecs of Zarr's second format."""

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        most = _most(chunk_spec, exact=not self.filters)
        compressor = self.compressor and _BoundedCodec(self.compressor, most)
        wider = _most(chunk_spec, exact=False)
        filters = self.filters and tuple(_BoundedCodec(each, wider) for each in self.filters)
        plain = V2_CODEC(filters=filters, compressor=compressor)
        (values,) = await plain.decode([(chunk_bytes, chunk_spec)])
        return values


@dataclass(frozen=True, slots=True)
class _BoundedCodec:
    """A codec of numcodecs whose output has a bound."""

    codec: Any
    most: int

    def decode(self, packed: Any) -> Any:
        found = decoded(self.codec.codec_id, _bytes_of(np.asarray(packed)), self.most)
        return self.codec.decode(packed) if found is None else found


def _name(codec: Any) -> str:
    return str(codec.to_dict().get("name", "")).removeprefix("numcodecs.")


def _most(spec: Any, *, exact: bool) -> int:
    """Give the bytes that a chunk has decoded, or may have in between."""
    dtype = spec.dtype.to_native_dtype()
    if dtype.hasobject or dtype.kind == "T":
        return _MOST_TEXT
    size = math.prod(spec.shape) * int(dtype.itemsize)
    return size if exact else size * _FILTERED + _SLACK


def _bytes_of(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.frombuffer(np.ascontiguousarray(values).data.cast("B"), np.uint8)
