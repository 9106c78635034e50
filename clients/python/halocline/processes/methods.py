"""Methods that a client or a dataset does not have, answered with the one that is meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from halocline_engine.interface.refusals import nearest

__all__ = ["Methods"]

_MEANT: Mapping[str, str] = {
    **dict.fromkeys(("run", "apply", "map_blocks", "compute", "program"), "stencil"),
    **dict.fromkeys(("list", "ls"), "jobs"),
    **dict.fromkeys(("interp", "interpolate", "remap"), "regrid"),
    **dict.fromkeys(("dot", "multiply", "einsum"), "matmul"),
    **dict.fromkeys(("derivative", "diff", "differentiate"), "column"),
    **dict.fromkeys(("put", "send"), "upload"),
}


class Methods:
    """Answers a name that is no method with the method that is meant, and all methods."""

    #: How users write the object, in front of a method.
    _written: ClassVar[str]

    if not TYPE_CHECKING:  # a type checker would take every name for a method

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):
                raise AttributeError(name)
            known = [one for one in dir(type(self)) if not one.startswith("_")]
            meant = _MEANT.get(name)
            meant = meant if meant in known else nearest(name, known)
            close = f" Did you mean '{self._written}.{meant}'?" if meant else ""
            raise AttributeError(
                f"There is no '{self._written}.{name}'.{close} There are: {', '.join(known)}.",
                name=name,
            )
