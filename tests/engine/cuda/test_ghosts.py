"""All ghosts of several arrays are made by one launch, with the bits of copies in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import xarray as xr
from emulation.machine import EmulatedArtifact, EmulatedMachine
from kept import device_code
from nvidia import ARCHITECTURES

import halocline_engine as he
from halocline_engine.analysis import boundaries
from halocline_engine.analysis.boundaries import Kind
from halocline_engine.backends.cuda.runtime.ghosts import GhostFiller, emit_ghosts
from halocline_engine.backends.cuda.text.dependent_launch import ANNOUNCE, WAIT
from halocline_engine.backends.ghosts import Ends, Framed, Rule, Side
from halocline_engine.cache import Cache
from halocline_engine.distribute.blocks.ghosts import fill_ghosts, ghosts_of
from halocline_engine.distribute.grid.boundary import Line
from halocline_engine.distribute.grid.partition import Span
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.stencil import Stencil
from halocline_engine.ir.types import DType

#: Both ends of I, J and K, and the types of arrays.
CASES = {
    "all alike": ("extrapolate extrapolate", "extrapolate extrapolate", "extrapolate extrapolate"),
    "all kinds": ("edge constant", "wrap wrap", "reflect extrapolate"),
    "mirrored": ("symmetric antisymmetric", "antisymmetric symmetric", "antisymmetric edge"),
    "some ends": ("none reflect", "constant none", "edge edge"),
    "around": ("periodic periodic", "wrap wrap", "none none"),
}
TYPES = {
    "all alike": ("float64", "float32"),
    "all kinds": ("float32", "float64"),
    "mirrored": ("float64", "int8"),
    "some ends": ("int32", "bool"),
    "around": ("float64", "int64"),
}


def lines_of(case: str, sizes: tuple[int, ...]) -> tuple[Line, ...]:
    value = 1 if TYPES[case][1] == "bool" else -2.625
    return tuple(
        Line(size, *(boundaries.Side(Kind(word), value) for word in words.split()))
        for size, words in zip(sizes, CASES[case], strict=True)
    )


def framed(lines: tuple[Line, ...], random: Random) -> tuple[Span, ...]:
    """Return the cells of an array: at both ends of the data, or at one of them."""
    frames: list[Span] = []
    for line in lines:
        whole = line.low.kind in (Kind.WRAP, Kind.PERIODIC)
        start, stop = -random.randint(0, 2), line.size + random.randint(0, 3)
        if not whole and random.random() < 0.3:
            start, stop = random.choice([(1, stop), (start, line.size - 1)])
        frames.append(Span(start, stop))
    return tuple(frames)


def drawn(frames: tuple[Span, ...], dtype: str, seed: int) -> Any:
    """Return an array whose rows are padded, with values everywhere."""
    i, j, k = (span.size for span in frames)
    rng = np.random.default_rng(seed)
    return (rng.random((k, j, i + 3)) * 7 - 3).astype(dtype).transpose(2, 1, 0)[1 : 1 + i]


@pytest.mark.parametrize("order", ["ascending", "descending", "mixed"])
@pytest.mark.parametrize("case", CASES)
def test_bits_are_those_of_copies(case: str, order: str, emulation_folder: Path) -> None:
    random = Random(case)
    machine = EmulatedMachine(
        emulation_folder / "loaded",
        descending=order == "descending",
        shuffled=int(order == "mixed"),
        follows=True,
    )
    filler = GhostFiller(machine, Cache(emulation_folder / "compiled"))
    for seed in range(6):
        lines = lines_of(case, tuple(random.randint(4, 9) for _ in range(3)))
        frames = [framed(lines, random) for _ in TYPES[case]]
        arrays = [
            drawn(frame, dtype, seed) for frame, dtype in zip(frames, TYPES[case], strict=True)
        ]
        expected = [array.copy(order="K") for array in arrays]
        for array, frame in zip(expected, frames, strict=True):
            fill_ghosts(array, lines, frame)
        several = [(array, lines, frame) for array, frame in zip(arrays, frames, strict=True)]
        # The filler is all that is asked of an executable.
        executable: Any = filler
        for fill in ghosts_of(executable, several):
            fill()
            fill()
        for array, values in zip(arrays, expected, strict=True):
            assert array.tobytes() == values.tobytes(), (lines, frames)
    assert len(machine.loaded) <= 3


ENDS: Ends = (
    (Side(Rule.EXTRAPOLATE), Side(Rule.REFLECT)),
    (Side(Rule.CONSTANT, 2.0), Side(Rule.EDGE)),
    (Side(Rule.WRAP), Side(Rule.WRAP)),
)


def test_code_compiles_for_every_device() -> None:
    code = emit_ghosts(ENDS, [DType.FLOAT64, DType.FLOAT32, DType.INT8], follows=True)
    assert code.count("\n".join(WAIT)) == 1
    before, after = code.split(WAIT[1])
    assert "at(r, x, y, z) =" not in before
    assert "return" not in before[before.index("void fill(") :]
    assert "at(r, x, y, z) =" in after
    kernel = code[code.index("__global__") :]
    assert kernel[kernel.index(") {\n") + 4 :].startswith("\n".join(ANNOUNCE))
    assert "griddepcontrol" not in emit_ghosts(ENDS, [DType.FLOAT64])
    for architecture in ARCHITECTURES:
        assert device_code(code, architecture)


#: A pair that is fed, a plane that is only read, and a field that is not always written.
SEVERAL = """
def several(
    a: Field[float64], d: Field[IJ, float64], b: Field[float64], kept: Field[float64]
):
    with computation(PARALLEL), interval(...):
        b = a + 0.1 * (d[-1, 0] * a[-2, 0, 0] + a[1, 0, 0] + a[0, -1, 0] + a[0, 2, 0] - 4.0 * a)
        if a > 0.5:
            kept = a
"""
MIXED = {
    "x": {"low": "edge", "high": {"constant": 1.5}},
    "y": {"low": "reflect", "high": "extrapolate"},
}
AROUND = {"x": "periodic", "y": {"low": "none", "high": "edge"}}


@pytest.mark.parametrize("boundary", [MIXED, AROUND])
def test_steps_of_a_job_have_the_bits_of_the_reference(
    boundary: Any, emulation_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few steps in a pass ghosts are copied, with many they are one launch a step."""
    launched: list[int] = []
    plain = GhostFiller.filling

    def filling(self: GhostFiller, ends: Ends, several: Sequence[Framed]) -> Any:
        launched.append(len(several))
        return plain(self, ends, several)

    monkeypatch.setattr(GhostFiller, "filling", filling)
    rng = np.random.default_rng(3)
    data = xr.Dataset(
        {"a": (("z", "y", "x"), rng.random((2, 9, 13))), "d": (("y", "x"), rng.random((9, 13)))}
    )
    on_host = he.stencil(SEVERAL, target="reference")
    artifact = EmulatedArtifact(on_host.compiled.schedule, emulation_folder)
    known = replace(on_host.compiled, artifact=artifact, fingerprint=f"emulated {boundary}")
    found = [
        he.run(
            program,
            data,
            axes={"I": "x", "J": "y", "K": "z"},
            boundary=boundary,
            steps=9,
            feedback={"b": "a"},
            target="reference",
            mode="streamed",
            options=Options(steps_per_pass=fused),
        )
        for program, fused in ((on_host, 9), (Stencil(known), 3), (Stencil(known), 9))
    ]
    assert launched == [1, 1]
    for other in found[1:]:
        for name in ("b", "kept"):
            np.testing.assert_array_equal(other[name].values, found[0][name].values)


def test_many_arrays_are_filled_by_several_launches(emulation_folder: Path) -> None:
    machine = EmulatedMachine(emulation_folder / "loaded")
    filler = GhostFiller(machine, Cache(emulation_folder / "compiled"))
    lines = (Line(5, boundaries.Side(Kind.EDGE), boundaries.Side(Kind.EDGE)), Line(4), Line(1))
    frame = (Span(-1, 6), Span(0, 4), Span(0, 1))
    arrays = [drawn(frame, "float64", seed) for seed in range(13)]
    executable: Any = filler
    (fill,) = ghosts_of(executable, [(array, lines, frame) for array in arrays])
    fill()
    for array in arrays:
        assert (array[0] == array[1]).all()
        assert (array[6] == array[5]).all()
    assert [len(kernels.launched) for kernels in machine.loaded] == [1, 1]


def test_arrays_without_ghosts_need_nothing(emulation_folder: Path) -> None:
    machine = EmulatedMachine(emulation_folder / "loaded")
    executable: Any = GhostFiller(machine, Cache(emulation_folder / "compiled"))
    lines = (Line(5, boundaries.Side(Kind.EDGE), boundaries.Side(Kind.EDGE)), Line(4), Line(1))
    inside = (Span(1, 5), Span(-2, 4), Span(0, 1))
    assert ghosts_of(executable, [(drawn(inside, "float64", 1), lines, inside)]) == []
    assert machine.loaded == []


def test_more_ghosts_than_the_code_can_count_are_left_to_copies(emulation_folder: Path) -> None:
    machine = EmulatedMachine(emulation_folder / "loaded")
    filler = GhostFiller(machine, Cache(emulation_folder / "compiled"))
    huge = np.broadcast_to(np.zeros(1), (1 << 16, 1 << 16, 3))
    one = Framed(huge, ((0, 1 << 16), (0, 1 << 16), (1, 2)))
    assert filler.filling(ENDS, [one]) is None
    assert machine.loaded == []
