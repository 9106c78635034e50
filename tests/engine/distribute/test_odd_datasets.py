"""Datasets as odd as people's, on the workers of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odd_runs import difference_of_draw, on_cluster


@pytest.mark.parametrize("seed", range(200, 208))
def test_drawn_datasets(seed: int, tmp_path: Path, two_workers: Any) -> None:
    assert difference_of_draw(seed, tmp_path, on_cluster(two_workers)) == ""
