"""Systems whose rows stay in the memory of several ranks: the bits of the streamed mode."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
import xarray as xr
from emulation.machine import ABSENT, EmulatedMachine, compiler
from hypothesis import given, settings
from hypothesis import strategies as st

import halocline_engine as he
from halocline_engine.backends.targets import TARGETS
from halocline_engine.distribute.communicators.base import RankLostError
from halocline_engine.distribute.communicators.local import LocalCommunicator
from halocline_engine.distribute.exchanges.transport import PEER_MEMORY
from halocline_engine.distribute.executors import select as executors
from halocline_engine.distribute.executors.dask import start
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.solves import (
    ends,
    partitioned,
    ranks,
    request,
    resident,
    select,
)
from halocline_engine.distribute.tasks.events import Event, Finished, PassFinished
from halocline_engine.functions.reports.planning import plan_of
from halocline_engine.kernels.machine import Library
from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal

LINALG: Any = import_module("scipy.linalg")
NAMES: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d", "dim": "z"}
SIZE = 8


@contextlib.contextmanager
def pieces_of(size: int) -> Generator[None]:
    with patch.object(partitioned, "PIECE", size), patch.object(request, "PIECE", size):
        yield


def columns(dtype: str = "float64", seed: int = 3, **sizes: int) -> xr.Dataset:
    """Return systems with a dominant diagonal of either sign."""
    rng = np.random.default_rng(seed)
    dims, shape = tuple(sizes), tuple(sizes.values())
    values = {name: rng.normal(size=shape).astype(dtype) for name in "acd"}
    diagonal = 1 + abs(values["a"]) + abs(values["c"])
    values["b"] = (diagonal * rng.choice([-1, 1], shape)).astype(dtype)
    return xr.Dataset({name: (dims, array) for name, array in values.items()})


def solved(dataset: Any, workers: int = 1, **options: Any) -> xr.Dataset:
    """Solve on so many ranks, which are threads of this process."""
    arguments: dict[str, Any] = {**NAMES, "target": "cpu", "mode": "resident", **options}
    with patch.object(executors, "local_pool", return_value=LocalPool(workers=workers)):
        return he.tridiagonal(dataset, **arguments)


def same(one: xr.Dataset, other: xr.Dataset) -> bool:
    return all(
        one[name].transpose(*other[name].dims).values.tobytes() == other[name].values.tobytes()
        for name in other.data_vars
    )


def by_scipy(dataset: xr.Dataset) -> Any:
    """Return the solution in float64, indexed as the right-hand side with rows last."""
    untyped: Any = dataset
    whole = untyped.astype("float64").transpose(..., "z")
    lower, diagonal, upper, rhs = (
        whole[name].values.reshape(-1, dataset.sizes["z"]) for name in "abcd"
    )
    found = np.empty_like(rhs)
    for system in range(len(rhs)):
        band = np.zeros((3, rhs.shape[1]))
        band[0, 1:], band[1] = upper[system, :-1], diagonal[system]
        band[2, :-1] = lower[system, 1:]
        found[system] = LINALG.solve_banded((1, 1), band, rhs[system])
    return found.reshape(whole["d"].shape)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(2 * SIZE, 150),
    batch=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    order=st.permutations(["t", "z", "x"]),
    dtype=st.sampled_from(["float32", "float64"]),
    chunk=st.sampled_from([None, 1, 20, 56]),
    seed=st.integers(0, 1000),
)
def test_any_number_of_ranks_gives_the_bits_of_streamed_blocks(
    rows: int,
    batch: tuple[int, int],
    order: list[str],
    dtype: str,
    chunk: int | None,
    seed: int,
) -> None:
    """There may be fewer pieces than ranks. SciPy agrees as far as the condition allows."""
    sizes = {"t": batch[0], "z": rows, "x": batch[1]}
    dataset = columns(dtype, seed, **{dim: sizes[dim] for dim in order})
    with pieces_of(SIZE):
        whole = solved(dataset, mode="streamed", residual=True)
        chunks = {} if chunk is None else {"z": chunk}
        for workers in range(1, 6):
            found = solved(dataset, workers, residual=True, chunks=chunks)
            assert same(found, whole), workers
    expected = by_scipy(dataset)
    error = abs(whole["solution"].transpose(*[d for d in order if d != "z"], "z") - expected)
    assert float(error.max()) <= (1e-12 if dtype == "float64" else 1e-4) * abs(expected).max()
    assert not whole["solution_status"].values.any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_well_conditioned_systems_that_are_not_dominant(dtype: str) -> None:
    """Random ones with a condition of up to a hundred; pieces are those of real jobs."""
    rng = np.random.default_rng(5)
    rows = 3 * 1024 + 17
    dataset = columns(dtype, z=rows)
    dataset["b"] = ("z", (1.6 + 0.3 * rng.normal(size=rows)).astype(dtype))
    for name in "ac":
        dataset[name] = ("z", rng.normal(0.0, 0.6, rows).astype(dtype))
    expected = by_scipy(dataset)
    found = solved(dataset, 2, residual=True)
    assert int(found["solution_status"]) & 2, "these are dominant"
    unit = float(np.finfo(dtype).eps)
    assert float(found["solution_residual"]) < 100 * unit
    assert abs(found["solution"] - expected).max() < 1e5 * unit * abs(expected).max()
    assert same(found, solved(dataset, residual=True, mode="streamed", chunks={"z": 1024}))


def test_periodic_systems_bands_without_dimensions_and_bad_values() -> None:
    dataset = columns(t=2, z=70, x=4)
    one = dataset.isel(t=0, x=0, drop=True)
    dataset = dataset.assign({name: one[name] for name in "abc"})
    dataset["d"][1, 3, 2] = np.nan
    dataset["d"][0, 16, 0] = np.inf
    with pieces_of(SIZE):
        for periodic in (False, True):
            whole = solved(dataset, mode="streamed", periodic=periodic)
            assert np.count_nonzero(whole["solution_status"]) == 2
            for workers in (1, 3):
                assert same(solved(dataset, workers, periodic=periodic), whole)
        empty = solved(dataset.isel(x=slice(0, 0)), 2)
        assert empty["solution"].shape == (2, 70, 0)


def test_rows_are_read_once_and_six_numbers_of_each_piece_are_sent(tmp_path: Path) -> None:
    """A store whose chunks do not fit the pieces; the result has no chunk of two ranks."""
    dataset = columns(z=103, x=6)
    untyped: Any = dataset
    untyped.chunk({"z": 13, "x": 4}).to_zarr(tmp_path / "in", zarr_format=3, consolidated=False)
    sent: list[int] = []
    plain = LocalCommunicator.send

    def send(self: LocalCommunicator, to: int, tag: Any, values: Any) -> None:
        if tag[0] == "ends":
            sent.append(values.size)
        plain(self, to, tag, values)

    events: list[Event] = []
    with pieces_of(SIZE):
        whole = solved(dataset, mode="streamed")
        with patch.object(LocalCommunicator, "send", send):
            found = solved(tmp_path / "in", 3, output=tmp_path / "out", on_event=events.append)
    assert same(found, whole)
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.bytes_read == sum(int(dataset[name].nbytes) for name in "abcd")
    assert sum(sent) == 2 * 6 * (103 // SIZE) * 6
    passed = [event for event in events if isinstance(event, PassFinished)]
    assert [event.progress for event in passed] == [0.25, 0.5, 0.75, 1.0]
    assert passed[-1].steps_done == 1


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the target 'cuda' be the emulated machine, and pieces be small."""
    if compiler() is None:
        pytest.skip(ABSENT)
    machine = EmulatedMachine(tmp_path)
    library = Library(machine)

    def solver(_: str, *, contiguous: bool) -> Any:
        return CudaTridiagonal(machine, library, 227 * 1024, contiguous=contiguous)

    monkeypatch.setattr(select, "tridiagonal_solver", solver)
    for module in (ranks, partitioned):
        name = "own_stream" if module is ranks else "PIECE"
        monkeypatch.setattr(module, name, contextlib.nullcontext if module is ranks else SIZE)
    monkeypatch.setattr(request, "PIECE", SIZE)
    monkeypatch.setattr("halocline_engine.distribute.solves.banded.tridiagonal_solver", solver)
    monkeypatch.setattr("halocline_engine.functions.execution.resolve", str)
    monkeypatch.setattr(LocalPool, "device_memory", Mock(return_value=10**9))


@pytest.mark.usefixtures("device")
def test_a_device_keeps_pieces_of_as_many_rows() -> None:
    """By the emulated kernels: contiguous and interleaved systems, with a longer last piece."""
    for dataset in (columns(t=3, z=45), columns(z=45, t=3)):
        for residual in (False, True):
            options: dict[str, Any] = {"target": "cuda", "residual": residual}
            whole = solved(dataset, mode="streamed", chunks={"z": 16}, **options)
            for workers in (1, 3):
                assert same(solved(dataset, workers, **options), whole)


class Reached:
    """What `peers.PeerMemory` is to a rank, by messages; `done` is what all ranks did."""

    def __init__(self, communicator: Any, done: list[str]) -> None:
        self.communicator, self.done, self.number = communicator, done, 0

    def exchange(self, sent: Any, received: Any) -> Callable[[], None]:
        def act() -> None:
            self.number += 1
            self.done.append("exchange")
            for rank, views in sent.items():
                for at, view in enumerate(views):
                    self.communicator.send(rank, (f"peer{at}", self.number), view.copy())
            for rank, views in received.items():
                for at, view in enumerate(views):
                    view[...] = self.communicator.receive(rank, (f"peer{at}", self.number))

        return act

    def check(self) -> None:
        self.done.append("check")

    def end(self) -> None:
        self.done.append("end")

    def close(self) -> None:
        self.done.append("close")


@pytest.mark.usefixtures("device")
def test_devices_store_equations_into_each_others_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank exchanges once before, and once between the ends of its pieces."""
    done: list[str] = []
    sizes: list[tuple[dict[int, int], dict[int, int]]] = []

    def connect(communicator: Any, sent: Any, received: Any, itemsize: int) -> Reached:
        assert itemsize == 8
        sizes.append((dict(sent), dict(received)))
        return Reached(communicator, done)

    dataset = columns(t=3, z=45)
    whole = solved(dataset, mode="streamed", target="cuda")
    monkeypatch.setattr(ends, "connect", connect)
    monkeypatch.setattr(resident, "transport_of", Mock(return_value=PEER_MEMORY))
    assert same(solved(dataset, 2, target="cuda"), whole)
    assert sorted(done) == ["check"] * 4 + ["close"] * 2 + ["end"] * 2 + ["exchange"] * 4
    # Six numbers of 8 bytes for each piece of 3 systems, of which there are five.
    assert sorted(sum(sent.values()) for sent, _ in sizes) == [2 * 144, 3 * 144]
    done.clear()
    monkeypatch.setattr(ends, "connect", Mock(return_value=None))
    assert same(solved(dataset, 2, target="cuda"), whole)


def test_the_plan_says_the_mode_and_why(two_workers: Any) -> None:
    dataset = columns(z=5000)

    def planned(**options: Any) -> Any:
        arguments: dict[str, Any] = {**NAMES, "target": "cpu", **options}
        return plan_of(he.tridiagonal, dataset, **arguments)

    plan = planned(cluster=two_workers)
    assert (plan.mode, plan.blocks, plan.passes, plan.transport) == ("resident", 2, 4, "messages")
    assert plan.reason.startswith("rows that are read once and fit the memory of 2 workers: ")
    assert plan.reason.endswith(" bytes each")
    assert planned().mode == "streamed"
    assert planned(cluster=two_workers, mode="streamed").mode == "streamed"
    whole = plan_of(he.tridiagonal, columns(z=5000, x=9), **NAMES, cluster=two_workers)
    assert whole.mode == "streamed"
    dataset, small = columns(z=100_000), he.Options(memory_limit=1_000_000)
    plan = planned(cluster=two_workers, options=small)
    assert plan.mode == "streamed"
    assert "; the rows do not fit the memory of 2 workers: " in plan.reason
    with pytest.raises(he.CapacityError) as caught:
        planned(cluster=two_workers, options=small, mode="resident")
    assert str(caught.value).endswith(
        " of 1000000 bytes each. Use more workers, or mode='streamed'."
    )


def test_cancelling_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain: Callable[..., Any] = ends.solve_ends

    def later(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.5)  # otherwise ranks may be done before one asks
        return plain(*arguments, **options)

    monkeypatch.setattr(ends, "solve_ends", later)
    told: list[Event] = []
    with pieces_of(SIZE), pytest.raises(he.CancelledError):
        solved(
            columns(z=80, x=4),
            3,
            output=tmp_path / "out.zarr",
            on_event=told.append,
            cancelled=lambda: any(isinstance(event, PassFinished) for event in told),
        )
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_one_rank_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(ends, "solve_ends", broken)
    with pieces_of(SIZE), pytest.raises(MemoryError, match="no room"):
        solved(columns(z=80), 3)


def test_ranks_that_are_lost_again_and_again_end_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halocline_engine.distribute.jobs.losses._AGAIN", 0.0)

    def lost(*_: Any) -> Iterator[Event]:
        raise RankLostError("Rank 1 is gone.")
        yield

    patched = patch.object(LocalPool, "run_ranks", lost)
    with pieces_of(SIZE), patched, pytest.raises(he.ClusterError) as caught:
        solved(columns(z=80), 3)
    assert str(caught.value) == (
        "Workers were lost 4 times before all rows were solved: Rank 1 is gone. They may lack"
        " memory: use more workers, or mode='streamed'."
    )


def slowly() -> Callable[[], None]:
    """Return what lets a worker wait before it solves for the ends; it travels by value."""

    def slow() -> None:
        import time

        from halocline_engine.distribute.solves import ends as there

        plain = there.solve_ends

        def later(*arguments: Any, **options: Any) -> Any:
            time.sleep(2.0)
            return plain(*arguments, **options)

        there.solve_ends = later

    return slow


def test_a_killed_worker_costs_an_attempt(tmp_path: Path) -> None:
    """The rows are solved again on the worker that is left, with the same bits."""
    dataset = columns(z=40_000)
    whole = solved(dataset, mode="streamed")
    with start(2, "cpu") as pool:
        pids = pool.client.run(os.getpid)
        pool.client.run(slowly())
        struck: list[int] = []
        events: list[Event] = []

        def strike(event: Event) -> None:
            events.append(event)
            if isinstance(event, PassFinished) and not struck:
                struck.append(pids[max(pids)])
                os.kill(struck[0], signal.SIGKILL)

        found = he.tridiagonal(
            dataset,
            **NAMES,
            target="cpu",
            cluster=pool.client,
            output=tmp_path / "out.zarr",
            on_event=strike,
        )
    assert struck
    assert [e.pass_index for e in events if isinstance(e, PassFinished)] == [0, 0, 1, 2, 3]
    assert same(found, whole)


def test_long_rows_stay_on_a_device_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores of this process solve one block while another one is read."""
    dataset = columns(z=60_000, x=3)
    monkeypatch.setattr(partitioned, "LARGE_TASK", 1)
    on_cores = plan_of(he.tridiagonal, dataset, **NAMES, target="cpu")
    assert (on_cores.mode, on_cores.passes) == ("streamed", 4)
    monkeypatch.setattr(LocalPool, "device_memory", lambda _pool, _target: 1 << 30)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    cores = TARGETS["cpu"]
    object.__setattr__(cores, "on_device", True)
    try:
        on_device = plan_of(he.tridiagonal, dataset, **NAMES, target="cpu")
        monkeypatch.setattr(LocalPool, "device_memory", lambda _pool, _target: 1 << 20)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
        too_small = plan_of(he.tridiagonal, dataset, **NAMES, target="cpu")
    finally:
        object.__setattr__(cores, "on_device", False)
    assert (on_device.mode, on_device.workers) == ("resident", 1)
    assert too_small.mode == "streamed"
    assert "; the rows do not fit the memory of one worker: " in too_small.reason


def test_long_rows_stay_on_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes from store to store would read them twice."""
    monkeypatch.setattr(partitioned, "LARGE_TASK", 1)
    with start(1, "cpu") as pool:
        planned = plan_of(he.tridiagonal, columns(z=60_000, x=3), **NAMES, cluster=pool.client)
    assert planned.mode == "resident"
