"""Compare programs that are drawn at random with GT4Py, or the targets with each other.

    python tests/benchmarks/drawn_programs.py gt4py 1000 --first 0
    python tests/benchmarks/drawn_programs.py cpu 10000 --general
    python tests/benchmarks/drawn_programs.py blocks 1000 --whole
    python tests/benchmarks/drawn_programs.py cuda 300 --tables
    python tests/benchmarks/drawn_programs.py device 10000 --whole --seconds 500 --processes 15

`gt4py` calls its backends `numpy` and `debug`, plain loops in Python: each of them lacks something.
`cpu` runs the loops of the CPU target as Python does, in four ways, beside the reference; `cuda`
runs kernels in emulation, half of them with the tiles of a large domain and half as scalars leave
them, `blocks` programs on datasets that are cut into blocks, half of them in loops, and `fused`
several steps of a feedback in one kernel. `device` runs kernels on a CUDA device, and needs no
Numba. Of the programs of the `--whole` language one in four has neighbours by table, but for GT4Py;
with `--tables` each has. The last line counts what was compared and which programs were refused;
differences are printed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import perf_counter
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / name) for name in ("support", "engine/cuda")]

from differential import LAYOUTS, assert_same, front  # noqa: E402 - found by the line above
from drawing import GIVEN, SCALARS, literals, program  # noqa: E402
from drawing_modules import DTYPES, EXTERNALS  # noqa: E402
from drawn_blocks import blocks_agree, drawn_cut  # noqa: E402
from emulation.machine import EmulatedArtifact, EmulatedMachine  # noqa: E402
from feedback_steps import fed_program, grid_of  # noqa: E402
from general_runs import (  # noqa: E402
    OPTIONS,
    agree,
    complete,
    for_scalars,
    given_arrays,
    judged,
    ran,
)

import halocline_engine as he  # noqa: E402
from halocline_engine.analysis.named import used_fields  # noqa: E402
from halocline_engine.backends.cuda.build import CudaBackend  # noqa: E402
from halocline_engine.backends.cuda.kernels.temporal.choose import usual_form  # noqa: E402
from halocline_engine.backends.cuda.kernels.temporal.tile import FusedTile  # noqa: E402
from halocline_engine.backends.cuda.runtime.fused import FusedExecutable  # noqa: E402
from halocline_engine.cache import Cache  # noqa: E402
from halocline_engine.device.cupy_types import cupy  # noqa: E402
from halocline_engine.errors import BoundaryError, ProgramError  # noqa: E402
from halocline_engine.ir.nodes import Program  # noqa: E402
from halocline_engine.ir.types import Axis  # noqa: E402
from halocline_engine.schedule.plan import plan  # noqa: E402
from halocline_engine.schedule.temporal.levels import levels_at_once  # noqa: E402

Array = NDArray[Any]
HEAD = """\
from enum import IntEnum

import numpy as np
from gt4py.cartesian.gtscript import (
    BACKWARD, FORWARD, IJ, IK, JK, PARALLEL, Field, GlobalTable, I, J, K, __INLINED, abs, acos,
    acosh, asin, asinh, atan, atanh, cbrt, ceil, compile_assert, computation, cos, cosh, erf,
    erfc, exp, float32, float64, floor, function, gamma, horizontal, interval, isfinite, isinf,
    isnan, log, log10, max, min, mod, region, round, round_away_from_zero, sin, sinh, sqrt, tan,
    tanh, trunc,
)

"""
HALO, DOMAIN = (7, 7, 2), (4, 3, 5)
#: What is said of programs that break a rule of the language; they are no comparisons.
REFUSED = "refused"
#: How much wider a domain is that shows what an extent there leaves out.
WIDER = 3
SHAPE = tuple(n + 2 * halo for n, halo in zip(DOMAIN, HALO, strict=True))


def arrays_of(meaning: Program, seed: int) -> tuple[dict[str, Array], dict[str, tuple[int, ...]]]:
    """Return rough arrays for all array arguments that are used, and their origins."""
    random = np.random.default_rng(seed)
    shapes = {whole.name: whole.shape for whole in meaning.components}
    tables = {lookup.name: lookup.shape for lookup in meaning.lookups}
    arrays: dict[str, Array] = {}
    origins: dict[str, tuple[int, ...]] = {}
    for field in used_fields(meaning):
        name = field.name.partition(".")[0]
        axes = () if name in tables else field.axes
        sizes = tuple(SHAPE[list(Axis).index(axis)] for axis in axes)
        shape = (*sizes, *tables.get(name, shapes.get(name, ())))
        if field.dtype.is_integer:
            arrays[name] = random.integers(-9, 10, shape).astype(field.dtype.value)
        elif not field.dtype.is_float:
            arrays[name] = random.random(shape) > 0.5
        else:
            arrays[name] = random.normal(size=shape).astype(field.dtype.value)
        if axes:
            origins[name] = tuple(HALO[list(Axis).index(axis)] for axis in axes)
    return arrays, origins


def beside_gt4py(
    text: str, meaning: Program, seed: int, folder: Path, options: Mapping[str, Any]
) -> str:
    """Return what came of a comparison with GT4Py; raises AssertionError where results differ."""
    path = folder / f"drawn_{seed}.py"
    path.write_text(HEAD + text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    arrays, origins = arrays_of(meaning, seed)
    given = {name: array.copy() for name, array in arrays.items()}
    stencil = he.stencil(text, target="reference", **options)
    scalars = {name: SCALARS[name] for name in meaning.arguments if name in SCALARS}
    stencil(**arrays, **scalars, origin=origins, domain=DOMAIN)
    # A field that is not used is None there, and is left out here.
    absent = dict.fromkeys({*meaning.arguments} - {*arrays} - {*scalars})
    there = _options_there(module) if options else {}
    types = {scalar.name: np.dtype(scalar.dtype.value).type for scalar in meaning.scalars}
    own = {name: types[name](value) for name, value in scalars.items()}
    refused, different = "", None
    for backend in ("debug", "numpy") if meaning.components else ("numpy", "debug"):
        try:
            theirs = _Theirs(backend, module.drawn, given, {**absent, **own}, there)
            expected = theirs(origins, DOMAIN)
        except Exception as error:
            refused = f"refused or failed there: {type(error).__name__}: {str(error)[:60]}"
            continue
        try:
            _assert_close(arrays, expected, meaning)
        except AssertionError as error:
            different = error
        else:
            return "the same"
        try:
            # The extent of what levels hand on is too small there: a wider domain shows it.
            _assert_close(arrays, theirs(*_wider(origins)), meaning)
        except AssertionError:
            continue
        return "the same, where their extent is too small"
    if different:
        raise different
    return refused


def _options_there(module: ModuleType) -> dict[str, Any]:
    """Return what is given with a program of the whole language as GT4Py takes it."""
    gtscript: Any = importlib.import_module("gt4py.cartesian.gtscript")
    externals: dict[str, Any] = {}
    for name, value in EXTERNALS.items():
        match value:
            case {"axis": axis, "index": index, "offset": offset}:
                externals[name] = getattr(gtscript, axis)[index] + offset
            case {"function": function}:
                externals[name] = getattr(module, function)
            case dict():
                externals[name] = SimpleNamespace(**value)
            case _:
                externals[name] = value
    return {
        "externals": externals,
        "dtypes": {name: np.dtype(one).type for name, one in DTYPES.items()},
    }


class _Theirs:
    """A program compiled by a backend of GT4Py, with its arguments."""

    def __init__(
        self,
        backend: str,
        definition: Any,
        arrays: dict[str, Array],
        others: dict[str, Any],
        options: dict[str, Any],
    ) -> None:
        gtscript: Any = importlib.import_module("gt4py.cartesian.gtscript")
        self._run = gtscript.stencil(
            backend=backend, definition=definition, format_source=False, rebuild=True, **options
        )
        self._arrays, self._others = arrays, others

    def __call__(
        self, origins: dict[str, tuple[int, ...]], domain: tuple[int, int, int]
    ) -> dict[str, Array]:
        """Return the arrays after a run on copies."""
        arrays = {name: array.copy() for name, array in self._arrays.items()}
        with np.errstate(all="ignore"):
            self._run(**arrays, **self._others, origin=origins, domain=domain)
        return arrays


def _wider(
    origins: dict[str, tuple[int, ...]],
) -> tuple[dict[str, tuple[int, ...]], tuple[int, int, int]]:
    """Return the origins and the sizes of a domain that is wider along I and J."""
    around = {
        name: tuple(n - WIDER if at < 2 and n == HALO[0] else n for at, n in enumerate(place))
        for name, place in origins.items()
    }
    ni, nj, nk = DOMAIN
    return around, (ni + 2 * WIDER, nj + 2 * WIDER, nk)


def _assert_close(got: dict[str, Array], expected: dict[str, Array], meaning: Program) -> None:
    """Compare fields on the domain."""
    tables = {lookup.name for lookup in meaning.lookups}
    for field in used_fields(meaning):
        name = field.name.partition(".")[0]
        box = tuple(
            slice(HALO[at], HALO[at] + DOMAIN[at])
            for at, axis in enumerate(Axis)
            if axis in field.axes and field.name not in tables
        )
        np.testing.assert_allclose(
            got[name][box], expected[name][box], rtol=1e-12, atol=0, err_msg=name
        )


def beside_reference(meaning: Program, facts: Any, seed: int, kind: str, folder: Path) -> str:
    """Return "the same"; raises AssertionError where a target differs from the reference."""
    random = Random(seed)
    # Rows of kernels have whole tiles, and what edges cut.
    along = 5 if kind == "cpu" else 19
    domain = (random.randint(1, along), random.randint(1, 4), random.randint(facts.min_levels, 8))
    layout = random.choice(LAYOUTS)
    if kind == "cpu":
        agree(meaning, facts, domain, layout, seed % 10, *OPTIONS)
        return "the same"
    if kind == "device":
        return beside_device(meaning, facts, seed, layout)
    own = given_arrays(meaning, facts, domain, layout, seed % 10)
    expected = judged(meaning, facts, own, domain)
    # Small domains have small tiles, so that every other program has those of a large one.
    usual = (509, 487, domain[2]) if seed % 2 else None
    kernels = for_scalars(meaning, facts) if seed % 4 < 2 else (meaning, facts)
    artifact = EmulatedArtifact(plan(*kernels), folder, usual=usual)
    got = ran(artifact, meaning, facts, own, domain, kernels[0].choices)
    assert_same(got.arrays, expected.arrays)
    return "the same"


def beside_device(meaning: Program, facts: Any, seed: int, layout: str) -> str:
    """Return "the same"; raises AssertionError where a CUDA device gives other bits."""
    random = Random(seed + 1)
    domain = (random.randint(1, 70), random.randint(1, 20), random.randint(facts.min_levels, 12))
    own = given_arrays(meaning, facts, domain, layout, seed % 10)
    expected = judged(meaning, facts, own, domain)
    library: Any = cupy()
    moved: dict[str, Any] = {}
    for name, array in own.arrays.items():
        # An array on the device keeps strides of 0 if it is a view of one point.
        points = tuple(slice(None) if step else slice(0, 1) for step in array.strides)
        one = library.array(array[points], order="K")
        moved[name] = one if one.shape == array.shape else library.broadcast_to(one, array.shape)
    kernels = for_scalars(meaning, facts) if seed % 2 else (meaning, facts)
    artifact = CudaBackend().build(plan(*kernels))
    whole = complete(artifact, meaning, facts, kernels[0].choices)
    whole.load()(moved, SCALARS, own.origins, domain)
    assert_same({n: library.asnumpy(array) for n, array in moved.items()}, expected.arrays)
    return "the same"


def beside_one_block(text: str, meaning: Program, seed: int, options: Mapping[str, Any]) -> str:
    """Return what came of blocks; raises AssertionError where they change a bit."""
    try:
        target = "cpu" if seed % 2 else "reference"
        blocks_agree(text, meaning, drawn_cut(seed, meaning), target, seed, options)
    except BoundaryError:
        return "no such boundary for integers"
    return "the same"


def beside_single_steps(seed: int, folder: Path) -> str:
    """Return what came of steps in one kernel; raises AssertionError where single ones differ."""
    random = Random(seed)
    fed = fed_program(seed, vertical=random.random() < 0.5)
    planes = fed.step().is_vertical  # wider strips of several steps exceed what a block has
    along_i, along_j = ((random.random() < 0.5, random.random() < 0.5) for _ in range(2))
    domain = (random.randint(1, 150), random.randint(1, 30), random.randint(1, 6))
    times = random.randint(1, 3 if planes else 4)
    grid = grid_of(fed, times, domain, (along_i, along_j, (False, False)), seed % 1000)
    tile = FusedTile(
        width=random.choice((1, 2) if planes else (1, 2, 4)),
        depth=random.choice((3, 8, 20)),
        rows=random.choice((2, 3)) if planes else 1,
        warps=random.choice((4, 5)) if planes else 1,
        ahead=random.randint(0, 2 if planes else 3),
        unroll=random.randint(1, 2 if planes else 3),
    )
    steps = FusedExecutable(
        levels_at_once(fed.step(), grid.steps),
        EmulatedMachine(folder / "loaded", shuffled=random.choice((0, 2))),
        Cache(folder / "compiled"),
        lambda _levels, _domain: tile,
        sides=grid.sides,
        alternate=False,
    )
    form = usual_form(steps.levels, tile)
    if form.columns <= 0 or form.lines <= 0:
        return "too wide for its strip"
    steps(grid.arrays, grid.scalars, grid.origins, grid.domain)
    for name, values in grid.expected().items():
        np.testing.assert_array_equal(grid.inside(grid.arrays, name), values, err_msg=name)
    return "the same"


def _beside(
    kind: str, number: int, folder: Path, *, general: bool, whole: bool, tables: bool
) -> str:
    """Return what came of the comparison that belongs to a number; raises as that does."""
    if kind == "fused":
        return beside_single_steps(number, folder)
    whole = whole or tables
    peer = kind == "gt4py"
    text = program(number, general=general, whole=whole, peer=peer, tables=tables or None)
    options: Mapping[str, Any] = GIVEN if whole else {}
    inner: Mapping[str, int] = (
        literals(number) if whole and kind in ("cpu", "cuda", "device") else {}
    )
    meaning, facts = front(text, **options, **inner)
    if kind == "gt4py":
        return beside_gt4py(text, meaning, number, folder, options)
    if kind == "blocks":
        return beside_one_block(text, meaning, number, options)
    return beside_reference(meaning, facts, number, kind, folder)


def compared(given: argparse.Namespace, share: int) -> Counter[str]:
    """Return how often each outcome was found by one of the processes."""
    until = perf_counter() + given.seconds
    grammar = {"general": given.general, "whole": given.whole, "tables": given.tables}
    if given.kind in ("cpu", "blocks"):
        from interpreted import patch

        patch(pytest.MonkeyPatch())
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        if given.kind == "gt4py":
            config: Any = importlib.import_module("gt4py.cartesian.config")
            config.cache_settings["root_path"] = name
        for number in itertools.count(given.first + 1 + share, given.processes):
            made = (found.total() - found[REFUSED]) * given.processes
            if made >= given.count or perf_counter() > until:
                break
            try:
                found[_beside(given.kind, number, folder, **grammar)] += 1
            except ProgramError:
                found[REFUSED] += 1
            except Exception as error:  # whatever fails is a fault of a target
                found["different"] += 1
                what = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                print(f"{given.kind} {number}, {grammar}: {what}{error}", flush=True)
    if given.processes > 1:  # the script may be stopped before the last of them is done
        print(f"process {share}: {_counts(found)}", flush=True)
    return found


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in found.most_common())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=["gt4py", "cpu", "cuda", "blocks", "fused", "device"])
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--general", action="store_true", help="with loops, levels, components")
    parser.add_argument("--whole", action="store_true", help="with the whole language")
    parser.add_argument("--tables", action="store_true", help="all of them with tables")
    given = parser.parse_args()
    if given.processes == 1:
        found = compared(given, 0)
    else:
        # A process that was forked cannot use a device.
        with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
            shares = pool.map(compared, itertools.repeat(given), range(given.processes))
            found = sum(shares, Counter[str]())
    print(_counts(found))


if __name__ == "__main__":
    main()
