"""Weight files beside data in another order of cells, and data of other cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from counting_plans import CountingPlans
from weight_files import draw_regridding

import halocline_engine as he

LAT, LON = np.array([-60.0, 0.0, 60.0]), np.arange(0.0, 360, 90)
NORTH, EAST = {"units": "degrees_north"}, {"units": "degrees_east"}
PLANE_LAT, PLANE_LON = np.meshgrid(LAT, LON, indexing="ij")
PLANES = (("yc_b", PLANE_LAT), ("xc_b", PLANE_LON))
VALUES = PLANE_LAT + PLANE_LON / 1000


def identity(**changes: Any) -> xr.Dataset:
    """Return weights that leave a grid of 3 x 4 cells as it is."""
    one = np.arange(1, 13)
    found = xr.Dataset(
        {
            "row": ("n_s", one),
            "col": ("n_s", one),
            "S": ("n_s", np.ones(12)),
            "src_grid_dims": ("r", [4, 3]),
            "dst_grid_dims": ("q", [4, 3]),
            "yc_a": ("n_a", PLANE_LAT.ravel(), {"units": "degrees"}),
            "xc_a": ("n_a", PLANE_LON.ravel(), {"units": "degrees"}),
            "yc_b": ("n_b", PLANE_LAT.ravel(), {"units": "degrees"}),
            "xc_b": ("n_b", PLANE_LON.ravel(), {"units": "degrees"}),
        }
    )
    return found.assign(changes)


def data() -> xr.Dataset:
    field = xr.Dataset({"t": (("lat", "lon"), VALUES)})
    return field.assign(lat=("lat", LAT, NORTH), lon=("lon", LON, EAST)).set_coords(["lat", "lon"])


def regridded(given: xr.Dataset, weights: xr.Dataset | None = None, **options: Any) -> Any:
    found = he.regrid(given, identity() if weights is None else weights, target="cpu", **options)
    return found["t"].values


def refusal(given: xr.Dataset, weights: xr.Dataset | None = None, **options: Any) -> str:
    with pytest.raises(he.RequestError) as caught:
        regridded(given, weights, **options)
    return str(caught.value)


@pytest.mark.parametrize("seed", range(60))
def test_drawn_regriddings(seed: int) -> None:
    drawn = draw_regridding(np.random.default_rng(seed))
    options: Any = {"variables": ["t"], "target": "reference", "target_dims": ["out"]}
    found = he.regrid(drawn.dataset, drawn.weights, **options, **drawn.options)["t"]
    np.testing.assert_array_equal(found.transpose("time", "out"), drawn.wanted, str(drawn.forms))


def west() -> Any:
    return ("lon", np.arange(-180.0, 180, 90), EAST)


@pytest.mark.parametrize(
    "given",
    [
        data(),
        data().isel(lat=slice(None, None, -1)),
        data().isel(lon=slice(None, None, -1), lat=[1, 2, 0]),
        data().roll(lon=2, roll_coords=True).assign(lon=west()),
        data().assign(lon=("lon", [0.0, 90, -180, -90], EAST)),
        data().transpose("lon", "lat"),
        data().isel(lat=slice(None, None, -1)).assign(lat=("lat", LAT[::-1])),  # no units
        data().assign(lat=("lat", np.radians(LAT), NORTH | {"units": "radians_north"})),
    ],
)
def test_cells_in_any_order(given: xr.Dataset) -> None:
    """Latitudes from north to south were regridded upside down."""
    np.testing.assert_array_equal(regridded(given), VALUES)


def test_square_grids_by_weights_whose_latitudes_are_the_fastest() -> None:
    values = np.arange(9.0).reshape(3, 3)
    dims, one = ("d", [3, 3]), ("n_s", np.arange(1, 10))
    lat, lon = np.meshgrid(LAT, LON[:3], indexing="ij")
    weights = xr.Dataset({"row": one, "col": one, "S": ("n_s", np.ones(9))})
    weights = weights.assign(src_grid_dims=dims, dst_grid_dims=dims)
    weights["yc_a"] = ("n_a", lat.T.ravel(), {"units": "degrees"})
    weights["xc_a"] = ("n_a", lon.T.ravel(), {"units": "degrees"})
    given = xr.Dataset(
        {"t": (("lat", "lon"), values)},
        coords={"lat": ("lat", LAT, NORTH), "lon": ("lon", LON[:3], EAST)},
    )
    np.testing.assert_array_equal(regridded(given, weights), values.T)


def test_dimensions_of_results_are_those_of_the_target() -> None:
    found = he.regrid(data(), identity(), dims=["lon", "lat"], target="cpu")["t"]
    np.testing.assert_array_equal(found.transpose("lat", "lon"), VALUES)
    assert found["lat"].values.tolist() == LAT.tolist()
    centres = {name: ("n_b", plane.T.ravel(), {"units": "degrees"}) for name, plane in PLANES}
    order = np.arange(12).reshape(3, 4).T.ravel() + 1
    weights = identity(**centres, col=("n_s", order), dst_grid_dims=("q", [3, 4]))
    found = he.regrid(data(), weights, target="cpu")["t"]
    assert found.dims == ("lon", "lat")
    np.testing.assert_array_equal(found, VALUES.T)


def test_cells_of_unstructured_grids_beside_their_centres() -> None:
    """Files of CAM have latitude and longitude as variables, and sizes of N x 1 in weights."""
    weights = identity(src_grid_dims=("r", [12, 1]), dst_grid_dims=("q", [12]))
    order = np.random.default_rng(3).permutation(12)
    given = xr.Dataset(
        {
            "t": ("ncol", VALUES.ravel()[order]),
            "lat": ("ncol", PLANE_LAT.ravel()[order].astype("f4"), NORTH),
            "lon": ("ncol", PLANE_LON.ravel()[order].astype("f4"), EAST),
        }
    )
    found = regridded(given, weights, variables=["t"])
    np.testing.assert_array_equal(found, VALUES.ravel())


def test_data_of_other_cells_are_refused() -> None:
    shifted = data().assign(lon=("lon", LON + 45, EAST))
    assert refusal(shifted) == (
        "The weights are for other cells than those of variable 't': the cell at lat 0, lon 0 has"
        " its centre at latitude -60, longitude 0 in the weights, and at latitude -60, longitude 45"
        " in the dataset. Make weights for the grid of the dataset; or, if its coordinates are"
        " wrong, leave them out: dataset.drop_vars(['lat', 'lon'])."
    )
    np.testing.assert_array_equal(regridded(shifted.drop_vars(["lat", "lon"])), VALUES)
    north = data().assign(lat=("lat", [-60.0, 0.0, 70.0], NORTH))
    np.testing.assert_array_equal(regridded(north), VALUES)  # within a quarter of a cell
    stretched = data().assign(lat=("lat", [-60.0, 0.0, 90.0], NORTH))
    assert "at lat 2, lon 0 has its centre at latitude 60" in refusal(stretched)
    # Cells that no weight uses may be anywhere.
    some = identity().isel(n_s=slice(0, 8))
    assert np.isnan(regridded(stretched, some)[2]).all()


@pytest.mark.parametrize(
    "unknown",
    [
        {},
        {"yc_a": ("n_a", np.zeros(12)), "xc_a": ("n_a", np.zeros(12))},
        {"yc_a": ("n_a", np.full(12, np.nan), {"units": "degrees"})},
        {"yc_a": ("n_a", np.full(12, 1e20), {"units": "degrees"})},
        {"yc_a": ("n_a", PLANE_LAT.ravel(), {"units": "m"})},
        {"yc_a": ("other", np.zeros(3), {"units": "degrees"})},
    ],
)
def test_centres_that_are_not_known_say_nothing(unknown: Any) -> None:
    weights = identity().drop_vars(["yc_a", "xc_a"]).assign(unknown)
    turned = data().isel(lat=slice(None, None, -1))
    np.testing.assert_array_equal(regridded(turned, weights), VALUES[::-1])


def test_orders_are_found_once() -> None:
    plans, turned = CountingPlans(), data().isel(lat=slice(None, None, -1))
    for _ in range(2):
        np.testing.assert_array_equal(regridded(turned, plans=plans), VALUES)
    assert plans.made == 2  # the matrix of the file, and the one of this order
    regridded(data(), plans=plans)
    assert plans.made == 2


def test_weights_of_gradients() -> None:
    several = np.stack([np.ones(12), np.full(12, 0.5)], axis=1)
    names = {"row": "dst_address", "col": "src_address", "S": "remap_matrix"}
    weights = identity().rename(names)
    weights["remap_matrix"] = (("n_s", "num_wgts"), several)
    np.testing.assert_array_equal(regridded(data(), weights), VALUES)
    weights["remap_matrix"] = weights["remap_matrix"].transpose()
    np.testing.assert_array_equal(regridded(data(), weights), VALUES)
    weights.attrs["map_method"] = "Bicubic remapping"
    assert refusal(data(), weights) == (
        "The weights of 'Bicubic remapping' multiply gradients as well, which are not computed."
        " Make bilinear or conservative weights."
    )
