"""Streams of LZ4 that the host would not decode are replaced by empty ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numcodecs  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
from cubin import resources
from emulation.machine import ABSENT, EmulatedMachine, compiler
from kept import device_code
from numpy.typing import NDArray

from halocline_engine.kernels.machine import Library, source_of
from halocline_engine.kernels.unpack import cuda
from halocline_engine.kernels.unpack.cuda import Checking

CODEC = cast(Any, numcodecs).LZ4()


def address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def whole(data: bytes, room: int) -> bool:
    try:
        return len(CODEC.decode(room.to_bytes(4, "little") + data)) == room
    except RuntimeError:
        return False


def values(seed: int) -> NDArray[np.uint8]:
    rng = np.random.default_rng(seed)
    parts = [
        rng.integers(0, 256, rng.integers(0, 400)),
        np.repeat(rng.integers(0, 9, 60), rng.integers(1, 40, 60)),
        np.zeros(rng.integers(0, 3000)),
        rng.integers(0, 256, rng.integers(0, 30)),
    ]
    return np.concatenate(parts).astype(np.uint8)


@pytest.mark.skipif(compiler() is None, reason=ABSENT)
def test_streams_are_whole_where_the_host_decodes_them(emulation_folder: Path) -> None:
    rng = np.random.default_rng(8)
    streams: list[tuple[bytes, int]] = []
    for seed in range(400):
        plain = values(seed % 40)
        data = bytearray(CODEC.encode(plain)[4:])
        for _ in range(seed % 4):
            data[rng.integers(0, len(data))] ^= 1 << int(rng.integers(0, 8))
        cut = len(data) if seed % 5 else int(rng.integers(1, len(data) + 1))
        streams.append((bytes(data[:cut]), plain.size + (seed % 7 == 0)))
    held = [np.frombuffer(data, np.uint8) for data, _ in streams]
    sources = np.array([address(one) for one in held])
    sizes = np.array([one.size for one in held])
    rooms = np.array([room for _, room in streams])
    nothing = np.zeros(1, np.uint8)
    was = sources.copy(), sizes.copy()
    checking = Checking(Library(EmulatedMachine(emulation_folder / "loaded")))
    checking.check_lz4(
        len(streams), address(sources), address(sizes), address(rooms), address(nothing)
    )
    expected = np.array([whole(*stream) for stream in streams])
    assert 100 < expected.sum() < 300
    found = sources == was[0]
    np.testing.assert_array_equal(sources[~found], address(nothing))
    np.testing.assert_array_equal(sizes, np.where(found, was[1], 1))
    # What the host decodes of damaged streams, such as copies of no distance, it may decode.
    assert not np.any(found & ~expected)
    assert np.sum(expected & ~found) < 8
    sound = [n for n in range(400) if n % 4 == 0 and n % 5 and n % 7]
    assert found[sound].all()


def test_it_compiles_for_a_device() -> None:
    source = source_of(Path(cuda.__file__).with_name("lz4.cu"))
    found = resources(device_code(source, "sm_90"))
    assert found["check_lz4"].registers <= 64
