"""How nvCOMP is found and called, with functions of Python in its place."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from halocline_engine.device.decode import codecs
from halocline_engine.device.decode.codecs import NvComp, Table, find_nvcomp
from halocline_engine.errors import DeviceError


def library(status: int = 0) -> tuple[Any, list[tuple[Any, ...]]]:
    calls: list[tuple[Any, ...]] = []

    def function(name: str) -> Any:
        def room(
            count: int, largest: int, options: Any, found: Any, total: int, stream: Any
        ) -> int:
            calls.append((name, count, largest, options.backend, total, stream))
            found._obj.value = 77
            return status

        def decode(*given: Any) -> int:
            calls.append((name, *(one for one in given if not hasattr(one, "backend"))))
            assert hasattr(given[8], "backend")
            return status

        return room if name.endswith("GetTempSize") else decode

    names = [
        f"nvcompBatched{codec}Decompress{what}"
        for codec in ("Zstd", "LZ4")
        for what in ("GetTempSize", "Async")
    ]
    return SimpleNamespace(**{name: function(name) for name in names}), calls


TABLE = Table(count=5, sources=1, sizes=2, rooms=3, made=4, places=6, statuses=7)


def test_functions_get_what_their_declarations_say() -> None:
    made, calls = library()
    found = NvComp(made)
    assert found.room("lz4", 5, 100, 300) == 77
    found.decode("zstd", TABLE, (8, 9), 10)
    assert calls == [
        ("nvcompBatchedLZ4DecompressGetTempSize", 5, 100, 0, 300, None),
        ("nvcompBatchedZstdDecompressAsync", 1, 2, 3, 4, 5, 8, 9, 6, 7, 10),
    ]
    # Options go by value, as large as they are declared.
    assert ctypes.sizeof(made.nvcompBatchedZstdDecompressAsync.argtypes[8]) == 64


def test_what_is_refused_is_said() -> None:
    found = NvComp(library(status=11)[0])
    message = "The library nvCOMP refused to decode 5 streams of 'lz4': 11."
    with pytest.raises(DeviceError) as caught:
        found.room("lz4", 5, 100, 300)
    assert str(caught.value) == message
    with pytest.raises(DeviceError) as caught:
        found.decode("lz4", TABLE, (8, 9), 10)
    assert str(caught.value) == message


def test_without_the_wheel_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(codecs, "_WHEELS", ("halocline-has-no-such-wheel",))
    assert find_nvcomp() is None
    folder = tmp_path / "nvidia/libnvcomp/lib64"
    folder.mkdir(parents=True)
    (folder / "libnvcomp.so.6").write_bytes(b"no library")
    assert find_nvcomp() is None
