"""Axes that a program does not tell apart: their order, and which ones are joined."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from differential import front
from hypothesis import given
from hypothesis import strategies as st
from programs import drawn, reference, scheduled

from halocline_engine.backends.cuda.kernels.levelwise.tile import levelwise_tile
from halocline_engine.backends.cuda.kernels.points.tile import points_tile
from halocline_engine.backends.cuda.model.coalesce import ArrayLayout, axes_alike, coalesced
from halocline_engine.backends.cuda.model.entries import arrays_of, entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import variant_of, view_of
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

POINTS = """
def points(a: Field[float64], b: Field[float64], s: float64):
    with computation(PARALLEL), interval(...):
        t = a * s
        b = t + b if t > 0.5 else b
"""
COLUMNS = """
def columns(a: Field[float64], p: Field[IJ, float64], q: Field[K, float64], b: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            b = a * p
        with interval(1, None):
            b = b[0, 0, -1] + a * q
"""


def _body(value: str, extra: str = "", interval: str = "...") -> str:
    return f"""
def program(a: Field[float64], b: Field[float64]{extra}):
    with computation(PARALLEL), interval({interval}):
        b = {value}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (POINTS, 3),
        (COLUMNS, 2),
        (_body("a[0, 0, 1]", interval="0, -1"), 2),
        (_body("2.0 * a", interval="1, None"), 2),
        (_body("a * m", ", m: Field[IJ, float64]"), 2),
        (_body("a * m", ", m: Field[K, float64]"), 2),
        (_body("a * m", ", m: Field[I, float64]"), 0),
        (_body("a[1, 0, 0]"), 0),
        (_body("a[0, -1, 0]"), 0),
        (_body("a.at(K=2)"), 2),
        # A field that nothing reads or writes is no array of the call.
        (_body("2.0 * a", ", m: Field[I, float64]").replace("* m", ""), 3),
        (_body("a if K > 2 else b"), 2),
    ],
)
def test_what_a_program_tells_apart(text: str, expected: int) -> None:
    assert axes_alike(plan(*front(text))) == expected


def test_regions_have_places_along_i_and_j() -> None:
    text = """
def program(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = a
        with horizontal(region[I[0], :]):
            b = 2.0 * a
"""
    assert axes_alike(plan(*front(text))) == 0


def test_a_temporary_that_is_read_beside_a_point_tells_axes_apart() -> None:
    text = """
def program(a: Field[float64], b: Field[float64]):
    with computation(FORWARD), interval(...):
        t = 2.0 * a
        b = t[1, 0, 0]
"""
    assert axes_alike(plan(*front(text))) == 0


def _layout(
    shape: Domain, order: str, pad: Domain = (0, 0, 0), origin: Domain = (0, 0, 0), size: int = 8
) -> ArrayLayout:
    """Return an array with axes from the slowest to the fastest, with so much behind each row."""
    strides, step = [0, 0, 0], size
    for axis in reversed(order):
        number = "IJK".index(axis)
        strides[number], step = step, step * (shape[number] + pad[number])
    return ArrayLayout("a", size, shape, (strides[0], strides[1], strides[2]), origin)


@pytest.mark.parametrize("order", ["".join(order) for order in permutations("IJK")])
def test_arrays_without_padding_are_a_row(order: str) -> None:
    (found,), domain = coalesced((_layout((3, 5, 7), order),), (3, 5, 7), 3)
    assert domain == (105, 1, 1)
    assert (found.shape, found.origin) == ((105, 1, 1), (0, 0, 0))
    assert found.strides[0] == 8
    assert all(stride % 16 == 0 and stride >= 105 * 8 for stride in found.strides[1:])


@pytest.mark.parametrize(
    ("layout", "domain", "alike", "expected"),
    [
        # Padding behind rows parts them, and levels stay joined with rows.
        (_layout((3, 5, 7), "KJI", pad=(1, 0, 0)), (3, 5, 7), 3, (3, 35, 1)),
        (_layout((3, 5, 7), "KJI", pad=(0, 1, 0)), (3, 5, 7), 3, (15, 7, 1)),
        (_layout((3, 5, 7), "IJK", pad=(0, 0, 2)), (3, 5, 7), 3, (7, 15, 1)),
        (_layout((3, 5, 7), "IJK", pad=(0, 0, 2)), (3, 5, 7), 2, (15, 1, 7)),
        (_layout((3, 5, 7), "KIJ", pad=(0, 2, 0)), (3, 5, 7), 2, (5, 3, 7)),
        # So does a halo, but not what lies before a domain of whole planes.
        (_layout((5, 7, 7), "KJI", origin=(1, 1, 0)), (3, 5, 7), 3, (3, 5, 7)),
        (_layout((3, 5, 9), "KJI", origin=(0, 0, 1)), (3, 5, 7), 3, (105, 1, 1)),
        (_layout((3, 7, 9), "KJI", origin=(0, 1, 1)), (3, 5, 7), 3, (15, 7, 1)),
        # An axis of one element is not seen, but one point among several is.
        (_layout((105, 1, 1), "IJK"), (105, 1, 1), 3, (105, 1, 1)),
        (_layout((1, 1, 105), "IJK"), (1, 1, 105), 3, (105, 1, 1)),
        (_layout((4, 6, 1), "JIK"), (4, 6, 1), 3, (24, 1, 1)),
        (_layout((4, 1, 6), "IJK"), (4, 1, 6), 2, (4, 1, 6)),
        (_layout((4, 6, 3), "KJI", origin=(0, 0, 2)), (4, 6, 1), 3, (24, 1, 1)),
        (_layout((1, 1, 1), "KJI"), (1, 1, 1), 3, (1, 1, 1)),
        # No points stay none.
        (_layout((1, 5, 7), "KJI"), (0, 5, 7), 3, (0, 5, 7)),
        # A row has no more points than threads can count.
        (_layout((1 << 16, 1 << 16, 2), "KJI"), (1 << 16, 1 << 16, 2), 3, (1 << 16, 1 << 17, 1)),
    ],
)
def test_domains(layout: ArrayLayout, domain: Domain, alike: int, expected: Domain) -> None:
    (found,), points = coalesced((layout,), domain, alike)
    assert points == expected
    assert all(
        n + first <= size for n, first, size in zip(points, found.origin, found.shape, strict=True)
    )


def test_arrays_in_different_orders_stay_as_they_are() -> None:
    several = (_layout((3, 5, 7), "KJI"), _layout((3, 5, 7), "IJK")._replace(name="b"))
    assert coalesced(several, (3, 5, 7), 3) == (several, (3, 5, 7))


@pytest.mark.parametrize(
    "change",
    [
        {"strides": (0, 24, 120)},
        {"strides": (-8, 24, 120)},
        {"strides": (8, 8, 120)},
        {"strides": (12, 36, 180)},
    ],
)
def test_odd_strides_stay_as_they_are(change: dict[str, Any]) -> None:
    layout = _layout((3, 5, 7), "KJI")._replace(**change)
    assert coalesced((layout,), (3, 5, 7), 3) == ((layout,), (3, 5, 7))


def test_fields_of_fewer_axes() -> None:
    full = _layout((3, 5, 7), "IJK")
    plane = ArrayLayout("p", 8, (3, 5, 1), (40, 8, 0), (0, 0, 0))
    profile = ArrayLayout("q", 8, (1, 1, 9), (0, 0, 8), (0, 0, 1))
    (a, p, q), domain = coalesced((full, plane, profile), (3, 5, 7), 2)
    assert domain == (15, 1, 7)
    assert (a.strides[0], a.strides[2], a.shape) == (56, 8, (15, 1, 7))
    assert (p.strides[0], p.strides[2], p.shape) == (8, 0, (15, 1, 1))
    assert q == profile


def _places(layouts: tuple[ArrayLayout, ...], domain: Domain) -> list[tuple[int, ...]]:
    """Return where each point has its elements, in bytes from the first of each array."""
    return sorted(
        tuple(
            sum((n + o) * s for n, o, s in zip(point, a.origin, a.strides, strict=True))
            for a in layouts
        )
        for point in np.ndindex(*domain)
    )


@given(st.data())
def test_points_keep_their_elements(data: st.DataObject) -> None:
    domain = tuple(data.draw(st.integers(1, 4)) for _ in range(3))
    i, j, k = domain
    order = data.draw(st.sampled_from(["".join(order) for order in permutations("IJK")]))
    layouts: list[ArrayLayout] = []
    for name in "ab":
        before = [data.draw(st.integers(0, 1)) for _ in range(3)]
        shape = tuple(
            n + b + data.draw(st.integers(0, 1)) for n, b in zip(domain, before, strict=True)
        )
        pad = tuple(data.draw(st.integers(0, 1)) for _ in range(3))
        size = data.draw(st.sampled_from([4, 8]))
        made = _layout(
            (shape[0], shape[1], shape[2]),
            order,
            (pad[0], pad[1], pad[2]),
            (before[0], before[1], before[2]),
            size,
        )
        layouts.append(made._replace(name=name))
    alike = data.draw(st.sampled_from([2, 3]))
    found, points = coalesced(tuple(layouts), (i, j, k), alike)
    assert _places(found, points) == _places(tuple(layouts), (i, j, k))
    if alike == 2:
        assert points[2] == k
        assert all(a.strides[2] == b.strides[2] for a, b in zip(found, layouts, strict=True))


@pytest.mark.parametrize("order", ["".join(order) for order in permutations("IJK")])
@pytest.mark.parametrize(("text", "rows"), [(POINTS, "60 x 1 x 1"), (COLUMNS, "12 x 1 x 5")])
def test_the_bits_of_the_reference_in_any_order_of_axes(
    load: Any, order: str, text: str, rows: str
) -> None:
    schedule, domain = scheduled(text), (3, 4, 5)
    executable = load(schedule)
    shape = {"a": domain, "b": domain, "p": (3, 4, 1), "q": (1, 1, 5)}
    names = [name for name, _ in arrays_of(schedule)]
    fields = {
        name: drawn(shape[name], number).transpose(["IJK".index(n) for n in order])
        for number, name in enumerate(names)
    }
    back = [order.index(n) for n in "IJK"]
    fields = {name: np.ascontiguousarray(array).transpose(back) for name, array in fields.items()}
    origins: dict[str, Domain] = dict.fromkeys(fields, (0, 0, 0))
    expected = reference(schedule, fields, {"s": 0.9}, origins, domain)
    executable(fields, {"s": 0.9}, origins, domain)
    for name in fields:
        np.testing.assert_array_equal(fields[name], expected[name])
    whole = text is POINTS or order in ("IJK", "JIK", "KIJ", "KJI")
    assert (rows in executable.tilings()[0]) is whole


def _in_memory(schedule: Schedule, domain: Domain, order: str, chooser: Any) -> Tile:
    """Return the tile of the only kernel on arrays without padding."""
    layouts = [_layout(domain, order, size=d.itemsize) for _, d in arrays_of(schedule)]
    views = [
        view_of(f"a{n}", n << 40, a.itemsize, a.shape, a.strides, a.origin)
        for n, a in enumerate(layouts, 1)
    ]
    (entry,) = entries_of(schedule)
    written = [name in entry.written for name, _ in arrays_of(schedule)]
    return chooser(entry, schedule, variant_of(views, written), domain)


@pytest.mark.parametrize("order", ["IJK", "KJI"])
def test_strides_of_an_axis_of_one_element_do_not_count(order: str) -> None:
    schedule = plan(*front(_body("2.0 * a")))
    tile = _in_memory(schedule, (1_000_000, 1, 1), order, points_tile)
    assert (tile.block, tile.width, tile.rows) == ((128, 1), 2, 1)


def test_columns_of_a_thread_lie_along_the_axis_that_has_several() -> None:
    schedule = plan(*front(_body("a.at(K=K - 1)", interval="1, None")))
    for domain, shape in (((512, 512, 64), (1, 4)), ((1 << 18, 1, 64), (4, 1))):
        tile = _in_memory(schedule, domain, "JIK", levelwise_tile)
        assert (tile.levelwise, tile.width, tile.rows) == (1, *shape)
