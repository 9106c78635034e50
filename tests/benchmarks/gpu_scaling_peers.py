"""Weak scaling of other ways to exchange halos, on one GPU and on all; prints lines, writes JSON.

    PYTHONPATH=engine python tests/benchmarks/gpu_scaling_peers.py RESULT.json --commit COMMIT

A 5-point step on 8192 x 8192 float32 points a GPU, periodic, cut along rows, as
`gpu_scaling.py` times it. JAX: `shard_map` with `ppermute`, 100 steps in one `fori_loop`. NCCL: one
process a GPU, a kernel by hand and `batch_isend_irecv` of PyTorch, queued ahead of the device (as a
CUDA graph, four ranks wait for each other for ever in most runs); all one after the other, or rows
at the edges first and exchanged while the others are computed. Dask: `map_overlap` of CuPy arrays,
one worker process a GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from halocline_engine.device.probe import device_count, device_facts
from halocline_engine.distribute.executors.dask import local_gpu_cluster

SIDE = 8192
#: Seconds after which processes that wait for each other are given up.
_LIMIT = 45
STEP = r"""
extern "C" __global__ void step(const float *u, float *v, int nx, int first, int rows) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = first + blockIdx.y;
  if (i >= nx || blockIdx.y >= rows) return;
  const long long at = (long long)j * nx + i;
  const long long west = i ? at - 1 : at + nx - 1, east = i + 1 < nx ? at + 1 : at - nx + 1;
  v[at] = u[at] + 0.1f * (u[east] + u[west] + u[at + nx] + u[at - nx] - 4.0f * u[at]);
}
"""


def imported(name: str) -> Any:
    """Return a module that has no types, or is not everywhere."""
    return import_module(name)


def best_of(times: int, run: Callable[[], Any], steps: int) -> float:
    """Return the seconds of a step of the fastest run."""
    found: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        found.append((time.perf_counter() - began) / steps)
    return min(found)


def with_jax(devices: int) -> float:
    """Return the seconds of a step with `shard_map`."""
    jax, jnp = imported("jax"), imported("jax.numpy")
    sharding = imported("jax.sharding")
    mesh = sharding.Mesh(np.array(jax.devices()[:devices]), ("y",))
    rows = sharding.PartitionSpec("y", None)
    up = [(n, (n + 1) % devices) for n in range(devices)]
    down = [(b, a) for a, b in up]
    steps = 100

    def one(_: int, u: Any) -> Any:
        low = jax.lax.ppermute(u[-1:], "y", up)
        high = jax.lax.ppermute(u[:1], "y", down)
        wide = jnp.concatenate([low, u, high])
        beside = jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) + wide[2:] + wide[:-2]
        return u + 0.1 * (beside - 4.0 * u)

    def many(u: Any) -> Any:
        return jax.lax.fori_loop(0, steps, one, u)

    run = jax.jit(jax.shard_map(many, mesh=mesh, in_specs=rows, out_specs=rows))
    u = jax.device_put(
        np.random.default_rng(1).random((SIDE * devices, SIDE), dtype=np.float32),
        sharding.NamedSharding(mesh, rows),
    )
    jax.block_until_ready(run(u))
    return best_of(3, lambda: jax.block_until_ready(run(u)), steps)


def ring(rank: int, devices: int, port: int, out: Any) -> None:
    """Time the ring of one rank, both ways; the first one reports."""
    cupy, torch, dist = imported("cupy"), imported("torch"), imported("torch.distributed")
    torch.cuda.set_device(rank)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", rank=rank, world_size=devices, device_id=device)
    cupy.cuda.Device(rank).use()
    kernel = cupy.RawKernel(STEP, "step")
    fields = [torch.rand((SIDE + 2, SIDE), device="cuda") for _ in range(2)]
    side = torch.cuda.Stream(priority=-5)

    def step(u: Any, v: Any, first: int, rows: int) -> None:
        with cupy.cuda.Stream.from_external(torch.cuda.current_stream()):
            arguments = (u.data_ptr(), v.data_ptr(), np.int32(SIDE), np.int32(first))
            kernel((SIDE // 256, rows, 1), (256, 1, 1), (*arguments, np.int32(rows)))

    def exchange(v: Any) -> None:
        if devices == 1:
            v[0].copy_(v[SIDE])
            v[SIDE + 1].copy_(v[1])
            return
        before, after = (rank - 1) % devices, (rank + 1) % devices
        several = [
            dist.P2POp(dist.isend, v[SIDE], after),
            dist.P2POp(dist.irecv, v[0], before),
            dist.P2POp(dist.isend, v[1], before),
            dist.P2POp(dist.irecv, v[SIDE + 1], after),
        ]
        for work in dist.batch_isend_irecv(several):
            work.wait()

    def whole(u: Any, v: Any) -> None:
        step(u, v, 1, SIDE)
        exchange(v)

    def overlapped(u: Any, v: Any) -> None:
        current = torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            step(u, v, 1, 1)
            step(u, v, SIDE, 1)
            exchange(v)
        step(u, v, 2, SIDE - 2)
        current.wait_stream(side)

    found: dict[str, float] = {}
    for name, each in (("bulk-synchronous", whole), ("overlapped", overlapped)):
        for _ in range(2):
            each(fields[0], fields[1])
            each(fields[1], fields[0])
        torch.cuda.synchronize()

        def run(each: Callable[[Any, Any], None] = each) -> None:
            for _ in range(100):
                each(fields[0], fields[1])
                each(fields[1], fields[0])
            torch.cuda.synchronize()

        found[name] = best_of(3, run, 200)
    if rank == 0:
        out.put(found)
    dist.destroy_process_group()


def with_nccl(devices: int) -> dict[str, float]:
    """Return the seconds of a step of a ring over NCCL, both ways."""
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port = some.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    several = [context.Process(target=ring, args=(r, devices, port, out)) for r in range(devices)]
    for one in several:
        one.start()
    try:
        found: dict[str, float] = out.get(timeout=_LIMIT)
        for one in several:
            one.join(_LIMIT)
    finally:
        for one in several:
            one.kill()
    return found


def stepped(u: Any) -> Any:
    """Make a step inside a chunk with halos."""
    cupy = imported("cupy")
    v = cupy.empty_like(u)
    rows = u.shape[0] - 2
    grid = (SIDE // 256, rows, 1)
    cupy.RawKernel(STEP, "step")(
        grid, (256, 1, 1), (u, v, np.int32(u.shape[1]), np.int32(1), np.int32(rows))
    )
    return v


def made() -> Any:
    """Return a chunk of random points on the device of a worker."""
    cupy = imported("cupy")
    return cupy.random.random((SIDE, SIDE), dtype=cupy.float32)


def with_dask(devices: int) -> float:
    """Return the seconds of a step with `map_overlap`."""
    da, distributed = imported("dask.array"), imported("distributed")
    with (
        local_gpu_cluster(devices) as cluster,
        distributed.Client(cluster, set_as_default=True) as client,
    ):
        client.wait_for_workers(devices)
        u = da.map_blocks(
            made, chunks=((SIDE,) * devices, (SIDE,)), dtype=np.float32, meta=np.empty((0, 0))
        ).persist()
        distributed.wait(u)
        steps = 10

        def run() -> None:
            v = u
            for _ in range(steps):
                v = v.map_overlap(stepped, depth={0: 1, 1: 0}, boundary="periodic", dtype=u.dtype)
                v = v.persist()
            distributed.wait(v)

        run()
        return best_of(2, run, steps)


def apart(work: Callable[[int], Any], devices: int) -> Any:
    """Return what is measured in a process of its own, which leaves nothing on the devices."""
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=_answered, args=(work, devices, out))
    process.start()
    try:
        found, problem = out.get(timeout=2 * _LIMIT)
    finally:
        process.join(1)
        process.kill()
    if problem:
        raise RuntimeError(problem)
    return found


def _answered(work: Callable[[int], Any], devices: int, out: Any) -> None:
    try:
        out.put((work(devices), ""))
    except Exception as error:
        out.put((None, f"{type(error).__name__}: {error}"))


def seen(_: int) -> tuple[int, str]:
    """Return how many devices there are, and what they are called."""
    return device_count(), device_facts().name


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="")
    given = parser.parse_args()
    count, name = apart(seen, 0)
    rows: list[dict[str, Any]] = []
    record = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": name,
        "devices": count,
        "commit": given.commit,
        "side": SIDE,
        "rows": rows,
    }
    peers: dict[str, Callable[[int], Any]] = {
        "NCCL": with_nccl,
        "JAX shard_map": with_jax,
        "Dask map_overlap": with_dask,
    }
    for name, peer in peers.items():
        first: dict[str, float] = {}
        for devices in (1, count):
            try:
                result = apart(peer, devices)
            except Exception as error:
                print(f"{name} {devices}: {type(error).__name__}: {error}"[:500], flush=True)
                rows.append({"peer": name, "devices": devices, "error": str(error)[:500]})
                continue
            found: dict[str, float] = result if name == "NCCL" else {"": result}
            for way, seconds in found.items():
                label = f"{name} {way}".strip()
                first.setdefault(label, seconds)
                row: dict[str, Any] = {"peer": label, "devices": devices, "step": seconds}
                row["efficiency"] = first[label] / seconds
                rows.append(row)
                print(
                    f"{label:24} {devices} devices {seconds * 1e6:10.2f} us a step"
                    f" efficiency {row['efficiency']:.3f}",
                    flush=True,
                )
            given.result.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
