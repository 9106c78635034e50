"""What examples in docstrings use: a client of a service in this process, and datasets."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import structlog
import xarray as xr
from served import serving, settings_for

from halocline import Client

_PROGRAM = """
def smooth(u: Field[float], s: Field[float]):
    with computation(PARALLEL), interval(...):
        s = 0.5 * (u[-1, 0, 0] + u[1, 0, 0])
"""


def _datasets() -> dict[str, xr.Dataset]:
    dataset = xr.Dataset(
        {
            "u": (("y", "x"), [[0.0, 0.0, 4.0, 0.0]]),
            "t": ("z", [1.0, 2.0, 4.0]),
            **{name: ("z", band) for name, band in _BANDS.items()},
            "cells": ("cell", [10.0, 11.0, 12.0]),
            "at": ("point", [2, 0]),
            "left": (("i", "k"), [[1.0, 2.0], [3.0, 4.0]]),
            "right": (("k", "j"), [[1.0], [10.0]]),
        },
        coords={
            "z": ("z", [0.5, 1.5, 2.5], {"axis": "Z"}),
            "z_f": ("z_f", [0.0, 1.0, 2.0, 3.0], {"axis": "Z", "c_grid_axis_shift": -0.5}),
        },
    )
    weights = xr.Dataset(
        {
            "row": ("n_s", [1, 1, 2]),
            "col": ("n_s", [1, 2, 3]),
            "S": ("n_s", [0.5, 0.5, 1.0]),
            "src_grid_dims": ("src_grid_rank", [3]),
            "dst_grid_dims": ("dst_grid_rank", [2]),
        }
    )
    topology = {
        "cf_role": "mesh_topology",
        "topology_dimension": 2,
        "node_coordinates": "lon lat",
        "face_node_connectivity": "nodes",
    }
    mesh = xr.Dataset(
        {
            "mesh": ((), 0, topology),
            "nodes": (("face", "corner"), [[0, 1, 2], [1, 3, 2]], {"start_index": 0}),
            "lon": ("node", [0.0, 1.0, 0.0, 1.0], {"units": "degrees_east"}),
            "lat": ("node", [0.0, 0.0, 1.0, 1.0], {"units": "degrees_north"}),
        }
    )
    faces = xr.Dataset({"t": ("face", [2.0, 5.0])})
    return {"dataset": dataset, "weights": weights, "mesh": mesh, "faces": faces}


_BANDS = {"a": [0.0, 1.0, 1.0], "b": [4.0] * 3, "c": [1.0, 1.0, 0.0], "d": [5.0, 6.0, 5.0]}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Any]]:
    """Give a client of a service without keys, and what is sent to it."""
    settings = settings_for(tmp_path_factory.mktemp("service"), "none")
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with serving(settings), Client(f"http://127.0.0.1:{settings.port}") as client:
        yield {"client": client, "program": _PROGRAM, **_datasets()}
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _namespace(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if any(name in request.node.name for name in ("Client", "Job", "processes")):
        doctest_namespace.update(request.getfixturevalue("examples"))
