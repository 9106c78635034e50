"""The odd programs that GT4Py accepts give the same arrays here, as NumPy and as loops."""

import importlib
import importlib.util
import json
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from interpreted import patch

import halocline_engine as he
from halocline_engine.analysis.named import given_scalars, used_fields
from halocline_engine.errors import ProgramError
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.types import Axis

DATA = Path(__file__).parents[1] / "data" / "gtscript"
PREAMBLE = (DATA / "preamble.txt").read_text()
#: GT4Py refuses this function of the preamble as soon as it is decorated.
TWO_RETURNS = re.search(r"@gtscript.function\ndef g6.*?return -x\n", PREAMBLE, re.DOTALL)
SHAPE = (11, 10, 9)
ORIGIN = (3, 3, 1)
DOMAIN = (5, 4, 7)
#: What GT4Py's numpy lacks, and plain Python runs there.
DEBUG = ("NotImplementedError", "Data indices must be scalars")
#: Fields that are indices of components, and of levels: beyond the array GT4Py writes somewhere.
INDEXED = {"x25b": "n", "x29b": "ix", "x29": "ix", "k4w": "ix"}
#: Defects there, see the page on differences: the horizontal part of an offset is dropped.
DEFECTS = ("k4x",)


def accepted() -> Iterator[Any]:
    """Yield the programs that are part of the language here."""
    for index, program in enumerate(json.loads((DATA / "accepted.json").read_text())["programs"]):
        # GT4Py's own variables clash with fields of these names.
        for name, other in (("i", "index"), ("k", "levels")):
            program["source"] = re.sub(rf"\b{name}\b", other, program["source"])
        name = program["source"].split("(", 1)[0].split()[1]
        try:
            he.stencil(
                PREAMBLE + program["source"],
                externals=externals(program, None),
                dtypes={"T": "float32"},
                target="reference",
            )
        except ProgramError:
            continue
        yield pytest.param(program, f"accepted_{index}", name, id=f"{index}-{program['id']}")


def externals(program: dict[str, Any], module: ModuleType | None) -> dict[str, Any]:
    """Return the externals of a program: for GT4Py out of its module, or for us."""
    gtscript: Any = importlib.import_module("gt4py.cartesian.gtscript") if module else None
    result: dict[str, Any] = {}
    for name, value in program["externals"].items():
        given = re.match(r"AxisIndex\(axis=(\w), index=(-?\d+), offset=(-?\d+)\)", str(value))
        if given:
            axis, index, offset = given[1], int(given[2]), int(given[3])
            theirs = getattr(gtscript, axis)[index] + offset if gtscript else None
            result[name] = theirs or {"axis": axis, "index": index, "offset": offset}
        elif str(value).startswith("function "):
            function = str(value).split()[1]
            result[name] = getattr(module, function) if module else {"function": function}
        else:
            result[name] = value
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gt4py")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def along(numbers: tuple[int, int, int], axes: Sequence[Axis]) -> tuple[int, ...]:
    return tuple(numbers["IJK".index(axis)] for axis in axes)


def shapes(program: Program) -> dict[str, tuple[tuple[Axis, ...], tuple[int, ...], str]]:
    """Return the axes of each array argument that is used, its data dimensions, and its type."""
    found: dict[str, tuple[tuple[Axis, ...], tuple[int, ...], str]] = {}
    tables = {lookup.name: lookup.shape for lookup in program.lookups}
    wholes = {whole.name: whole.shape for whole in program.components}
    for field in used_fields(program):
        name = field.name.partition(".")[0]
        axes = () if name in tables else field.axes
        found[name] = axes, tables.get(name, wholes.get(name, ())), field.dtype.value
    return found


def theirs_of(module: ModuleType, name: str, given: Any) -> Any:
    """Compile there for numpy, or for plain Python where numpy lacks something."""
    gtscript: Any = importlib.import_module("gt4py.cartesian.gtscript")
    options: Any = {"format_source": False, "externals": given, "dtypes": {"T": np.float32}}
    try:
        return gtscript.stencil(backend="numpy", definition=getattr(module, name), **options)
    except (NotImplementedError, ValueError) as error:
        if not any(word in repr(error) for word in DEBUG):
            raise
        return gtscript.stencil(backend="debug", definition=getattr(module, name), **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("program", "stem", "name"), list(accepted()))
def test_odd_programs_give_the_same(
    program: dict[str, Any], stem: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TWO_RETURNS is not None
    path = folder / f"{stem}.py"
    path.write_text(PREAMBLE.replace(TWO_RETURNS[0], "") + program["source"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config: Any = importlib.import_module("gt4py.cartesian.config")
        config.cache_settings["root_path"] = str(folder)
        module = load(path)
        theirs = theirs_of(module, name, externals(program, module))
    patch(monkeypatch)
    ours, loops = (
        he.stencil(
            PREAMBLE + program["source"],
            externals=externals(program, module),
            dtypes={"T": "float32"},
            target=target,
        )
        for target in ("reference", "cpu")
    )
    random = np.random.default_rng(7)
    meaning = ours.compiled.program
    kinds = shapes(meaning)
    arrays = {
        key: random.normal(size=(*along(SHAPE, axes), *data)).astype(dtype)
        for key, (axes, data, dtype) in kinds.items()
    }
    if program["id"] in INDEXED:
        arrays[INDEXED[program["id"]]] = random.integers(0, 2, SHAPE)
    expected = {key: array.copy() for key, array in arrays.items()}
    scalars = {
        scalar.name: 1 if scalar.dtype.is_integer else 1.5 for scalar in given_scalars(meaning)
    }
    origin = {key: along(ORIGIN, axes) for key, (axes, _, _) in kinds.items() if axes}
    theirs(**expected, **scalars, origin=origin, domain=DOMAIN)
    same = {key: array.copy() for key, array in arrays.items()}
    ours(**arrays, **scalars, origin=origin, domain=DOMAIN)
    loops(**same, **scalars, origin=origin, domain=DOMAIN)
    for key, array in arrays.items():
        np.testing.assert_allclose(same[key], array, rtol=1e-13, atol=0.0, err_msg=key)
    if program["id"] in DEFECTS:
        return
    for key, array in arrays.items():
        np.testing.assert_allclose(array, expected[key], rtol=1e-13, atol=0.0, err_msg=key)


def test_most_are_compared() -> None:
    assert len(list(accepted())) == 51
