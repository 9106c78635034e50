"""Sums, means, extremes and histograms of datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

import xarray as xr

from halocline_engine.backends.targets import DEVICE_TARGET, HOST_TARGET
from halocline_engine.datasets.diagnostics import diagnostics_of
from halocline_engine.datasets.inputs.opening import DatasetLike, open_source
from halocline_engine.distribute.reductions.job import check_reductions, reduction_job
from halocline_engine.errors import ArgumentError
from halocline_engine.functions.documentation import documented
from halocline_engine.functions.execution import Execution, ExecutionArguments
from halocline_engine.signatures import complete

__all__ = ["reduce"]

_DEVICE = (DEVICE_TARGET, "gpu")


@documented(ExecutionArguments)
def reduce(
    dataset: DatasetLike,
    diagnostics: Mapping[str, Mapping[str, Any]],
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    """Reduce a dataset to sums, means, extremes and histograms, in one pass over its values.

    Parameters
    ----------
    %(dataset)s
    diagnostics : mapping of str to mapping
        Reductions by the name of the result. Each has one of the keys 'sum', 'mean', 'norm' (root
        of the sum of squares), 'min', 'max', 'count' (of values that are not NaN) and 'histogram',
        with a variable or an expression of variables and coordinates, as in a stencil program:
        ``{'sum': 'rho * t'}``. Further keys:

        - 'weights': an expression that each value is multiplied by. A mean is divided by the sum
          of the weights of its values, a histogram has sums of weights.
        - 'dims': dimensions to reduce, as a list; all by default.
        - 'by': variable of labels, such as basins: one result for each of its values but NaN.
        - 'bins': edges of a histogram. The last bin has its upper edge.
        - 'skipna': False if a NaN makes its result NaN; by default it is left out.
    %(execution)s

    Returns
    -------
    xarray.Dataset
        A variable for each diagnostic, with the dimensions that stay, then that of labels, then
        `<name>_bin`. Variables `<name>_<dim>` say where extremes are: by the coordinate of the
        dimension if it has numbers, otherwise by the index. Of equal values the first one counts.
        `cell_methods` follow CF.

    %(raises)s

    Notes
    -----
    Sums are exact and rounded once, so the result has the same bits for any `chunks` and workers.
    An expression is evaluated point by point in the types of the language and gives float64;
    products with weights and squares are rounded in float64 before they are added. The sum of a
    variable of whole numbers is int64. A mean is the rounded sum divided by the number of values,
    or by the rounded sum of weights.

    Values come from the host, so its cores reduce them: 'cuda' is refused.

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> dataset = xr.Dataset(
    ...     {"t": (("y", "x"), [[1.0, 2.0], [3.0, 6.0]]), "area": ("y", [1.0, 3.0])},
    ...     coords={"x": [10.0, 20.0]},
    ... )
    >>> result = he.reduce(
    ...     dataset,
    ...     {
    ...         "heat": {"sum": "2.0 * t", "weights": "area"},
    ...         "zonal": {"mean": "t", "dims": ["x"]},
    ...         "hottest": {"max": "t"},
    ...     },
    ... )
    >>> result["heat"].item(), result["zonal"].values.tolist()
    (60.0, [1.5, 4.5])
    >>> result["hottest"].item(), result["hottest_x"].item(), result["hottest_y"].item()
    (6.0, 20.0, 1)

    """
    execution = Execution(**complete(reduce, given))
    if execution.target in _DEVICE:
        raise ArgumentError(
            f"Argument 'target' must be 'auto', 'cpu' or 'reference' for reductions, got"
            f" '{execution.target}'.",
            hint="Leave it out: cores reduce values as they come from the dataset.",
        )
    if execution.target == "auto":
        execution = replace(execution, target=HOST_TARGET)
    asked = diagnostics_of("diagnostics", diagnostics)
    opened = open_source(dataset)
    request = check_reductions(opened, asked, execution.block_sizes, execution.place)
    return execution.run_job(
        lambda pool, target: reduction_job(request, pool, target), "", "states, and their results"
    )
