"""Read and write Zarr arrays through Halocline's chunk files and through libraries; prints a table.

    python tests/benchmarks/zarr_readers.py RESULT.json --commit COMMIT [--gib 2] [--threads 16]
        [--folder FOLDER] [--rounds 3]

An array of float32 in a folder, by default in memory, is read block by block into an array whose
pages were touched before, and written to a new store. Peers have as many threads: `zarr` by its
settings, `zarrs` as its codec pipeline, `tensorstore` for copies and for files. Rates are those of
plain bytes, the best of some rounds that take turns. Values read are compared whole.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.chunk_files.packed import packed_array
from halocline_engine.datasets.chunk_files.raw import raw_array

#: The library's types are unknown in part.
ZARR: Any = importlib.import_module("zarr")
CODECS: Any = importlib.import_module("zarr.codecs")
GIB = 1 << 30
#: Elements of a row, bytes of a block.
WIDTH = 16384
BLOCK = 256 << 20

Values: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Figure:
    """Plain gigabytes a second of one reader or writer; 0 where it cannot do it."""

    codec: str
    chunk_mib: float
    way: str
    read: float
    write: float


def main() -> None:
    """Measure all stores by all ways."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="not said")
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows = int(arguments.gib * GIB) // (4 * WIDTH)
    values = smooth(rows)
    figures: list[Figure] = []
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as folder,
        ThreadPoolExecutor(arguments.threads) as executor,
    ):
        for codec in ("raw", "zstd", "blosc"):
            for mib in (1, 16):
                figures += store(Path(folder), codec, mib, values, executor, arguments)
    print(f"{'codec':8}{'MiB':>5} {'way':14}{'read GB/s':>11}{'write GB/s':>11}")
    for one in figures:
        print(f"{one.codec:8}{one.chunk_mib:5g} {one.way:14}{one.read:11.2f}{one.write:11.2f}")
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": arguments.commit,
        "machine": platform.processor() or platform.machine(),
        "threads": arguments.threads,
        "gib": arguments.gib,
        "figures": [asdict(one) for one in figures],
    }
    arguments.result.write_text(json.dumps(found, indent=1) + "\n")


def smooth(rows: int) -> Values:
    """Make values that compress as fields of models do."""
    i = np.arange(rows, dtype=np.float32)[:, np.newaxis]
    j = np.arange(WIDTH, dtype=np.float32)
    values = np.sin(i / 300) * np.cos(j / 500)
    noise = np.random.default_rng(1).normal(size=(64, WIDTH)).astype(np.float32)
    for first in range(0, rows, 64):
        values[first : first + 64] += 0.001 * noise[: rows - first]
    return values


def store(
    folder: Path, codec: str, mib: int, values: Values, executor: Executor, arguments: Any
) -> list[Figure]:
    """Measure all ways for one store."""
    rows = max(1, (mib << 20) // (4 * WIDTH))
    codecs: Any = {
        "raw": None,
        "zstd": CODECS.ZstdCodec(level=0),
        "blosc": CODECS.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"),
    }[codec]

    def created(name: str) -> Path:
        shutil.rmtree(folder / name, ignore_errors=True)
        ZARR.create_array(
            str(folder / name),
            shape=values.shape,
            chunks=(rows, WIDTH),
            dtype="float32",
            compressors=codecs,
            zarr_format=3,
        )
        return folder / name

    place = created("in")
    ZARR.open_array(str(place))[:] = values
    height = max(rows, BLOCK // (4 * WIDTH))
    into = np.zeros_like(values)
    spans = [slice(at, min(at + height, len(values))) for at in range(0, len(values), height)]
    best: dict[str, list[float]] = {}
    ways = readers(folder, codec, executor, arguments.threads)
    for _ in range(arguments.rounds):
        for way, (read, write) in ways.items():
            into[:] = np.nan
            taken = best.setdefault(way, [np.inf, np.inf])
            taken[0] = min(taken[0], timed(lambda read=read: read(place, spans, into)))
            if not np.array_equal(into, values):
                raise RuntimeError(f"'{way}' reads other values of a '{codec}' store.")
            if write is not None:
                target = created("out")
                taken[1] = min(taken[1], timed(lambda w=write, t=target: w(t, spans, values)))
    size = values.nbytes / 1e9
    return [
        Figure(codec, rows * WIDTH * 4 / (1 << 20), way, size / read, size / write)
        for way, (read, write) in best.items()
    ]


def timed(work: Callable[[], None]) -> float:
    """Return the seconds that some work takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def readers(
    folder: Path, codec: str, executor: Executor, threads: int
) -> Mapping[str, tuple[Any, Any]]:
    """Return what reads and what writes a store, by its name."""

    def own(path: Path) -> Any:
        kind = raw_array if codec == "raw" else packed_array
        found = kind(str(path.parent), path.name, "<f4") or kind(
            str(path.parent), path.name, "float32"
        )
        assert found is not None
        return found

    def own_read(path: Path, spans: list[slice], into: Values) -> None:
        array = own(path)
        for span in spans:
            assert array.read_into((span, slice(0, WIDTH)), into[span], executor)

    def own_write(path: Path, spans: list[slice], values: Values) -> None:
        array = own(path)
        for span in spans:
            assert array.write((span, slice(0, WIDTH)), values[span], executor)

    def by_zarr(pipeline: str) -> tuple[Any, Any]:
        settings = {
            "codec_pipeline.path": pipeline,
            "threading.max_workers": threads,
            "async.concurrency": threads,
        }

        def read(path: Path, spans: list[slice], into: Values) -> None:
            with ZARR.config.set(settings):
                array: Any = ZARR.open_array(str(path), mode="r")
                for span in spans:
                    into[span] = array[span]

        def write(path: Path, spans: list[slice], values: Values) -> None:
            with ZARR.config.set(settings):
                array: Any = ZARR.open_array(str(path), mode="r+")
                for span in spans:
                    array[span] = values[span]

        return read, write

    ways: dict[str, tuple[Any, Any]] = {
        "halocline": (own_read, None if codec == "blosc" else own_write),
        "zarr": by_zarr("zarr.core.codec_pipeline.BatchedCodecPipeline"),
    }
    try:
        importlib.import_module("zarrs")
        ways["zarrs"] = by_zarr("zarrs.ZarrsCodecPipeline")
    except ImportError:
        print("zarrs is not installed")
    try:
        ways["tensorstore"] = by_tensorstore(importlib.import_module("tensorstore"), threads)
    except ImportError:
        print("tensorstore is not installed")
    return ways


def by_tensorstore(library: Any, threads: int) -> tuple[Any, Any]:
    """Return what reads and writes through tensorstore."""
    limits = {
        "data_copy_concurrency": {"limit": threads},
        "file_io_concurrency": {"limit": threads},
    }

    def opened(path: Path) -> Any:
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
        return library.open(spec, open=True, context=library.Context(limits)).result()

    def read(path: Path, spans: list[slice], into: Values) -> None:
        array = opened(path)
        for span in spans:
            library.array(into[span]).write(array[span]).result()

    def write(path: Path, spans: list[slice], values: Values) -> None:
        array = opened(path)
        for span in spans:
            array[span].write(values[span]).result()

    return read, write


if __name__ == "__main__":
    main()
