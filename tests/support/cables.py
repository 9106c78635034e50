"""The cable equation on trees, assembled as Arbor does, to judge solutions by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halocline_engine.kernels.tree.problem import check_cells
from halocline_engine.kernels.tree.storage import Values
from halocline_engine.kernels.tree.topology import Forest

__all__ = ["Cable", "assemble", "prepare"]


@dataclass(frozen=True, slots=True, eq=False)
class Cable:
    """What a step of the cable equation is assembled from, a value for each node.

    `upper` (between a node and its parent, the negative of the axial conductance) and `axial` (the
    sum of the axial conductances at a node), in microsiemens; `capacitance` in picofarads, `area`
    in square micrometres.
    """

    upper: Values
    axial: Values
    capacitance: Values
    area: Values


def prepare(forest: Forest, conductance: Values, capacitance: Values, area: Values) -> Cable:
    """Return what stays the same from step to step.

    `conductance` is that between a node and its parent, in microsiemens; a root's must be zero.
    """
    arrays = {"conductance": conductance, "capacitance": capacitance, "area": area}
    check_cells(forest.layout, arrays)
    upper, axial = -conductance, conductance.copy()
    inner = np.flatnonzero(forest.layout.local() > 0)
    parents = forest.layout.offsets[forest.layout.owners()] + forest.parents
    np.add.at(axial, parents[inner], conductance[inner])
    return Cable(upper, axial, capacitance, area)


def assemble(
    cable: Cable, conductivity: Values, current: Values, voltage: Values, dt: float
) -> tuple[Values, Values]:
    """Return the diagonal and the right-hand side of an implicit step of `dt` milliseconds.

    `conductivity` and `current` (a current density) are those of the membrane, and `voltage`, in
    millivolts, is that at the start of the step. The right-hand side is in nanoamperes. With `dt`
    zero the diagonals are zero, and systems are skipped: the voltage stays.
    """
    kind = voltage.dtype.type
    scale, step = kind(1e-3), kind(dt)
    if dt == 0:
        return np.zeros_like(voltage), voltage.copy()
    area = scale * cable.area
    inertia = scale * cable.capacitance / step + area * conductivity
    return inertia + cable.axial, inertia * voltage - area * current
