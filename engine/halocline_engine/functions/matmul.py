"""Matrix products on datasets: two variables multiplied and summed over a dimension.

`matmul` multiplies the variables `left` and `right` and sums over `dim`, which both have. It is
`xarray.dot`: dimensions that both have besides `dim` are taken pairwise, all others are those of a
matrix, and the result has them in the order in which they appear in left and then in right. With
left (time, station, mode) and right (time, mode, cell), `dim="mode"` gives (time, station, cell).

Values are float32 or float64; where one is float64, so is the result. A term that is not a number
makes the sum not a number. `target` "reference" adds up in wider numbers and rounds once; "cpu" is
NumPy's BLAS, "cuda" is cuBLAS, both in the precision of the type. Products are cut into tiles, and
`dim` into pieces that are summed in ascending order; both depend on the sizes and on the target
only, so the result of a target is the same bit for bit whatever `chunks`, `cluster`, memory and
store are, on machines of one kind with one release of these libraries.

Neither the operands nor the result need to fit into memory, nor into that of a device: tiles are
read from the store, and written, while others are multiplied. They are visited in columns, so that
a column of right stays at hand while left passes by, as wide as the memory allows; see
`distribute.products.tiling`. `chunks` says how much of the result is done at a time along its
dimensions, rounded up to tiles. `cluster`, `output`, `on_event`, `cancelled` and `options` are
those of `run`. A result in a store is not compressed. It has the coordinates that fit, no
attributes but a line in the history of the dataset. Raises a `RequestError` or `CapacityError`
before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from halocline_engine.analysis.named import near
from halocline_engine.arguments import place_of, sizes_by_name, text
from halocline_engine.datasets.names import result_name
from halocline_engine.datasets.stores.provenance import coordinates_within, with_history
from halocline_engine.datasets.stores.source import Opened, open_source
from halocline_engine.datasets.variables import variable_of
from halocline_engine.distribute.products.job import ProductRequest, run_product
from halocline_engine.distribute.products.reading import Operand
from halocline_engine.distribute.products.tiling import Product
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.options import Options, options_of
from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.functions.execution import Execution
from halocline_engine.kernels.matmul.problem import DTYPES

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["matmul"]

#: Encodings that change values on their way out of a store.
_CODED = ("scale_factor", "add_offset", "missing_value", "_Unsigned")


def matmul(
    dataset: xr.Dataset | str | Path,
    *,
    left: str,
    right: str,
    dim: str,
    name: str = "product",
    target: str = "auto",
    mode: str = "auto",
    chunks: Mapping[str, int] | None = None,
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    options: Options | None = None,
) -> xr.Dataset:
    """Return a dataset with the product of two variables over `dim`; see the head of the module."""
    execution = Execution(target, mode, cluster, on_event, cancelled, options)
    for argument, given in (("left", left), ("right", right)):
        text(argument, given, "the name of a variable")
    text("dim", dim, "the name of a dimension")
    name = result_name(name)
    opened = open_source(dataset)
    found = (_variable(opened, left), _variable(opened, right))
    product = _product(found, dim)
    dtype = np.result_type(*(_type(one) for one in found)).name
    what = f"product of '{left}' and '{right}' over '{dim}'"
    coordinates = coordinates_within(found[0], product.dims)
    coordinates |= coordinates_within(found[1], product.dims)
    frame = xr.Dataset(coords=coordinates)
    request = ProductRequest(
        opened=opened,
        product=product,
        left=_operand(found[0], product, (product.rows, (dim,)), dtype),
        right=_operand(found[1], product, ((dim,), product.columns), dtype),
        name=name,
        frame=with_history(frame, opened.dataset, what),
        chunks=sizes_by_name("chunks", chunks),
        output=place_of("output", output),
        what=what,
    )
    _check_threads(options_of(options))
    with execution.pool() as (pool, chosen):
        return run_product(request, pool, chosen, execution.tell, cancelled, options)


def _check_threads(options: Options) -> None:
    """Raise `ArgumentError` where blocks are counted that a product does not have."""
    if options.threads is not None:
        raise ArgumentError(
            f"Option 'threads' is how many blocks this process has at hand, got {options.threads},"
            " but a product is one stream of tiles.",
            hint="Leave it out.",
        )


def _variable(opened: Opened, name: str) -> xr.DataArray:
    names = [str(one) for one in opened.dataset.variables]
    if name not in names:
        raise FieldError(
            f"The dataset has no variable '{name}'.", hint=near(name, names) or "Check the name."
        )
    return variable_of(opened.dataset, name)


def _product(found: tuple[xr.DataArray, xr.DataArray], dim: str) -> Product:
    """Return which dimension is which; raises `FieldError` where `dim` is not in both."""
    first, second = (tuple(str(one) for one in array.dims) for array in found)
    for array, dims in zip(found, (first, second), strict=True):
        if dim not in dims:
            has = ", ".join(f"'{one}'" for one in dims) or "none"
            raise FieldError(
                f"Variable '{array.name}' has no dimension '{dim}' to sum over; it has {has}.",
                hint="Both variables must have it.",
            )
    sizes = {str(d): int(n) for array in found for d, n in array.sizes.items()}
    return Product(
        batch=tuple(d for d in first if d in second and d != dim),
        rows=tuple(d for d in first if d not in second),
        columns=tuple(d for d in second if d not in first),
        inner=dim,
        dims=tuple(d for d in dict.fromkeys((*first, *second)) if d != dim),
        sizes=sizes,
    )


def _type(array: xr.DataArray) -> np.dtype[Any]:
    if array.dtype.name not in DTYPES:
        raise FieldError(
            f"Variable '{array.name}' has values of type '{array.dtype}'; a product needs"
            " 'float32' or 'float64'.",
            hint="Convert it with astype.",
        )
    return np.dtype(array.dtype.name)


def _operand(
    array: xr.DataArray,
    product: Product,
    matrix: tuple[tuple[str, ...], tuple[str, ...]],
    dtype: str,
) -> Operand:
    """Return an operand whose tiles lie as it does, if that is a matrix or one that is turned."""
    own = tuple(str(dim) for dim in array.dims)
    straight = (*product.batch, *matrix[0], *matrix[1])
    turned = (*product.batch, *matrix[1], *matrix[0])
    encoding: Mapping[str, Any] = array.encoding
    chunks = tuple(encoding.get("chunks") or encoding.get("chunksizes") or ())
    fill = cast("Any", encoding.get("_FillValue"))
    return Operand(
        name=str(array.name),
        own=own,
        order=own if own in (straight, turned) else straight,
        chunks=chunks if len(chunks) == len(own) else (),
        plain=(fill is None or fill != fill) and not any(key in encoding for key in _CODED),
        dtype=dtype,
    )
