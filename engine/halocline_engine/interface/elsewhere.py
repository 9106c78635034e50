"""Functions and classes of other packages by their names, each with what does the same here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

__all__ = ["without_attribute"]

_REGRID = "'{module}.regrid(dataset, weights)' applies weights that xESMF, ESMF or CDO wrote."
_STENCIL = "Write it as a program, with offsets like 'q[1, 0, 0] - q', and call '{module}.run'."
_COLUMN = (
    "'{module}.column' takes such operators along the vertical, as in"
    " 'GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(t)'; along other axes write a"
    " program with offsets, and call '{module}.run'."
)
_BANDED = "'{module}.tridiagonal' and '{module}.pentadiagonal' solve banded systems."
_REDUCE = "Reduce with xarray, before or after the run."
_OPEN = "Open it with xarray, and pass the dataset; a path may be passed as well."
_LANGUAGE = "Import it from 'halocline.gtscript'; programs that are texts need no import."
_GATHER = "'{module}.gather' takes values by indices."

_HERE: Mapping[str, str] = {
    **dict.fromkeys(("Regridder", "regridder", "remap", "interp_like", "SpatialAverager"), _REGRID),
    **dict.fromkeys(("Grid", "interp", "diff", "derivative", "cumint", "cumsum"), _COLUMN),
    **dict.fromkeys(("map_overlap", "map_blocks", "apply_ufunc", "roll", "shift"), _STENCIL),
    **dict.fromkeys(("convolve", "correlate", "laplace", "sobel", "gaussian_filter"), _STENCIL),
    **dict.fromkeys(("generic_filter", "differentiate", "pad", "apply", "map"), _STENCIL),
    **dict.fromkeys(
        ("gradient", "divergence", "curl", "laplacian", "vorticity"),
        f"On a mesh it is '{{module}}.neighbours(dataset, mesh, operation=...)'. {_STENCIL}",
    ),
    **dict.fromkeys(("solve_banded", "solveh_banded", "thomas", "tridiag", "spsolve"), _BANDED),
    **dict.fromkeys(("lu_factor", "cho_factor", "splu"), "'{module}.factor' factors bands once."),
    **dict.fromkeys(("dot", "einsum", "tensordot", "mm"), "'{module}.matmul' multiplies matrices."),
    **dict.fromkeys(("isel", "sel", "take", "vindex", "take_along_axis"), _GATHER),
    **dict.fromkeys(("bincount", "add_at", "groupby"), "'{module}.scatter' adds up by indices."),
    **dict.fromkeys(("sum", "mean", "min", "max", "std", "average", "integrate"), _REDUCE),
    **dict.fromkeys(("open_dataset", "open_zarr", "open_mfdataset", "Dataset", "load"), _OPEN),
    **dict.fromkeys(("Field", "computation", "interval", "PARALLEL", "function"), _LANGUAGE),
    **dict.fromkeys(
        ("jit", "njit", "compile", "field_operator", "program", "Operator", "lazy_stencil"),
        "'{module}.stencil(program)' compiles a program.",
    ),
    **dict.fromkeys(
        ("Cluster", "LocalCluster", "SLURMCluster", "distributed"),
        "Pass cluster=... to the function that computes.",
    ),
    "submit": "'halocline.Client(url).submit(...)' sends a job to a service.",
    "connect": "'halocline.Client(url)' connects to a service.",
}


def without_attribute(module: str, name: str, known: Iterable[str]) -> str:
    """Return the message about a name that a module does not have, with what does the same.

    >>> without_attribute("halocline", "thomas", [])
    "module 'halocline' has no attribute 'thomas'. 'halocline.tridiagonal' and \
'halocline.pentadiagonal' solve banded systems."
    """
    message = f"module '{module}' has no attribute '{name}'"
    if name.startswith("_"):
        return message
    close = difflib.get_close_matches(name, known, 1, 0.72)
    similar = f"Did you mean '{close[0]}'?" if close else ""
    hint = _HERE.get(name, similar).replace("{module}", module)
    return f"{message}. {hint}" if hint else message
