"""The kind of PARALLEL kernels whose threads climb columns with a rolling window of levels."""

from __future__ import annotations

from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.kernels.rolling.text import rings
from halocline_engine.backends.cuda.kernels.rolling.tile import rings_fitted, rings_tile
from halocline_engine.backends.cuda.model.launch import launches, threads_along_i

__all__ = ["ROLLING"]

ROLLING = KernelKind(
    tile=rings_tile,
    fit=rings_fitted,
    text=rings,
    shared_bytes=lambda _entry, _schedule, _variant, _tile, _domain: 0,
    launches=lambda entry, domain, tile, levels: launches(
        entry, domain, tile, levels, threads_along_i(entry, domain, tile)
    ),
    one_domain=True,
)
