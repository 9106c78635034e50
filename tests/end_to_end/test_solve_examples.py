"""The examples of solves: what they conserve, and the answers that are known."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DEMO = Path(__file__).parents[2] / "demo"

SOMA = "1 1 0 0 0 5 -1\n"
TREE = "# out of order\n1 3 12 0 0 0.5 2\n2 1 0 0 0 5 -1\n3 3 30 9 0 0.4 1\n4 3 40 -9 5 0.3 1\n"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(DEMO / name))


def test_the_cable_equation(tmp_path: Path) -> None:
    (tmp_path / "soma.swc").write_text(SOMA)
    (tmp_path / "tree.swc").write_text(TREE)
    cable = example("cable.py")
    files = [str(tmp_path / name) for name in ("soma.swc", "tree.swc")]
    picture = tmp_path / "cable.png"
    run = cable["main"](
        [*files, "--steps", "150", "--dt", "0.1", "--target", "cpu", "--picture", str(picture)]
    )
    assert run.unbalanced < 1e-14
    assert picture.read_bytes().startswith(b"\x89PNG")
    # One compartment: backward Euler of C v' = I - g v has a closed form.
    area, dt = 4 * np.pi * 25, 0.1
    capacitance, leak = 1e-3 * 0.01 * area, 1e-3 * 1e-3 * area
    kept = capacitance / (capacitance + dt * leak)
    pulse = round((12.0 - 2.0) / dt)
    risen = 0.02 / leak * (1 - kept**pulse)
    assert run.roots[20, 0] == -65
    assert run.roots[20 + pulse, 0] == pytest.approx(-65 + risen, rel=1e-12)
    assert run.roots[150, 0] == pytest.approx(-65 + risen * kept ** (130 - pulse), rel=1e-12)


def test_diffusion_on_terrain_following_levels(tmp_path: Path) -> None:
    vertical = example("vertical_diffusion.py")
    picture = tmp_path / "vertical.png"
    arguments = ["--hours", "0.5", "--target", "reference", "--picture", str(picture)]
    assert vertical["main"](arguments) < 1e-11
    assert picture.read_bytes().startswith(b"\x89PNG")
    dataset = vertical["columns"]()
    assert float((dataset["height"][0] - dataset["ground"]).min()) > 0
    after = vertical["diffused"](dataset, 3, "reference")
    level = dataset["theta"].dims[0]
    assert (after.std(level) < dataset["theta"].std(level)).all()
