"""Matrix products on datasets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack, cast

import numpy as np
import xarray as xr

from halocline_engine.arguments import text
from halocline_engine.datasets.inputs.opening import DatasetLike, open_source
from halocline_engine.datasets.names import result_name
from halocline_engine.datasets.stores.provenance import coordinates_within, with_history
from halocline_engine.datasets.variables import hint_of_conversion, named_variable, stored_chunks
from halocline_engine.distribute.products.job import ProductRequest, check_chunks, run_product
from halocline_engine.distribute.products.reading import Operand
from halocline_engine.distribute.products.tiling import Product
from halocline_engine.distribute.tasks.options import Options, options_of
from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.functions.documentation import documented
from halocline_engine.functions.execution import Execution, ExecutionArguments
from halocline_engine.kernels.matmul.problem import DTYPES
from halocline_engine.signatures import complete

__all__ = ["matmul"]

#: Encodings that change stored values when they are decoded.
_CODED = ("scale_factor", "add_offset", "missing_value", "_Unsigned")


@documented(ExecutionArguments)
def matmul(
    dataset: DatasetLike,
    *,
    left: str,
    right: str,
    dim: str,
    name: str = "product",
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    """Multiply two variables and sum over a dimension, as `xarray.dot` does.

    Parameters
    ----------
    %(dataset)s
    left, right : str
        Variables of the operands, float32 or float64. Dimensions of both besides `dim` are taken
        pairwise; all others are those of a matrix.
    dim : str
        Dimension to sum over, of both operands.
    name : str, default: 'product'
        Name of the result.
    %(execution)s

    Returns
    -------
    xarray.Dataset
        The product, with the dimensions of left and then those of right: left (time, station, mode)
        and right (time, mode, cell) give (time, station, cell). It is float64 if one operand is.

    %(raises)s

    Notes
    -----
    Neither the operands nor the result need to fit into memory. Products are cut into tiles and
    sums into pieces of fixed size, so the result has the same bits for any `chunks`, memory and
    workers, on machines of one kind with one release of NumPy's BLAS ('cpu') or of cuBLAS ('cuda').
    'reference' accumulates in wider numbers. A term that is NaN makes its sum NaN. A result in a
    store is not compressed.

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> dataset = xr.Dataset(
    ...     {"a": (("x", "k"), [[1.0, 2.0], [3.0, 4.0]]), "b": (("k", "y"), [[1.0], [10.0]])}
    ... )
    >>> he.matmul(dataset, left="a", right="b", dim="k")["product"].values.tolist()
    [[21.0], [43.0]]

    """
    execution = Execution(**complete(matmul, given))
    for argument, variable in (("left", left), ("right", right)):
        text(argument, variable, "the name of a variable")
    text("dim", dim, "the name of a dimension")
    name = result_name(name)
    opened = open_source(dataset)
    operands = (named_variable(opened.dataset, left), named_variable(opened.dataset, right))
    product = _product(operands, dim)
    dtype = np.result_type(*(_type(one) for one in operands)).name
    what = f"product of '{left}' and '{right}' over '{dim}'"
    coordinates = coordinates_within(operands[0], product.dims)
    coordinates |= coordinates_within(operands[1], product.dims)
    frame = xr.Dataset(coords=coordinates)
    request = ProductRequest(
        opened=opened,
        product=product,
        left=_operand(operands[0], product, (product.rows, (dim,)), dtype),
        right=_operand(operands[1], product, ((dim,), product.columns), dtype),
        name=name,
        frame=with_history(frame, opened.dataset, what),
        chunks=execution.block_sizes,
        output=execution.place,
        what=what,
    )
    check_chunks(product, execution.block_sizes)
    _check_threads(options_of(execution.options))
    with execution.pool() as (pool, chosen):
        return run_product(request, pool, chosen, execution.tell, execution.cancelled)


def _check_threads(options: Options) -> None:
    """Raise `ArgumentError` if `threads` is given, as a product has no concurrent blocks."""
    if options.threads is not None:
        raise ArgumentError(
            f"Option 'threads' is how many blocks this process has at hand, got {options.threads},"
            " but a product is one stream of tiles.",
            hint="Leave it out.",
        )


def _product(operands: tuple[xr.DataArray, xr.DataArray], dim: str) -> Product:
    """Return the roles of the dimensions; raises `FieldError` if one operand lacks `dim`."""
    first, second = (tuple(str(one) for one in array.dims) for array in operands)
    for array, dims in zip(operands, (first, second), strict=True):
        if dim not in dims:
            has = ", ".join(f"'{one}'" for one in dims) or "none"
            raise FieldError(
                f"Variable '{array.name}' has no dimension '{dim}' to sum over; it has {has}.",
                hint="Both variables must have it.",
            )
    sizes = {str(d): int(n) for array in operands for d, n in array.sizes.items()}
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
            hint=hint_of_conversion(array),
        )
    return np.dtype(array.dtype.name)


def _operand(
    array: xr.DataArray,
    product: Product,
    matrix: tuple[tuple[str, ...], tuple[str, ...]],
    dtype: str,
) -> Operand:
    """Return an operand, with tiles in its own order if that is a matrix or its transpose."""
    own = tuple(str(dim) for dim in array.dims)
    straight = (*product.batch, *matrix[0], *matrix[1])
    turned = (*product.batch, *matrix[1], *matrix[0])
    encoding: Mapping[str, Any] = array.encoding
    fill = cast("Any", encoding.get("_FillValue"))
    return Operand(
        name=str(array.name),
        own=own,
        order=own if own in (straight, turned) else straight,
        chunks=stored_chunks(array),
        plain=(fill is None or fill != fill) and not any(key in encoding for key in _CODED),
        dtype=dtype,
    )
