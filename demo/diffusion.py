"""Horizontal diffusion with a flux limiter on a sea with coasts: the demo's program.

It is fourth-order diffusion in flux form, as weather models use it to take out what the grid
cannot carry and leave the rest alone. A flux that would carry warmth from a colder to a warmer
cell is cut to zero, so that it only ever smooths.

Land is NaN in the field. A difference that has NaN on either side is a face on the coast: it is
closed, so nothing crosses it, and what the sea holds is neither lost nor won. Land stays NaN
because it is added to what is NaN.
"""

import numpy as np

from halocline.gtscript import PARALLEL, Field, computation, interval, isnan


def limited_diffusion(tos: Field[np.float64], diffused: Field[np.float64], strength: float) -> None:
    """Diffuse `tos` by one step; stable up to a strength of 1/32."""
    with computation(PARALLEL), interval(...):
        # Differences across the eastern and the northern face of each cell.
        east = tos[1, 0, 0] - tos
        east = 0.0 if isnan(east) else east
        north = tos[0, 1, 0] - tos
        north = 0.0 if isnan(north) else north

        laplacian = east - east[-1, 0, 0] + north - north[0, -1, 0]

        # Fluxes through the same faces, only where they go from warm to cold.
        eastward = laplacian[1, 0, 0] - laplacian
        eastward = eastward if eastward * east < 0.0 else 0.0
        northward = laplacian[0, 1, 0] - laplacian
        northward = northward if northward * north < 0.0 else 0.0

        diffused = tos - strength * (
            eastward - eastward[-1, 0, 0] + northward - northward[0, -1, 0]
        )
