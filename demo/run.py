"""The demo: diffuse three months of sea-surface temperature through a Halocline service.

    python demo/run.py [--steps 500] [--target auto] [--output demo-output] [--url URL]

It starts a service on a free port of this machine (or uses the one at URL), uploads the data,
runs `diffusion.py` with the Python client, and writes `result.zarr` and `demo.png` to the output
folder. On a machine with a GPU the job runs there.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import xarray as xr
from data import sea_surface
from diffusion import limited_diffusion
from local_service import running_service
from picture import draw

from halocline import Client, Plan

STRENGTH = 1 / 32
BOUNDARY = {"x": "periodic", "y": "edge"}


class Watch:
    """Measures how long the parts take."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Generator[None]:
        """Measure what is done inside."""
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def main() -> None:
    """Run the demo and print where its results are."""
    options = _options()
    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    for old in ("result.zarr", "service"):
        shutil.rmtree(output / old, ignore_errors=True)
    watch = Watch()
    before = sea_surface()
    with ExitStack() as stack:
        with watch.part("start"):
            own = running_service(output / "service")
            url = options.url or stack.enter_context(own)
        plan = _compute(url, before, options, watch)
    after = xr.open_zarr(output / "result.zarr", chunks=None)
    steps, target = options.steps, plan["target"]
    title = f"Flux-limited diffusion of sea-surface temperature, {steps} steps, on {target}"
    with watch.part("draw"):
        draw(before["tos"], after["diffused"], output / "demo.png", title=title)
    _report(before["tos"], after["diffused"], output, plan, watch)


def _compute(url: str, before: xr.Dataset, options: argparse.Namespace, watch: Watch) -> Plan:
    """Send the job, wait for it, copy its result, and return its plan."""
    with Client(url) as client:
        with watch.part("upload"):
            reference = client.upload(before)
        with watch.part("run"):
            job = client.stencil(
                limited_diffusion,
                reference,
                scalars={"strength": STRENGTH},
                boundary=BOUNDARY,
                steps=options.steps,
                feedback={"diffused": "tos"},
                target=options.target,
            )
            print(f"Job {job.id} was accepted by {url}.", flush=True)
            job.result_url(progress=True)
        with watch.part("fetch"):
            job.download(options.output / "result.zarr")
        return job.plan()


def _report(
    before: xr.DataArray, after: xr.DataArray, output: Path, plan: Plan, watch: Watch
) -> None:
    """Say where the results are, how long it took, and what the sea kept."""
    after = after.transpose(*before.dims)
    same_land = bool((np.isnan(after) == np.isnan(before)).all())
    change = abs(float(after.sum() - before.sum()) / float(before.sum()))
    print(
        f"It ran on the target '{plan['target']}' in the mode '{plan['mode']}': {plan['reason']}."
    )
    print("Seconds: " + ", ".join(f"{name} {s:.1f}" for name, s in watch.seconds.items()) + ".")
    print(f"Land is {'unchanged' if same_land else 'CHANGED'}.")
    print(f"The sum over the sea changed by {change:.1e} of itself.")
    print(f"Result:  {output / 'result.zarr'}")
    print(f"Picture: {output / 'demo.png'}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--target", default="auto", help="auto, cuda, cpu or reference")
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--url", help="use this service instead of starting one")
    return parser.parse_args()


if __name__ == "__main__":
    main()
