"""Operators on meshes: which there are, and where on a mesh their values lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from halocline_engine.errors import ArgumentError
from halocline_engine.kernels.indirect.problem import choice

__all__ = ["Location", "Operator", "check_components", "location_of"]


class Operator(Enum):
    """Operation on the values around each point."""

    SUM = "sum"
    MEAN = "mean"
    GRADIENT = "gradient"
    LAPLACIAN = "laplacian"
    DIVERGENCE = "divergence"
    NORMAL_GRADIENT = "normal_gradient"
    NORMAL_DIVERGENCE = "normal_divergence"
    NORMAL_CURL = "normal_curl"


class Location(Enum):
    """Location of values on a mesh."""

    FACE = "face"
    NODE = "node"
    EDGE = "edge"


#: Where the values of operators lie that have a location of their own.
_STAGGERED: Mapping[Operator, Location] = {
    Operator.NORMAL_GRADIENT: Location.FACE,
    Operator.NORMAL_DIVERGENCE: Location.EDGE,
    Operator.NORMAL_CURL: Location.EDGE,
}


def location_of(operator: Operator, location: str | None) -> Location:
    """Return where values lie; raises `ArgumentError` for what an operation does not have."""
    own = _STAGGERED.get(operator)
    if location is None:
        return own or Location.FACE
    where: Location = choice(Location, "location", location)
    if own is not None and where is not own:
        raise ArgumentError(
            f"The values of '{operator.value}' lie on the '{own.value}'s, got location"
            f"={location!r}.",
            hint="Leave it out.",
        )
    return where


def check_components(operator: Operator, variables: Sequence[str] | None) -> None:
    """Refuse a divergence of what are not the two components of a vector."""
    if operator is Operator.DIVERGENCE and len({*(variables or ())}) != 2:
        raise ArgumentError(
            "A divergence needs the eastward and the northward component of a vector, got"
            f" variables={variables!r}.",
            hint="Name both with variables=.",
        )
