"""Morphologies in SWC files: forms of text and of somas, and numbers that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from morphology_files import draw_cell

import halocline_engine as he
from halocline_engine.datasets.formats.swc import read_swc

TEXT = "# a cell\n1 1 0 0 0 5 -1\n2 3 10 0 0 1 1\n3 3 20 0 0 1 2\n"


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "cell.swc"
    path.write_text(text, encoding)
    return path


@pytest.mark.parametrize("text", [TEXT, TEXT.split("\n", 1)[1]])
def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path, text: str) -> None:
    plain = read_swc(written(tmp_path, text))
    marked = read_swc(written(tmp_path, text, "utf-8-sig"))
    assert plain.equals(marked)
    assert plain.sizes["node"] == 3


def test_radii_are_not_negative(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT.replace("20 0 0 1 2", "20 0 0 -0.5 2"))
    with pytest.raises(he.DatasetError) as caught:
        read_swc(path)
    assert str(caught.value) == (
        f"SWC file '{path}', line 4: the radius must be at least 0, got -0.5. A radius that is not"
        " known may be 0."
    )


@pytest.mark.parametrize("seed", range(60))
def test_drawn_cells(seed: int, tmp_path: Path) -> None:
    cell = draw_cell(np.random.default_rng(seed))
    path = tmp_path / "cell.swc"
    path.write_bytes(cell.content)
    found = read_swc(path, resistivity=150.0)
    assert found["parent"].values.tolist() == [node.parent for node in cell.nodes]
    assert found["type"].values.tolist() == [node.kind for node in cell.nodes]
    np.testing.assert_allclose(found["area"], cell.areas(), rtol=1e-12)
    np.testing.assert_allclose(found["conductance"], cell.conductances(150.0), rtol=1e-12)


R = 6.5
POINT = f"1 1 3 4 0 {R} -1\n"
THREE = f"{POINT}2 1 3 {4 - R} 0 {R} 1\n3 1 3 {4 + R} 0 {R} 1\n"


@pytest.mark.parametrize(
    ("text", "area"),
    [
        (POINT, 4 * np.pi * R**2),
        (THREE, 4 * np.pi * R**2),  # NeuroMorpho.Org: the area of that sphere
        (THREE + "4 3 3 4 20 1 1\n5 3 3 4 60 1 4\n", 4 * np.pi * R**2),
        (f"{POINT}2 1 3 4 10 {R} 1\n", 2 * np.pi * R * 10),
        (f"{POINT}2 1 3 4 10 {R} 1\n3 1 3 4 13 {R} 2\n", 2 * np.pi * R * 13),
        (f"{POINT}2 1 3 4 3 {R - 4} 1\n", np.pi * (2 * R - 4) * 5),
        (f"{POINT}2 1 3 4 0 {R} 1\n", 4 * np.pi * R**2),  # twice at one place
        (f"1 3 0 4 0 1 -1\n2 1 3 4 0 {R} 1\n", 4 * np.pi * R**2),  # the root is elsewhere
    ],
)
def test_areas_of_somas(text: str, area: float, tmp_path: Path) -> None:
    found = read_swc(written(tmp_path, text))
    soma = found["area"].where(found["type"] == 1).sum().item()
    assert soma == pytest.approx(area, rel=1e-3 if "2 1 3 4 0" in text else 1e-12)


@pytest.mark.parametrize("kind", [-1, 0, 127, 128, 255, 257, 1025, 2**31 - 1])
def test_types_stay_as_they_are(kind: int, tmp_path: Path) -> None:
    """257 became 1, a soma, and with it areas and conductances."""
    found = read_swc(written(tmp_path, f"1 {kind} 0 0 0 5 -1\n2 3 10 0 0 1 1\n"))
    other = read_swc(written(tmp_path, "1 7 0 0 0 5 -1\n2 3 10 0 0 1 1\n"))
    assert found["type"].values.tolist() == [kind, 3]
    assert found["area"].equals(other["area"])
    assert found["conductance"].equals(other["conductance"])


@pytest.mark.parametrize(
    "head",
    [
        "# trac\xe9 par X, \xb5m\n".encode("latin-1"),
        "# tracé par X, µm\n".encode(),
        b"# a\x85b\n",
        "# a\u2028b\n".encode(),
        b"# a\x0bb\x0cc\x1dd\n",
        b"\xef\xbb\xbf# a\r\n",
    ],
)
def test_comments_of_any_bytes(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cell.swc"
    path.write_bytes(head + TEXT.encode())
    assert read_swc(path).equals(read_swc(written(tmp_path, TEXT)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 1.7 0 0 0 5 -1", "the type must be a whole number, got 1.7."),
        ("1.2 1 0 0 0 5 -1", "the number of the node must be a whole number, got 1.2."),
        ("1 1 0 0 0 5 -1.5", "the parent must be a whole number, got -1.5."),
        ("1 2147483648 0 0 0 5 -1", "the type must be from -2147483648 to 2147483647, got"),
        ("-3 1 0 0 0 5 -1", "the number of the node must be at least 0, got -3."),
        ("1 1 0 0 0 5 1", "node 1 is its own parent. A root has the parent -1."),
        ("1 1 0 0 0 5 -2", "there is no node -2, which should be the parent. A root has the"),
        ("1 1 0 0 0 5 0", "there is no node 0, which should be the parent. A root has the"),
        ("1 1 0 0 0 -5 -1", "the radius must be at least 0, got -5. A radius that is not known"),
        ("1 1 0 0 0 5", "expected 7 numbers, got '1 1 0 0 0 5'."),
        ("1 1 0 0 nan 5 -1", "expected 7 numbers, got '1 1 0 0 nan 5 -1'."),
        ("1 1 0 0 1_0 5 -1", "expected 7 numbers, got '1 1 0 0 1_0 5 -1'."),
        ("1 1 0 0 1e999 5 -1", "expected 7 numbers, got '1 1 0 0 1e999 5 -1'."),
        ("id,type,x,y,z,r,pid", "expected 7 numbers, got 'id,type,x,y,z,r,pid'. Numbers have a"),
        ("1,1,,0,0,5,-1", "expected 7 numbers, got '1,1,,0,0,5,-1'. Numbers have a point, and"),
        (
            "1 1 0,5 0,0 0,0 5,0 -1",
            "expected 7 numbers, got '1 1 0,5 0,0 0,0 5,0 -1'. Numbers have a point, and commas"
            " only separate them.",
        ),
    ],
)
def test_lines_that_are_no_node(line: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"# a cell\n\n{line}\n")
    with pytest.raises(he.DatasetError) as caught:
        read_swc(path)
    assert str(caught.value).startswith(f"SWC file '{path}', line 3: {message}")


def test_nodes_that_are_no_tree(tmp_path: Path) -> None:
    def message(text: str) -> str:
        path = written(tmp_path, text)
        with pytest.raises(he.DatasetError) as caught:
            read_swc(path)
        return str(caught.value).removeprefix(f"SWC file '{path}', ")

    assert message("1 1 0 0 0 5 -1\n3 3 1 0 0 1 1\n3 3 2 0 0 1 1\n") == (
        "line 3: node 3 occurs again; it is in line 2."
    )
    cycle = "1 1 0 0 0 5 -1\n2 3 1 0 0 1 4\n3 3 2 0 0 1 2\n4 3 3 0 0 1 3\n5 3 3 0 0 1 4\n"
    assert message(cycle) == (
        "line 2: node 2 leads to no root: its parents form a cycle. A root has the parent -1."
    )
    assert message("# nothing\n").endswith("has no nodes.")


def test_several_roots_are_refused_by_solves(tmp_path: Path) -> None:
    cells = read_swc(written(tmp_path, "1 1 0 0 0 5 -1\n2 3 9 0 0 1 1\n3 3 50 0 0 1 -1\n"))
    assert cells["area"].values[0] == pytest.approx(100 * np.pi)
    given = cells.assign(d=("node", np.ones(3)), u=("node", np.zeros(3)), r=("node", np.ones(3)))
    with pytest.raises(he.FieldError) as caught:
        he.tree(given, diagonal="d", upper="u", parent="parent", rhs="r", row_size="row_size")
    assert str(caught.value) == (
        "Cell 0 has 2 roots, expected one. Make a cell of each tree: a root's parent is -1."
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"cell.swc": 1e-3},
            "Argument 'micrometres' names 'cell.swc', but the files are ['cell'].",
        ),
        (0.0, "Argument 'micrometres' must be positive, got 0.0."),
        ({"cell": -1.0}, "Argument 'micrometres' must be positive, got {'cell': -1.0}."),
        (np.nan, "Argument 'micrometres' must be positive, got nan."),
    ],
)
def test_units_of_length(given: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(he.ArgumentError) as caught:
        read_swc(written(tmp_path, TEXT), micrometres=given)
    assert str(caught.value).startswith(message)
    assert read_swc(written(tmp_path, TEXT), micrometres={"cell": 1e-3})["x"][1] == 0.01
