"""The kind of PARALLEL kernel whose threads sweep up columns with a rolling window."""

from __future__ import annotations

from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.kernels.rolling.text import rolling_text
from halocline_engine.backends.cuda.kernels.rolling.tile import rolling_fitted, rolling_tile
from halocline_engine.backends.cuda.model.launch import launches, threads_along_i

__all__ = ["ROLLING"]

ROLLING = KernelKind(
    tile=rolling_tile,
    fit=rolling_fitted,
    text=rolling_text,
    shared_bytes=lambda _entry, _schedule, _variant, _tile, _domain: 0,
    launches=lambda entry, domain, tile, levels: launches(
        entry, domain, tile, levels, threads_along_i(entry, domain, tile)
    ),
    one_domain=True,
)
