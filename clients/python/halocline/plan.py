"""Plan of a job: its blocks, halos, passes, memory and sizes."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["Plan", "size"]


class Plan(dict[str, Any]):
    """The plan of a job, a dictionary with its main numbers as attributes.

    Examples
    --------
    >>> plan = Plan(target="cpu", blocks=4, passes=2, steps=10, projected_bytes=3_000_000)
    >>> plan.blocks, plan.memory
    (4, 3000000)
    >>> print(plan)
    target   cpu
    blocks   4
    passes   2 (10 steps)
    memory   3 MB

    """

    @property
    def target(self) -> str:
        """Target: 'cuda', 'cpu' or 'reference'."""
        return str(self.get("target", ""))

    @property
    def blocks(self) -> int:
        """Number of blocks in a pass."""
        return int(self.get("blocks", 1))

    @property
    def block(self) -> dict[str, int]:
        """Size of a block by dimension; empty unless the job is a stencil."""
        return dict(self.get("block") or {})

    @property
    def halo(self) -> dict[str, tuple[int, int]]:
        """Distance that one step reads below and above a point, by dimension."""
        halo = cast("Mapping[str, tuple[int, int]]", self.get("halo") or {})
        return {dim: (below, above) for dim, (below, above) in halo.items()}

    @property
    def passes(self) -> int:
        """Number of passes over the dataset."""
        return int(self.get("passes", 1))

    @property
    def memory(self) -> int:
        """Memory that all workers together need at once, in bytes."""
        return int(self.get("projected_bytes", 0))

    @property
    def input_bytes(self) -> int:
        """Size of the variables that are read, in bytes."""
        return int(self.get("input_bytes", 0))

    @property
    def result_bytes(self) -> int:
        """Size of the result before compression, in bytes."""
        return int(self.get("result_bytes", 0))

    def __str__(self) -> str:
        rows = self._rows()
        return "\n".join(f"{name:<8} {value}" for name, value in rows.items())

    def _repr_html_(self) -> str:
        rows = ((html.escape(name), html.escape(value)) for name, value in self._rows().items())
        cells = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows)
        return f'<table class="halocline-plan">{cells}</table>'

    def _rows(self) -> dict[str, str]:
        """Return the printed rows; unknown values are left out."""
        steps = int(self.get("steps", 1))
        mode, transport = str(self.get("mode", "")), str(self.get("transport", "none"))
        rate = float(self.get("predicted_rate", 0.0))
        sizes = ", ".join(f"{dim} {length}" for dim, length in self.block.items())
        rows = {
            "target": self.target,
            "workers": str(self.get("workers", "")),
            "blocks": f"{self.blocks} of {sizes}" if sizes else str(self.blocks),
            "halo": ", ".join(f"{dim} {low}+{high}" for dim, (low, high) in self.halo.items()),
            "passes": f"{self.passes} ({steps} steps)" if steps > 1 else str(self.passes),
            "mode": f"{mode}: {self.get('reason', '')}".rstrip(": ") if mode else "",
            "order": str(self.get("order", "")) if mode != "resident" else "",
            "halos": transport if transport != "none" else "",
            "unfused": str(self.get("unfused", "")),
            "rate": f"about {rate:.2g} cells/s" if rate else "",
            "memory": size(self.memory),
            "input": size(self.input_bytes) if self.input_bytes else "",
            "result": size(self.result_bytes) if self.result_bytes else "",
        }
        return {name: value for name, value in rows.items() if value}


def size(count: float) -> str:
    """Return a number of bytes with its unit.

    >>> size(3_500_000)
    '3.5 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
