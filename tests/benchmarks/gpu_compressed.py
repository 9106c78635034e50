"""Time a stencil over compressed Zarr stores: decoded by the cores, or by nvCOMP on the device.

    python tests/benchmarks/gpu_compressed.py RESULT.json --commit COMMIT [--seconds 60] [--gib 2]
        [--folder FOLDER] [--target cuda]

A five-point stencil in float32 goes once over a store that lies in memory, whose values are smooth
with some noise: the seconds of all stages together, for results that are plain numbers and for
compressed ones. All ways have the same bits, which is checked around the middle.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

import numcodecs  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import zarr
from gpu_arrays import FIVE, GIB
from numpy.typing import NDArray

from halocline_engine.datasets.chunk_files.packed import PackedArray, packed_array
from halocline_engine.datasets.stores.chunks import Chunk
from halocline_engine.distribute.tasks.events import Event, Finished
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.run import run

WIDTH, ROWS = 32768, 1024
CODECS, ZARR = cast(Any, numcodecs), cast(Any, zarr)
SHUFFLED = CODECS.Blosc("lz4", 5, CODECS.Blosc.SHUFFLE)
#: Name, format of Zarr, codec, rows and columns of a chunk, and whether the result is compressed.
_Case: TypeAlias = tuple[str, int, Any, tuple[int, int], bool]
CASES: tuple[_Case, ...] = (
    ("blosc-lz4", 2, SHUFFLED, (256, 4096), False),
    ("zstd", 3, CODECS.Zstd(0), (256, 1024), False),
    ("blosc-lz4", 2, SHUFFLED, (256, 1024), False),
    ("zstd", 3, CODECS.Zstd(0), (256, 4096), False),
    ("blosc-lz4", 2, SHUFFLED, (256, 4096), True),
)


@dataclass(frozen=True)
class Figure:
    """A run; times in seconds, sizes in bytes."""

    codec: str
    chunk: int
    ratio: float
    device_decoding: bool
    compressed: bool
    dataset: int
    seconds: float
    fetches: int
    unpacked_bytes: int


def values_of(seed: int, rows: int) -> NDArray[np.float32]:
    """Return some rows: temperatures with fronts, waves and noise."""
    rng = np.random.default_rng(seed)
    down = np.arange(rows, dtype=np.float32)[:, np.newaxis]
    across = np.arange(WIDTH, dtype=np.float32)[np.newaxis]
    smooth = 280 + 15 * np.sin(across * 1e-3 + seed) + 3 * np.sin(down * 0.0371)
    noise = 0.05 * rng.standard_normal((rows, WIDTH), dtype=np.float32)
    return (smooth + noise).astype(np.float32)


def packed_store(
    path: Path, case: _Case, rows: int, threads: ThreadPoolExecutor
) -> tuple[PackedArray, float]:
    """Make a store of rows that come again and again; return it, and its ratio."""
    _, format_, codec, chunks, _ = case
    group = ZARR.create_group(str(path), zarr_format=format_)
    options: dict[str, Any] = {"fill_value": np.nan, "compressors": codec}
    if format_ == 3:
        options = {"dimension_names": ("y", "x")}
    made = group.create_array("u", shape=(rows, WIDTH), chunks=chunks, dtype="float32", **options)
    if format_ == 2:
        made.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    array = packed_array(str(path), "u", "float32")
    assert array is not None
    base = np.concatenate(list(threads.map(values_of, range(4), [256] * 4)))
    several = base.shape[0] // chunks[0]

    def fill(place: tuple[int, int]) -> int:
        row, column = place
        down = slice(row * chunks[0], (row + 1) * chunks[0])
        across = slice(column * chunks[1], (column + 1) * chunks[1])
        data = bytes(codec.encode(np.ascontiguousarray(base[down, across])))
        copies = range(row, rows // chunks[0], several)
        for copy in copies:
            file = array.file(Chunk(array.stored, (copy, column)))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        return len(data) * len(copies)

    places = [(row, column) for row in range(several) for column in range(WIDTH // chunks[1])]
    size = sum(threads.map(fill, places))
    return array, rows * WIDTH * 4 / size


def measured(
    array: PackedArray, folder: Path, target: str, *, device_decoding: bool, compressed: bool
) -> tuple[Finished, NDArray[np.float32]]:
    """Run once to compile and to make pages, and once more; return the second run and some rows."""
    output = folder / "out.zarr"
    events: list[Event] = []
    for _ in range(2):
        events.clear()
        shutil.rmtree(output, ignore_errors=True)
        run(
            FIVE,
            array.path.parent,
            scalars={"w": 0.2},
            boundary={"x": "periodic", "y": "edge"},
            chunks={"y": ROWS, "x": WIDTH},
            target=target,
            output=output,
            on_event=events.append,
            options=Options(
                pipeline_depth=3, compressed=compressed, device_decoding=device_decoding
            ),
        )
    middle = array.stored.sizes[0] // 2
    rows = np.asarray(ZARR.open_array(str(output), path="v", mode="r")[middle - 3 : middle + 3])
    last = events[-1]
    assert isinstance(last, Finished)
    return last, rows


def line(figure: Figure) -> str:
    """Return a row of the table."""
    rate = figure.dataset / figure.seconds / 1e9
    way = "nvCOMP" if figure.unpacked_bytes else "cores"
    result = "zstd" if figure.compressed else "plain"
    return (
        f"| {figure.codec} | {figure.chunk / 2**20:g} MiB | {figure.ratio:.2f} | {way} | {result} |"
        f" {figure.seconds:.3f} | {rate:.1f} | {figure.fetches} |"
    )


def figures(rows: int, folder: Path, target: str, end: float) -> Iterator[Figure]:
    """Yield what was measured, until the clock says `end`."""
    with ThreadPoolExecutor() as threads:
        for number, case in enumerate(CASES):
            if time.perf_counter() > end:
                return
            array, ratio = packed_store(folder / f"{number}.zarr", case, rows, threads)
            wanted: NDArray[np.float32] | None = None
            for device_decoding in (False, True):
                last, got = measured(
                    array, folder, target, device_decoding=device_decoding, compressed=case[4]
                )
                wanted = got if wanted is None else wanted
                np.testing.assert_array_equal(got, wanted)
                yield Figure(
                    codec=case[0],
                    chunk=array.chunk_bytes,
                    ratio=ratio,
                    device_decoding=device_decoding,
                    compressed=case[4],
                    dataset=rows * WIDTH * 4,
                    seconds=last.seconds,
                    fetches=last.fetches,
                    unpacked_bytes=last.bytes_direct_io,
                )
            shutil.rmtree(array.path.parent)


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="not said")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--target", default="cuda")
    arguments = parser.parse_args()
    end = time.perf_counter() + arguments.seconds
    rows = int(arguments.gib * GIB) // (4 * WIDTH) // 1024 * 1024
    folder = Path(tempfile.mkdtemp(prefix="compressed-", dir=arguments.folder))
    found: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": arguments.commit,
        "figures": [],
    }
    print("| codec | chunk | ratio | decoded by | result | seconds | GB/s | fetches |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    try:
        for figure in figures(rows, folder, arguments.target, end):
            found["figures"].append(asdict(figure))
            print(line(figure), flush=True)
            arguments.result.write_text(json.dumps(found, indent=1) + "\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
