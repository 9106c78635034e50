"""Which Zarr metadata is let through."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from halocline_engine.errors import DatasetError
from halocline_service.datasets import tree
from halocline_service.datasets.metadata import check_document, parse_document
from halocline_service.datasets.tree import check_tree

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
V3: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4],
    "data_type": "float64",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "codecs": [BYTES],
}
V2: dict[str, Any] = {
    "zarr_format": 2,
    "shape": [4],
    "chunks": [2],
    "dtype": "<f8",
    "compressor": None,
    "filters": None,
}
TEXTS = V2 | {"dtype": "|O", "filters": [{"id": "vlen-utf8"}]}
LARGEST = 2**20


def check(key: str, document: dict[str, Any]) -> None:
    check_document(key, document, largest_chunk=LARGEST)


def sharded(codec: object) -> dict[str, Any]:
    configuration = {"chunk_shape": [1], "codecs": [codec], "index_codecs": [BYTES]}
    return V3 | {"codecs": [{"name": "sharding_indexed", "configuration": configuration}]}


def grid(*chunks: object) -> dict[str, Any]:
    regular = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    return V3 | {"shape": [4] * len(chunks), "chunk_grid": regular}


@pytest.mark.parametrize(
    ("key", "document"),
    [
        ("zarr.json", {"zarr_format": 3, "node_type": "group"}),
        ("a/zarr.json", V3),
        ("a/zarr.json", sharded({"name": "zstd"})),
        ("a/zarr.json", V3 | {"data_type": "string", "codecs": [{"name": "vlen-utf8"}]}),
        (".zgroup", {"zarr_format": 2}),
        ("a/.zarray", V2),
        ("a/.zarray", V2 | {"dtype": "<M8[ns]", "compressor": {"id": "blosc"}}),
        ("a/.zarray", V2 | {"dtype": "|S12", "filters": [{"id": "shuffle"}]}),
        ("a/.zarray", TEXTS),
        ("a/.zarray", TEXTS | {"compressor": {"id": "blosc"}}),
        ("a/.zattrs", {"anything": {"at": "all"}}),
        (".zmetadata", {"metadata": {"a/.zarray": V2, ".zgroup": {}}}),
    ],
)
def test_plain_arrays_are_read(key: str, document: dict[str, Any]) -> None:
    check(key, document)


@pytest.mark.parametrize(
    ("key", "document", "what"),
    [
        (
            "a/zarr.json",
            V3 | {"data_type": "object"},
            "has data type 'object', which is not supported",
        ),
        ("a/zarr.json", V3 | {"data_type": {"name": "r8"}}, "has data type '{'name': 'r8'}'"),
        ("a/zarr.json", V3 | {"codecs": [{"name": "pickle"}]}, "uses codec 'pickle', which is not"),
        ("a/zarr.json", V3 | {"codecs": ["numcodecs.pickle"]}, "uses codec 'numcodecs.pickle'"),
        ("a/zarr.json", sharded({"name": "json2"}), "uses codec 'json2', which is not supported"),
        ("a/zarr.json", V3 | {"codecs": None}, "has no list of codecs"),
        ("a/zarr.json", V3 | {"storage_transformers": ["x"]}, "has storage transformers"),
        ("a/zarr.json", V3 | {"chunk_grid": {"name": "odd"}}, "must have a regular chunk grid"),
        ("a/zarr.json", grid(0), "must have one chunk size above 0 for each dimension"),
        ("a/zarr.json", grid(2**18), "has chunks of 2097152 bytes, but 1048576 are allowed"),
        ("a/zarr.json", grid(-1), "must have whole numbers as 'chunk_shape', got '-1'"),
        ("a/zarr.json", grid(True), "must have whole numbers as 'chunk_shape', got 'True'"),
        ("a/zarr.json", grid(*[1] * 17), "must have a list of at most 16 sizes as 'shape'"),
        ("a/zarr.json", {"zarr_format": 2}, "must be of Zarr format 3"),
        ("a/zarr.json", {"zarr_format": 3, "node_type": "x"}, "must be a group or an array"),
        ("a/.zarray", V2 | {"dtype": "|O"}, "has data type '|O', which is not supported"),
        ("a/.zarray", V2 | {"dtype": [["a", "<f8"]]}, "has data type '[['a', '<f8']]'"),
        ("a/.zarray", V2 | {"filters": [{"id": "pickle"}]}, "uses codec 'pickle', which is not"),
        ("a/.zarray", V2 | {"compressor": {"id": "json2"}}, "uses codec 'json2', which is not"),
        ("a/.zarray", V2 | {"filters": "pickle"}, "has filters that are not a list"),
        ("a/.zarray", TEXTS | {"filters": [{"id": "pickle"}]}, "has data type '|O', which is not"),
        ("a/.zarray", TEXTS | {"filters": [*TEXTS["filters"], "pickle"]}, "has data type '|O'"),
        (
            "a/.zarray",
            TEXTS | {"compressor": {"id": "pickle"}},
            "uses codec 'pickle', which is not",
        ),
        ("a/.zarray", TEXTS | {"dtype": "<f8"}, "uses codec 'vlen-utf8', which is not supported"),
        ("a/.zarray", TEXTS | {"chunks": [2**15]}, "has chunks of 2097152 bytes, but 1048576 are"),
        ("a/.zarray", V2 | {"dtype": "<U99999", "chunks": [100]}, "has chunks of 39999600 bytes"),
        (".zmetadata", {"metadata": {"a/.zarray": V2 | {"dtype": "|O"}}}, "has data type '|O'"),
        (".zmetadata", {"metadata": []}, "has consolidated metadata that is not a JSON object"),
    ],
)
def test_anything_else_is_not(key: str, document: dict[str, Any], what: str) -> None:
    with pytest.raises(DatasetError) as caught:
        check(key, document)
    assert what in caught.value.message
    assert caught.value.message.startswith("Zarr metadata '")


def test_consolidated_metadata_is_checked_too() -> None:
    inner = {"metadata": {"a": V3 | {"codecs": [{"name": "pickle"}]}}}
    group = {"zarr_format": 3, "node_type": "group", "consolidated_metadata": inner}
    with pytest.raises(DatasetError, match=r"'zarr.json#a' uses codec 'pickle'"):
        check("zarr.json", group)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"{", "is not JSON."),
        (b"\xff", "is not JSON."),
        (
            b"[" * 100_000,
            "cannot be read: its lists and objects are nested more than 64 levels deep.",
        ),
        (b"[]", "is not a JSON object."),
        (b" " * (2**24 + 1), "is 16777217 bytes long, but 16777216 are allowed."),
    ],
)
def test_what_is_no_document(data: bytes, what: str) -> None:
    with pytest.raises(DatasetError) as caught:
        parse_document("zarr.json", data)
    assert caught.value.message == f"Zarr metadata 'zarr.json' {what}"


_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted({*V3, *V2})), _JSON, st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_document_raises_anything_else(name: str, value: Any, old: bool) -> None:
    document = (V2 if old else V3) | {name: value}
    with contextlib.suppress(DatasetError):
        check("a/.zarray" if old else "a/zarr.json", document)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_xarray_writes_is_read(tmp_path: Path, zarr_format: int) -> None:
    dataset: Any = xr.Dataset(
        {
            "a": (("time", "x"), np.zeros((2, 3), "float32")),
            "flag": ("x", np.array([True, False, True])),
            "number": ("x", np.arange(3, dtype="uint8")),
            "name": ("x", np.array(["r1i1p1f1", "", "b"], object)),
        },
        coords={"time": np.array(["2000-01-01", "2000-01-02"], "datetime64[ns]")},
    )
    dataset.to_zarr(tmp_path / "a.zarr", zarr_format=zarr_format, consolidated=False)
    found = check_tree(tmp_path / "a.zarr", largest_chunk=LARGEST)
    assert len(found) >= 5


def test_chunks_are_not_looked_into(tmp_path: Path) -> None:
    root = tmp_path / "a.zarr"
    dataset: Any = xr.Dataset({"a": ("x", np.zeros(3))})
    dataset.to_zarr(root, zarr_format=3, consolidated=False)
    (root / "a" / "c" / "zarr.json").write_text("not json")
    assert set(check_tree(root, largest_chunk=LARGEST)) == {"zarr.json", "a/zarr.json"}


def test_values_without_number_are_not_parsed() -> None:
    text = b'{"attributes": {"a": [' + b"[]," * 500_000 + b"[]]}}"
    with pytest.raises(DatasetError, match="has more than 500000 values"):
        parse_document("zarr.json", text)


def test_a_store_has_so_many_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_MOST_DOCUMENTS", 3)
    group = '{"zarr_format": 3, "node_type": "group"}'
    for name in ("", "a", "b"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "zarr.json").write_text(group)
    assert len(check_tree(tmp_path, largest_chunk=LARGEST)) == 3
    monkeypatch.setattr(tree, "_LARGEST_METADATA", 2 * len(group))
    assert len(check_tree(tmp_path, largest_chunk=LARGEST)) == 3
    for name in ("_MOST_DOCUMENTS", "_LARGEST_METADATA"):
        monkeypatch.setattr(tree, name, 1)
        with pytest.raises(DatasetError, match="The Zarr store has more than "):
            check_tree(tmp_path, largest_chunk=LARGEST)
