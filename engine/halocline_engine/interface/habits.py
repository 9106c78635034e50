"""Arguments and their values as other packages have them, each with its form here."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

__all__ = [
    "RULES",
    "RULES_HERE",
    "WEIGHTS",
    "axis_called",
    "hint_of_argument",
    "hint_of_axes",
    "hint_of_rule",
]

#: The way out for arguments by which xESMF makes weights.
WEIGHTS = (
    "No weights are made here: write them with xESMF (to_netcdf), ESMF_RegridWeightGen or CDO, and"
    " pass the file or its dataset."
)
_MAKING = ("method", "filename", "reuse_weights", "locstream_in", "locstream_out", "grid", "ds_out")
#: Rules of boundaries that are words.
RULES = (
    "periodic",
    "edge",
    "reflect",
    "symmetric",
    "antisymmetric",
    "extrapolate",
    "none",
)
#: Rules by their names here, in xgcm, scipy.ndimage, numpy.pad, dask.map_overlap and PyTorch.
RULES_HERE: Mapping[str, Any] = {
    **{rule: rule for rule in RULES},
    **{
        name: {"constant": 0.0}
        for name in ("fill", "constant", "grid-constant", "zero", "zeros", "dirichlet")
    },
    **dict.fromkeys(("extend", "nearest", "replicate", "clamp", "pad", "neumann"), "edge"),
    **dict.fromkeys(("wrap", "grid-wrap", "cyclic", "circular", "ring", "period"), "periodic"),
    **dict.fromkeys(("mirror", "reflection"), "reflect"),
    **dict.fromkeys(("linear", "extrapolation"), "extrapolate"),
    "grid-mirror": "symmetric",
    **dict.fromkeys(("empty", "open", "free", "nothing", "null"), "none"),
}
_AXES = {"X": "I", "Y": "J", "Z": "K", "I": "I", "J": "J", "K": "K"}
_PERIODIC = ("periodic", "cyclic", "wrap")
_FILL = ("fill_value", "cval", "constant_values")
_PADDING = ("padding", "pad_mode", "padding_mode", "bc", "boundary_condition")
_HALOS = ("halo", "halos", "depth", "overlap", "pad_width", "boundary_width", "ghost_cells")


def hint_of_rule(dim: str, rule: object, end: str = "") -> str:
    """Return how the rule of a boundary is written, at both ends or at one of them, or "".

    >>> hint_of_rule("lat", "extend", "low"), hint_of_rule("lat", "median")
    ("Write boundary={'lat': {'low': 'edge'}}.", '')
    """
    here = _rule_here(rule)
    if here is None:
        return ""
    return f"Write boundary={{'{dim}': { ({end: here} if end else here)!r}}}."


def _rule_here(rule: object) -> Any:
    """Return the rule that another package, or a misspelt word, calls so; None if it is unknown.

    >>> _rule_here("fill"), _rule_here("mirror"), _rule_here(0.5), _rule_here("perodic")
    ({'constant': 0.0}, 'reflect', {'constant': 0.5}, 'periodic')
    """
    match rule:
        case None | False:
            return "none"
        case True:
            return "periodic"
        case int() | float():
            return {"constant": rule}
        case str():
            known = difflib.get_close_matches(rule.lower().replace("_", "-"), RULES_HERE, 1, 0.8)
            return RULES_HERE[known[0]] if known else None
        case _:
            return None


def axis_called(name: str) -> str | None:
    """Return the axis of a program that has a name here or in CF, or None.

    >>> axis_called("X"), axis_called("k"), axis_called("lon")
    ('I', 'K', None)
    """
    return _AXES.get(name.upper())


def hint_of_axes(axes: Mapping[str, object]) -> str:
    """Return how axes are written that are reversed, or have the names of CF, or "".

    >>> hint_of_axes({"x": "I", "y": "J"}), hint_of_axes({"X": "lon"})
    ("Write axes={'I': 'x', 'J': 'y'}.", "Write axes={'I': 'lon'}.")
    """
    here: dict[str, object] = {}
    for key, dim in axes.items():
        name, other = (str(dim), key) if dim in _AXES.values() else (key, dim)
        axis = axis_called(name)
        if axis is None:
            return ""
        here[axis] = other
    return f"Write axes={here}."


def hint_of_argument(
    name: str, value: object, known: Collection[str], dims: Sequence[str] = ()
) -> str:
    """Return what is written in place of an argument of another package, or "".

    `known` are the arguments that there are, and `dims` dimensions of the dataset.

    >>> hint_of_argument("periodic", True, ["boundary"], ["y", "x"])
    "Boundaries are given by dimension: boundary={'x': 'periodic'}."
    """
    if "weights" in known and name in _MAKING:
        return WEIGHTS
    if "boundary" not in known:
        return ""
    if name in _HALOS:
        return "Leave it out: halos follow from the offsets of the program."
    named = _names(value) if name in _PERIODIC else []
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    rule = {"constant": value if is_number else 0.0} if name in _FILL else None
    if name in _PERIODIC:
        if value is False:
            return "Leave it out: boundaries are open unless boundary={...} gives others."
        rule = "periodic"
    elif name in _PADDING:
        rule = _rule_here(value)
    if rule is None:
        return ""
    given = dict.fromkeys(named or list(dims[-1:] or ["x"]), rule)
    return f"Boundaries are given by dimension: boundary={given}."


def _names(value: object) -> list[str]:
    """Return the dimensions that a value names."""
    if isinstance(value, str):
        return [value]
    items = list(cast("Any", value)) if isinstance(value, list | tuple | Mapping) else []
    return [str(item) for item in items]
