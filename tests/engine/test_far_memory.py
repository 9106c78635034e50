"""Arrays of another process, read and written where they lie; mostly this process is the other."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halocline_engine import far_memory
from halocline_engine.copies import copy_slabs
from halocline_engine.far_memory import has_at, let_descendants_in, place_of

_SLICES = st.builds(
    slice,
    st.integers(0, 5),
    st.integers(2, 40),
    st.sampled_from([None, 1, 2]),
)


@given(
    key=st.tuples(_SLICES, _SLICES, _SLICES),
    order=st.permutations([0, 1, 2]),
    far_order=st.permutations([0, 1, 2]),
    dtype=st.sampled_from(["int8", "float32", "float64"]),
    out=st.booleans(),
)
def test_any_part_in_any_order_is_copied(
    key: Any, order: list[int], far_order: list[int], dtype: str, out: bool
) -> None:
    whole = np.arange(9 * 7 * 300).reshape(9, 7, 300).astype(dtype).transpose(far_order)
    part = whole[key].transpose(order)
    far = place_of(whole).open()[key].transpose(order)
    assert (far.shape, far.dtype, far.nbytes) == (part.shape, part.dtype, part.nbytes)
    near = np.full(part.shape, 3, dtype)
    if out:
        far.store(near)
        assert (part == 3).all()
        assert (whole == 3).sum() < whole.size or part.size == whole.size
    else:
        far.fetch(near)
        np.testing.assert_array_equal(near, part)


def test_axes_are_dropped_and_added_as_of_an_array() -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    far = place_of(values).open()[(1, slice(None), None, 2)]
    near = np.empty((3, 1))
    far.fetch(near)
    np.testing.assert_array_equal(near, values[1, :, None, 2])
    last = np.empty(())
    place_of(values).open()[(1, 2, 3)].fetch(last)
    assert last == 23.0


def test_long_pieces_and_many_go_in_several_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(far_memory, "_BYTES", 1000)
    monkeypatch.setattr(far_memory, "_PIECES", 3)
    values = np.random.default_rng(1).random((11, 900))
    for key in ((slice(None), slice(None)), (slice(1, 10), slice(5, 40))):
        near = np.empty_like(values[key])
        place_of(values).open()[key].fetch(near)
        np.testing.assert_array_equal(near, values[key])


def test_threads_copy_slabs_to_and_from_elsewhere() -> None:
    values = np.random.default_rng(1).random((300, 1100, 12))
    near = np.empty(values.shape)
    copy_slabs(place_of(values).open(), near, 3)
    np.testing.assert_array_equal(near, values)
    copy_slabs(2.0 * near, place_of(values).open(), 3)
    np.testing.assert_array_equal(values, 2.0 * near)


def test_what_does_not_fit_or_is_gone_is_an_error() -> None:
    far = place_of(np.ones(5)).open()
    with pytest.raises(ValueError, match=r"float64\(4,\) is no float64\(5,\)"):
        far.fetch(np.empty(4))
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(ProcessLookupError):
        replace(far, process=process.pid).fetch(np.empty(5))


CHILD = """
import pickle, sys
import numpy as np
from halocline_engine.far_memory import has_at
secret, expected, place = pickle.loads(bytes.fromhex(sys.argv[1]))
assert has_at(secret, expected)
values = np.empty(place.shape, place.dtype)
place.open().fetch(values)
place.open().store(2.0 * values)
"""


def test_a_process_that_was_started_reads_and_writes_here() -> None:
    let_descendants_in()
    values, secret = np.arange(6.0).reshape(2, 3), np.frombuffer(os.urandom(8), np.uint8)
    told = pickle.dumps((place_of(secret), secret.tobytes(), place_of(values))).hex()
    subprocess.run([sys.executable, "-c", CHILD, told], check=True)
    np.testing.assert_array_equal(values, 2.0 * np.arange(6.0).reshape(2, 3))


def test_a_secret_is_only_found_where_it_is() -> None:
    secret = np.frombuffer(b"0123456789abcdef", np.uint8)
    place = place_of(secret)
    assert has_at(place, secret.tobytes())
    assert not has_at(place, b"0" * 16)
    assert not has_at(replace(place, address=16), secret.tobytes())
