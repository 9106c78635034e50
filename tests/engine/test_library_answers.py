"""Answers of the library to calls as users of other packages write them, and where hints lead."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest
import xarray as xr
from mistakes import BANDS, PROGRAM, sea

import halocline as hc
import halocline_engine as he

_NO_WEIGHTS = (
    "No weights are made here: write them with xESMF (to_netcdf), ESMF_RegridWeightGen or CDO, and"
    " pass the file or its dataset."
)
_BOUNDARY = (
    "The boundary of 'x' must be one of 'periodic', 'edge', 'reflect', 'symmetric',"
    " 'antisymmetric', 'extrapolate', 'none' or {'constant': number}, got"
)
_IN_MODULE = PROGRAM.replace("weight * around", "weight * around * ppm.c1 + ppm.c2").replace(
    "import numpy as np", "import numpy as np\nfrom model import ppm"
)


def _any(value: object) -> Any:
    return value


def run(program: Any = PROGRAM, dataset: Any = None, **options: Any) -> xr.Dataset:
    """Run a program on the sea, with arguments that are right but for `options`."""
    options = {"scalars": {"weight": 0.25}, "target": "reference", **options}
    return he.run(program, sea() if dataset is None else dataset, **options)


def line(text: str) -> str:
    return PROGRAM.replace("s = t + weight * around", text)


def laplacian_on_a_line(values: Any, mode: str, **options: Any) -> Any:
    """Compute the program by NumPy, with ghosts of `numpy.pad`."""
    padded = np.pad(values, ((0, 0), (0, 0), (1, 1)), mode=_any(mode), **options)
    return values + 0.25 * (padded[..., :-2] + padded[..., 2:] - 2.0 * values)


def solve(**changes: Any) -> xr.Dataset:
    return he.tridiagonal(sea(), **_any({**BANDS, **changes}))


#: By name: a call, the sentence of the answer, and its hint.
TABLE: Mapping[str, tuple[Callable[[], object], str, str]] = {
    "constants of a module": (
        lambda: run(_IN_MODULE),
        "'ppm.c1' is imported from a module, and modules are not read.",
        "Pass externals={'ppm': {'c1': ..., 'c2': ...}} ('ppm' may be the module itself), or define"
        " them in the text.",
    ),
    "one of the constants of a module": (
        lambda: run(_IN_MODULE, externals={"ppm.c1": 1.0}),
        "The program reads 'ppm.c2', but the external 'ppm' has no 'c2'.",
        "Pass an object or a mapping that has it.",
    ),
    "a module by its path": (
        lambda: run(_IN_MODULE, externals={"ppm": Path("model/ppm.py")}),
        "The external 'ppm' must be a module, a function or a number, got the path 'model/ppm.py'.",
        "Modules are not read from files: import it, and pass externals={'ppm': ppm}, or write its"
        " constants into the text, below 'class ppm:'.",
    ),
    "a module by its text": (
        lambda: run(_IN_MODULE, externals={"ppm": "c1 = 1.0\nc2 = 2.0\n"}),
        "The external 'ppm' must be a module, a function or a number, got a text.",
        "Modules are not read from files: import it, and pass externals={'ppm': ppm}, or write its"
        " constants into the text, below 'class ppm:'.",
    ),
    "periodic=True": (
        lambda: run(periodic=True),
        "run() has no argument 'periodic'.",
        "Boundaries are given by dimension: boundary={'x': 'periodic'}.",
    ),
    "periodic=[...]": (
        lambda: run(periodic=["x", "y"]),
        "run() has no argument 'periodic'.",
        "Boundaries are given by dimension: boundary={'x': 'periodic', 'y': 'periodic'}.",
    ),
    "periodic=False": (
        lambda: run(periodic=False),
        "run() has no argument 'periodic'.",
        "Leave it out: boundaries are open unless boundary={...} gives others.",
    ),
    "fill_value": (
        lambda: run(fill_value=0),
        "run() has no argument 'fill_value'.",
        "Boundaries are given by dimension: boundary={'x': {'constant': 0}}.",
    ),
    "padding": (
        lambda: run(padding="wrap"),
        "run() has no argument 'padding'.",
        "Boundaries are given by dimension: boundary={'x': 'periodic'}.",
    ),
    "depth": (
        lambda: run(depth=1),
        "run() has no argument 'depth'.",
        "Leave it out: halos follow from the offsets of the program.",
    ),
    "a periodic stage": (
        lambda: he.sequence(
            [{"stencil": {"program": PROGRAM, "scalars": {"weight": 0.5}, "cyclic": "x"}}], sea()
        ),
        "Stage 1, 'stencil', has no argument 'cyclic'.",
        "Boundaries are given by dimension: boundary={'x': 'periodic'}.",
    ),
    "a dimension as argument": (
        lambda: run(x="wrap"),
        "run() has no argument 'x'.",
        "Boundaries are given by dimension: boundary={'x': 'periodic'}.",
    ),
    "boundary of one end": (
        lambda: run(boundary={"x": {"low": "edge", "high": "fill"}}),
        f"{_BOUNDARY} 'fill'.",
        "Write boundary={'x': {'high': {'constant': 0.0}}}.",
    ),
    "boundary that mirrors twice": (
        lambda: run(boundary={"x": "grid-mirror"}),
        f"{_BOUNDARY} 'grid-mirror'.",
        "Write boundary={'x': 'symmetric'}.",
    ),
    "boundary of no package": (
        lambda: run(boundary={"x": "linear_ramp"}),
        f"{_BOUNDARY} 'linear_ramp'.",
        "For example boundary={'x': 'periodic', 'y': {'low': 'edge', 'high': {'constant': 0}}}.",
    ),
    "boundary of an axis": (
        lambda: run(boundary={"X": {"low": "edge"}}),
        "A boundary was given for 'X', which is not a dimension of the program's fields.",
        "'X' is the dimension 'x': boundary={'x': {'low': 'edge'}}.",
    ),
    "axes reversed": (
        lambda: run(axes={"x": "I", "y": "J"}),
        "Argument 'axes' must map 'I', 'J' or 'K' to dimensions, got 'x'.",
        "Write axes={'I': 'x', 'J': 'y'}.",
    ),
    "axes of CF": (
        lambda: run(axes={"X": "x"}),
        "Argument 'axes' must map 'I', 'J' or 'K' to dimensions, got 'X'.",
        "Write axes={'I': 'x'}.",
    ),
    "an index of a loop": (
        lambda: run(line("s = weight * around + t[i + 1, j]")),
        "The name 'i' is unknown.",
        "Offsets count from the point that is computed: write 't[1, 0, 0]'.",
    ),
    "a comparison with NaN": (
        lambda: run(line("s = weight * around if t == np.nan else t")),
        "A comparison does not find missing values, as NaN is equal to no number.",
        "Write 'isnan(t)'.",
    ),
    "a comparison with None": (
        lambda: run(line("s = weight * around if t is not None else t")),
        "The operator 'is not' is not part of the language.",
        "Write 'not isnan(t)'.",
    ),
    "regrid with a method": (
        lambda: _any(he.regrid)(sea(), sea(), "bilinear"),
        "regrid() got 3 arguments by position, but takes 2 (dataset, weights).",
        _NO_WEIGHTS,
    ),
    "regrid with a method by name": (
        lambda: _any(he.regrid)(sea(), sea(), method="bilinear"),
        "regrid() has no argument 'method'.",
        _NO_WEIGHTS,
    ),
    "an operator of xgcm without a vertical dimension": (
        lambda: he.column("diff(t)", sea()[["t"]].isel(z=0).drop_vars("z")),
        "'diff' is neither a function nor an operator.",
        "Write 'GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(x)'.",
    ),
    "no vertical dimension": (
        lambda: he.column("2.0 * w", xr.Dataset({"w": (("lat", "lon"), np.ones((2, 3)))})),
        "No vertical dimension was found among 'lat', 'lon'.",
        "Say which: axis='lat', or axis={'centre': 'lat', 'face': 'lat_face'}.",
    ),
    "a size that is none": (
        lambda: he.Options(memory_limit="much"),
        "Option 'memory_limit' must be a whole number from 1, got 'much'.",
        "Write bytes, or text such as '4 GiB'.",
    ),
    "a long workspace": (
        lambda: run(workspace=f"/tmp/{'w' * 300}", steps=2, feedback={"s": "t"}),
        "The path of the workspace must have at most 3800 bytes and names of at most 255, got 305"
        " and 300.",
        "Choose a shorter one.",
    ),
    "a long name of a result": (
        lambda: solve(name="n" * 241),
        "The result cannot be named 'nnnnnnnnnnnn...nnnnnnnnnnnnn' because that is not a valid"
        " array name.",
        "Give it a shorter name: it has 241 bytes, and at most 240 are possible.",
    ),
    "a band that is None": (
        lambda: solve(lower=None),
        "Argument 'lower' must be the name of a variable, got the NoneType None.",
        "Give the name of a variable: lower='...'.",
    ),
    "a band that is a variable": (
        lambda: solve(lower=xr.DataArray([1.0], dims="z", name="below")),
        "Argument 'lower' must be the name of a variable, got the DataArray <xarray",
        "Write lower='below', and leave the variable in the dataset.",
    ),
    "a band that is an array": (
        lambda: solve(lower=np.ones(3)),
        "Argument 'lower' must be the name of a variable, got the ndarray array([1., 1., 1.]).",
        "Put it into the dataset, dataset.assign(v=(dims, values)), and write lower='v'.",
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_an_answer_of_the_table(name: str) -> None:
    call, message, hint = TABLE[name]
    with pytest.raises(he.HaloclineError) as caught:
        call()
    told, wanted = (one.partition(" <xarray")[0] for one in (caught.value.message, message))
    assert (told, caught.value.hint) == (wanted, hint)


def follow(hint: str) -> dict[str, Any]:
    """Return the arguments that the code of a hint gives."""
    code = re.search(r"\w+=\{.*\}", hint)
    assert code, hint
    return eval(f"dict({code[0]})")


@pytest.mark.parametrize(
    ("rule", "mode", "options"),
    [
        ("fill", "constant", {}),
        ("constant", "constant", {}),
        ("grid-constant", "constant", {}),
        (1.5, "constant", {"constant_values": 1.5}),
        ("extend", "edge", {}),
        ("nearest", "edge", {}),
        ("replicate", "edge", {}),
        ("mirror", "reflect", {}),
        ("wrap", "wrap", {}),
        ("grid-wrap", "wrap", {}),
        ("cyclic", "wrap", {}),
        ("CIRCULAR", "wrap", {}),
        ("perodic", "wrap", {}),
    ],
)
def test_the_hint_for_a_rule_of_another_package_gives_its_ghosts(
    rule: object, mode: str, options: dict[str, Any]
) -> None:
    with pytest.raises(he.BoundaryError) as caught:
        run(boundary={"x": rule})
    result = run(**follow(caught.value.hint))
    wanted = laplacian_on_a_line(sea()["t"].values, mode, **options)
    np.testing.assert_array_equal(result["s"].values, wanted)


@pytest.mark.parametrize(
    "wrong",
    [
        {"periodic": True},
        {"cyclic": ["x"]},
        {"fill_value": 0},
        {"cval": 2.0},
        {"padding": "edge"},
        {"x": "nearest"},
        {"boundary": {"X": "periodic"}},
        {"boundary": {"I": {"high": "edge"}}},
        {"axes": {"x": "I", "y": "J"}},
        {"axes": {"X": "x", "Z": "z"}},
    ],
)
def test_a_hint_with_arguments_can_be_followed(wrong: dict[str, Any]) -> None:
    with pytest.raises(he.RequestError) as caught:
        run(**wrong)
    assert "s" in run(**follow(caught.value.hint))


def test_the_hint_for_a_module_can_be_followed_in_four_ways() -> None:
    with pytest.raises(he.NameRuleError) as caught:
        run(_IN_MODULE)
    mapping = eval(caught.value.hint.partition("externals=")[2].partition(" (")[0])
    values = dict(zip(mapping["ppm"], (3.0, -2.0), strict=True))
    module = types.ModuleType("ppm")
    vars(module).update(values)
    by_dots = {f"ppm.{name}": value for name, value in values.items()}
    in_text = _IN_MODULE.replace("from model import ppm", "class ppm:\n    c1 = 3.0\n    c2 = -2.0")
    t = sea()["t"].values
    wanted = t[..., 1:-1] + 0.25 * (t[..., :-2] + t[..., 2:] - 2.0 * t[..., 1:-1]) * 3.0 - 2.0
    for externals in ({"ppm": values}, {"ppm": module}, by_dots):
        np.testing.assert_array_equal(run(_IN_MODULE, externals=externals)["s"][..., 1:-1], wanted)
    np.testing.assert_array_equal(run(in_text)["s"][..., 1:-1], wanted)


def test_branches_that_are_left_out_need_no_modules() -> None:
    branch = (
        "        if __INLINED(USED):\n"
        "            low, high = far.limits(t, far.G)\n"
        "            weighted = far.mean(low, high)\n"
        "        around ="
    )
    text = PROGRAM.replace("        around =", branch)
    text = text.replace("import numpy as np", "import numpy as np\nfrom model import far")
    text = text.replace("    with comp", "    from __externals__ import USED\n\n    with comp")
    result = run(text, externals={"USED": False})
    np.testing.assert_array_equal(result["s"], run()["s"])
    with pytest.raises(he.NameRuleError) as caught:
        run(text, externals={"USED": True})
    assert caught.value.hint.startswith(
        "Pass externals={'far': {'limits': ..., 'G': ..., 'mean': ...}}"
    )


def test_a_name_of_the_text_is_still_checked_in_a_branch_that_is_left_out() -> None:
    branch = "        if __INLINED(False):\n            s = q\n        around ="
    text = PROGRAM.replace("        around =", branch)
    with pytest.raises(he.NameRuleError, match="'q' is unknown"):
        run(text)


@pytest.mark.parametrize(
    ("text", "caret"), [("", False), ("\n \n", False), ("import numpy\n", True)]
)
def test_a_file_without_a_program_is_named(tmp_path: Path, text: str, caret: bool) -> None:
    file = tmp_path / "smooth.py"
    file.write_text(text)
    with pytest.raises(he.ProgramError) as caught:
        run(file)
    assert str(file) in str(caught.value)
    assert ("^" in str(caught.value)) is caret


def test_no_caret_stands_alone() -> None:
    with pytest.raises(he.ProgramError) as caught:
        run("\n\nimport numpy as np\n")
    assert caught.value.excerpt == ""


@pytest.mark.parametrize(
    ("name", "first", "kind"),
    [
        ("sst.grib", b"", "GRIB"),
        ("era5", b"GRIB\0\0\0\2", "GRIB"),
        ("dem.tif", b"II*\0", "GeoTIFF"),
        ("table.csv", b"x,y,t", "CSV"),
        ("t.npy", b"\x93NUMPY", "NumPy"),
        ("t.parquet", b"PAR1", "Parquet"),
    ],
)
def test_a_file_of_another_format(tmp_path: Path, name: str, first: bytes, kind: str) -> None:
    file = tmp_path / name
    file.write_bytes(first)
    with pytest.raises(he.DatasetError) as caught:
        run(dataset=str(file))
    assert caught.value.message == (
        f"The dataset '{file}' is a {kind} file, expected NetCDF or Zarr."
    )
    assert caught.value.hint.startswith("Pass the opened dataset: ")
    assert repr(str(file)) in caught.value.hint


def test_the_hint_for_a_table_opens_it(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    table = sea()["t"].isel(z=0, drop=True).to_dataframe()
    _any(table).to_csv(file)
    with pytest.raises(he.DatasetError) as caught:
        run(dataset=file)
    code = caught.value.hint.removeprefix("Pass the opened dataset: ")[:-1]
    opened = eval(code, {"pandas": pd})
    np.testing.assert_allclose(opened["t"], sea()["t"].isel(z=0))


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GB", 4 * 10**9), ("512 MiB", 2**29), ("1.5 kB", 1500), (" 64 KiB", 2**16), ("100", 100)],
)
@pytest.mark.parametrize("name", ["memory_limit", "device_memory_limit", "chunk_cache"])
def test_sizes_may_be_text(name: str, text: str, size: int) -> None:
    assert getattr(he.Options(**{name: _any(text)}), name) == size
    assert he.Options(**{name: _any(text)}) == he.Options(**{name: _any(size)})


@pytest.mark.parametrize("text", ["", "GB", "-1 GB", "4 bananas", "1e400"])
def test_other_texts_are_no_sizes(text: str) -> None:
    with pytest.raises(he.ArgumentError, match="memory_limit"):
        he.Options(memory_limit=text)


def test_the_old_name_of_a_size_leads_to_the_new_one() -> None:
    with pytest.raises(he.ArgumentError) as caught:
        _any(he.Options)(memory="4GB")
    arguments = eval(f"dict({caught.value.hint.removeprefix('Write ')[:-1]})")
    assert he.Options(**arguments).memory_limit == 4 * 10**9


@pytest.mark.parametrize("module", [hc, he])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Regridder", "'{}.regrid(dataset, weights)' applies weights"),
        ("Grid", "'{}.column' takes such operators"),
        ("diff", "'{}.column' takes such operators"),
        ("interp", "'{}.column' takes such operators"),
        ("map_overlap", "Write it as a program"),
        ("curl", "On a mesh it is '{}.neighbours("),
        ("solve_banded", "'{}.tridiagonal' and '{}.pentadiagonal'"),
        ("open_dataset", "Open it with xarray"),
        ("Field", "Import it from 'halocline.gtscript'"),
        ("stencli", "Did you mean 'stencil'?"),
    ],
)
def test_a_name_of_another_package(module: Any, name: str, hint: str) -> None:
    own = module.__name__
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert str(caught.value).startswith(
        f"module '{own}' has no attribute '{name}'. {hint.replace('{}', own)}"
    )
    for function in re.findall(rf"'{own}\.(?!gtscript)(\w+)", str(caught.value)):
        assert hasattr(module, function)


def test_names_that_python_asks_for_have_no_hint() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute '__wrapped__'$"):
        getattr(he, "__wrapped__")  # noqa: B009
