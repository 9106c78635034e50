"""Arguments of a call of a corpus program, in an order of axes, and what the reference says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from corpus.cases import CorpusCase, Size
from halocline_engine.analysis.scalars import scalars_of
from halocline_engine.analysis.work import Work, work_of
from halocline_engine.backends.compiled import Compiled
from halocline_engine.backends.settled import left_of
from halocline_engine.functions.reports.timing import LAYOUTS, drawn_arrays, halo_of
from halocline_engine.functions.reports.turns import measured_turns
from halocline_engine.functions.stencil import Stencil, stencil
from halocline_engine.ir.types import Axis
from halocline_engine.program import compile_program

__all__ = ["LAYOUTS", "CorpusCall", "wrong"]


@dataclass(frozen=True)
class CorpusCall:
    """A program of the corpus with a type, an order of axes and a size."""

    case: CorpusCase
    dtype: str
    layout: str
    domain: Size

    @cached_property
    def compiled(self) -> Compiled:
        """The program for the reference."""
        text = self.case.text(self.dtype)
        return compile_program(
            text, stencil_name=self.case.name, dtypes={"real": self.dtype}, target="reference"
        )

    @cached_property
    def halo(self) -> Size:
        """The points that every array has around the domain."""
        return halo_of(self.compiled.facts)

    @cached_property
    def axes(self) -> Mapping[str, tuple[Axis, ...]]:
        """The axes of each array; tables have none."""
        program = self.compiled.program
        tables = {lookup.name for lookup in program.lookups}
        given = [field for field in program.fields if field.name not in program.made]
        names = {field.name.partition(".")[0]: field.axes for field in given}
        return {name: () if name in tables else axes for name, axes in names.items()}

    @property
    def written(self) -> frozenset[str]:
        """The arrays that a call changes."""
        fields = self.compiled.program.fields
        return frozenset(field.name.partition(".")[0] for field in fields if field.written)

    @property
    def work(self) -> Work:
        """What the call must move and compute, of loops the turns that the reference counts."""
        whole = self.compiled.program
        program = left_of(whole, scalars_of(whole, self.case.scalars))

        def drawn(domain: Size) -> dict[str, Any]:
            return replace(self, domain=domain).arrays(np)

        turns = measured_turns(program, self.domain, drawn, self.case.scalars, self.halo)
        return work_of(program, self.domain, turns)

    def stencil(self, target: str) -> Stencil:
        """Return the program compiled for a target."""
        text = self.case.text(self.dtype)
        return stencil(
            text,
            stencil_name=self.case.name,
            dtypes={"real": self.dtype},
            target=target,
            tune="off",
        )

    def arrays(self, library: Any) -> dict[str, Any]:
        """Return arrays of NumPy or CuPy: inputs drawn, what is only written NaN."""
        program, case = self.compiled.program, self.case
        return drawn_arrays(program, library, self.domain, self.halo, self.layout, case.ranges)

    def run(self, program: Stencil, arrays: Mapping[str, Any]) -> None:
        """Call a program compiled for some target on arrays."""
        program(**arrays, **self.case.scalars, origin=self.halo, domain=self.domain)


def wrong(
    call: CorpusCall, got: Mapping[str, Any], inputs: Mapping[str, Any], columns: int = 0
) -> str:
    """Return how results differ from those of the reference, or nothing.

    With `columns`, only so many along I and J are compared, which suits programs without regions.
    Functions may differ in the last digits between targets; outside the domain nothing may differ.
    What is NaN has to be NaN on both.
    """
    ni, nj, nk = call.domain
    domain = (min(columns, ni), min(columns, nj), nk) if columns else call.domain
    part = CorpusCall(call.case, call.dtype, call.layout, domain)
    cut = {
        Axis.I: slice(domain[0] + 2 * call.halo[0]),
        Axis.J: slice(domain[1] + 2 * call.halo[1]),
        Axis.K: slice(None),
    }
    sides = {
        axis: slice(halo, halo + n) for axis, halo, n in zip(Axis, call.halo, domain, strict=True)
    }
    expected = {
        name: array[tuple(cut[axis] for axis in call.axes[name])].copy()
        for name, array in inputs.items()
    }
    with np.errstate(all="ignore"):
        part.run(part.stencil("reference"), expected)
    tolerance = 1e-11 if call.dtype == "float64" else 3e-4
    for name, array in expected.items():
        if name not in call.written:
            continue
        inner = tuple(sides[axis] for axis in call.axes[name])
        here, there = (
            np.asarray(got[name][tuple(cut[a] for a in call.axes[name])][inner]),
            array[inner],
        )
        near = np.abs(here - there) <= tolerance * (1 + np.abs(there))
        far = ~(near | ((here != here) & (there != there)))
        if far.any():
            at = tuple(int(n) for n in np.argwhere(far)[0])
            return f"{name}{list(at)}: {here[at]} for {there[at]}, {int(far.sum())} of {far.size}"
    return ""
