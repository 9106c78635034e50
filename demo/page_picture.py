"""Draw the first month of the demo for the documentation, into docs/images/demo.png.

python demo/page_picture.py
"""

from __future__ import annotations

from pathlib import Path

from data import sea_surface
from diffusion import limited_diffusion
from picture import draw

import halocline_engine as he

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Run the demo in this process, without a service, and draw its first month."""
    sea = sea_surface()
    result = he.run(
        limited_diffusion,
        sea,
        scalars={"strength": 1 / 32},
        boundary={"x": "periodic", "y": "edge"},
        steps=500,
        feedback={"diffused": "tos"},
        target="cpu",
    )
    first = slice(0, 1)
    draw(
        sea["tos"].isel(time=first),
        result["diffused"].isel(time=first),
        ROOT / "docs" / "images" / "demo.png",
        title="500 steps of flux-limited diffusion of sea-surface temperature",
    )


if __name__ == "__main__":
    main()
