"""Modules of the page by themselves: what is drawn, written and read."""

from __future__ import annotations

import ast
import json
import shlex
from typing import TYPE_CHECKING, Any

import cftime  # pyright: ignore[reportMissingTypeStubs] - none
import numpy as np
import pytest
from page_scripts import in_module
from playwright.sync_api import Page

from halocline_engine.schedule.traversal.column import ColumnOrder

if TYPE_CHECKING:
    from tests.clients.web.conftest import Site

_cftime: Any = cftime


@pytest.fixture
def opened(site: Site, page: Page) -> Page:
    page.goto(f"{site.url}/ui/cluster")
    return page


def test_a_frame_draws_the_blocks_that_changed_and_no_others(opened: Page) -> None:
    drawn = in_module(
        opened,
        "job/blocks.js",
        """
        let rectangles = 0;
        const context = { fillRect: () => (rectangles += 1) };
        const side = 64;
        const order = Array.from({ length: side * side }, (_, place) => place);
        const map = new module.BlockMap(context, {
          rows: side, length: side, order, total: side * side, paint: () => "#000",
        });
        const frame = () => { rectangles = 0; const told = map.draw(); return [told, rectangles]; };
        const frames = [frame(), frame()];
        map.finish(10);
        frames.push(frame());
        map.finish(11, { worker: "w" });
        map.finish(11);
        frames.push(frame());
        map.finish(4096);
        frames.push(frame(), frame());
        map.repaint();
        frames.push(frame());
        return frames;
        """,
    )
    counts = [4096, 0, 10, 1, 4085, 0, 4096]
    assert drawn == [[count, count] for count in counts]


@pytest.mark.parametrize("order", ["row", "column", "zigzag"])
def test_blocks_stand_in_the_order_of_the_engine(opened: Page, order: str) -> None:
    rows, length, width = 5, 7, 3
    plan = {"order": order, "rows": rows, "length": length, "width": width}
    expected = np.arange(rows * length)
    if order != "row":
        expected = ColumnOrder(rows, length, width, order == "zigzag").order()
    places = in_module(opened, "job/order.js", "return module.orderOf(given)", plan)
    assert places == expected.tolist()


INPUTS: dict[str, Any] = {
    "program": 'def f(a: Field[float]):\n    """It\'s \\ odd: Ω."""\n    a = 1.0\n',
    "dataset": "it's <b>here</b>; $(rm) `x` \\ \".zarr",
    "scalars": {"a": True, "b": -1.5e-7, "c": 3},
    "boundary": {"x": {"low": {"constant": 0.0}, "high": "edge"}},
    "feedback": None,
    "chunks": [1, 2],
}


@pytest.mark.parametrize("program", [INPUTS["program"], "def f():\n    pass\n", "x"])
def test_a_request_is_copied_as_it_is(opened: Page, program: str) -> None:
    inputs = {**INPUTS, "program": program}
    code = "return [module.asPython, module.asCurl, module.asFile].map((f) => f('stencil', given))"
    python, curl, file = in_module(opened, "core/snippets.js", code, inputs)
    assigned = next(node for node in ast.parse(python).body if isinstance(node, ast.Assign))
    assert ast.literal_eval(assigned.value) == inputs
    words = shlex.split(curl.replace("\\\n", " "))
    assert json.loads(words[words.index("-d") + 1]) == {"inputs": inputs}
    assert words[2].endswith("/processes/stencil/execution")
    assert json.loads(file) == {"inputs": inputs}


def test_numbers_are_read_within_their_bounds(opened: Page) -> None:
    code = """
      try { return module.numberOf(given[0], given[1]) } catch (fault) { return fault.message }
    """
    whole = {"type": "integer", "minimum": 1, "maximum": 10}
    for text, schema, said in (
        ("1e-3", {}, 0.001),
        ("\N{MINUS SIGN}2.5", {}, -2.5),
        ("7", whole, 7),
        ("7.5", whole, "Type a whole number; got '7.5'."),
        ("0", whole, "Type 1 or more."),
        ("11", whole, "Type 10 or less."),
        ("0", {"exclusiveMinimum": 0}, "Type more than 0."),
        ("much", {}, "Type a number, such as 0.5 or 1e-3; got 'much'."),
    ):
        assert in_module(opened, "form/controls.js", code, [text, schema]) == said


def test_a_problem_stands_beside_the_input_that_it_speaks_of(opened: Page) -> None:
    code = "return module.placeOf(given[0], given[1])"
    names = ["dataset", "program", "fields", "scalars", "boundary", "steps", "until"]
    for problem, place in (
        ({"detail": "Input 'steps' must be at least 1, got 0."}, "steps"),
        ({"detail": "No.", "errors": [{"location": ["boundary", "x"]}]}, "boundary"),
        ({"detail": "Scalar 'k' needs a value."}, "scalars"),
        ({"detail": "A boundary was given for 'q', which is no dimension."}, "boundary"),
        ({"detail": "There is no dataset 'a'."}, "dataset"),
        ({"detail": "Too much is waiting."}, None),
    ):
        assert in_module(opened, "form/places.js", code, [problem, names]) == place


def test_a_part_that_is_shown_stays_within_its_dimension(opened: Page) -> None:
    code = "return module[given[0]](...given[1])"

    def window(function: str, *arguments: object) -> object:
        return in_module(opened, "result/window.js", code, [function, arguments])

    assert window("zoomed", [0, 100], 0.5, 0.5, 100) == [25, 75]
    assert window("zoomed", [0, 100], 0.5, 0, 100) == [0, 50]
    assert window("zoomed", [25, 75], 8, 0.5, 100) == [0, 100]
    assert window("zoomed", [25, 27], 0.01, 0.5, 100) == [25, 27]
    assert window("zoomed", [0, 1], 0.5, 0.5, 1) == [0, 1]
    assert window("moved", [25, 75], 0.5, 100) == [50, 100]
    assert window("moved", [25, 75], -3, 100) == [0, 50]
    assert window("narrowed", [20, 60], [0.25, 0.5], 100) == [30, 40]
    assert window("withMargin", [40, 60], 100) == [35, 65]
    assert window("withMargin", [0, 100], 100) == [0, 100]


@pytest.mark.parametrize("start", [0.0, 2.3, 12.5])
def test_marks_of_a_part_between_cells_are_inside_it(opened: Page, start: float) -> None:
    code = """
      const side = { first: given, last: given + 1.9, at: (index) => 10 * index, write: String };
      side.isRound = true;
      const few = module.marks(side, 0, 1000, 5);
      side.last = given + 7.4;
      return [few, module.marks(side, 0, 1000, 5)];
    """
    marks: list[Any] = []
    for marks in in_module(opened, "result/marks.js", code, start):
        assert marks
        assert all(-500 <= position <= 1500 for position, _ in marks)
    for position, label in marks:
        index = float(label) / 10
        assert position == pytest.approx((index + 0.5 - start) / 7.4 * 1000, abs=1.0)
        assert 0 <= position <= 1000


def test_coastlines_lie_where_longitudes_and_latitudes_are(opened: Page) -> None:
    """On axes from 0 and from -180, that rise or fall; points of a line follow each other."""
    code = """
      const axis = (from, step, length) => ({
        at: (index) => from + index * step, length, isRound: true,
      });
      const rows = { ...axis(given.south, given.up, given.rows), degrees: "north" };
      const columns = { ...axis(given.west, 1, 360), degrees: "east" };
      const context = new OffscreenCanvas(360, given.rows).getContext("2d");
      context.stroke(module.coastOf(rows, columns));
      const { data } = context.getImageData(0, 0, 360, given.rows);
      const lies = ([east, north]) => {
        const x = Math.floor((((east - given.west) % 360) + 360) % 360);
        const y = Math.floor((north - given.south) / given.up);
        let most = 0;
        for (let i = -2; i <= 2; i += 1)
          for (let j = -2; j <= 2; j += 1)
            most = Math.max(most, data[4 * ((y + j) * 360 + ((x + i + 360) % 360)) + 3]);
        return most > 0;
      };
      return [module.hasCoast(rows, columns), given.coast.map(lies), given.sea.map(lies)];
    """
    coast = [[18.4, -34.3], [-5.6, 36.0], [-68.3, -54.9], [130.9, -12.4]]  # capes and straits
    sea = [[-30.0, 0.0], [80.0, -30.0], [-150.0, 40.0], [20.0, 20.0]]
    for west, south, up in ((0.5, -89.5, 1), (-179.5, 89.5, -1)):
        given = {"west": west, "south": south, "up": up, "rows": 180, "coast": coast, "sea": sea}
        has, on, off = in_module(opened, "result/coast.js", code, given)
        assert has
        assert all(on), (west, on)
        assert not any(off), (west, off)


@pytest.mark.parametrize(
    "calendar", ["standard", "proleptic_gregorian", "360_day", "noleap", "all_leap"]
)
def test_times_are_those_of_their_calendars(opened: Page, calendar: str) -> None:
    for units in ("days since 1999-12-30", "hours since 1850-1-1 06:30:00"):
        numbers = [0, 1, 59, 60.25, 366, 14_611.5, 100_000]
        code = "return given[2].map(module.calendarOf(given[0], given[1]))"
        shown = in_module(opened, "result/calendars.js", code, [units, calendar, numbers])
        for number, text in zip(numbers, shown, strict=True):
            date = _cftime.num2date(number, units, calendar)
            day = f"{date.year:04d}-{date.month:02d}-{date.day:02d}"
            clock = f" {date.hour:02d}:{date.minute:02d}"
            assert text == day + ("" if clock == " 00:00" else clock)


def test_units_that_are_no_time_stay_numbers(opened: Page) -> None:
    code = "return given.map(([units, calendar]) => module.calendarOf(units, calendar))"
    given = [
        ["degC", "standard"],
        ["days since 2000-01-01", "tai"],
        ["months since 2000-01-01", ""],
    ]
    assert in_module(opened, "result/calendars.js", code, given) == [None, None, None]


def test_events_are_split_wherever_the_stream_is(opened: Page) -> None:
    text = ': hello\n\nid: 1\nevent: status\ndata: {"a": "x: y"}\n\ndata: {"b":\ndata: 2}\r\n\r\n'
    code = """
      const cuts = [];
      for (let cut = 0; cut <= given.length; cut += 1) {
        const events = [];
        const take = module.parser((event) => events.push(event));
        take(given.slice(0, cut));
        take(given.slice(cut));
        cuts.push(JSON.stringify(events));
      }
      return [...new Set(cuts)];
    """
    (events,) = in_module(opened, "core/events.js", code, text)
    assert json.loads(events) == [
        {"id": "1", "event": "status", "data": {"a": "x: y"}},
        {"data": {"b": 2}},
    ]


def test_packed_and_missing_values_are_decoded(opened: Page) -> None:
    code = "return [...module.decode(Float64Array.from(given[0]), given[1])].map(String)"
    attributes = {"scale_factor": 0.5, "add_offset": 10, "_FillValue": -1, "missing_value": [-2]}
    assert in_module(opened, "result/cf.js", code, [[0, 4, -1, -2], attributes]) == [
        "10",
        "12",
        "NaN",
        "NaN",
    ]


@pytest.mark.parametrize("falls", [False, True])
def test_marks_stand_at_round_coordinates(opened: Page, falls: bool) -> None:
    """Between indices too, where coordinates rise or fall all the way."""
    code = """
      const values = given;
      const side = { first: 2, last: values.length, at: (index) => values[index], write: String };
      side.isRound = module.isMonotonic(values);
      return [side.isRound, module.marks(side, 0, 1000, 5)];
    """
    values = [3.0 + 1.7 * index + 0.01 * index**2 for index in range(40)]
    values = values[::-1] if falls else values
    is_round, marks = in_module(opened, "result/marks.js", code, values)
    assert is_round
    shown = sorted(float(label) for _, label in marks)
    assert shown == [20.0, 40.0, 60.0, 80.0][: len(shown)]
    indices = np.arange(2, 40)
    known = np.array(values[2:])
    order = np.argsort(known)
    for position, label in marks:
        index = np.interp(float(label), known[order], indices[order])
        assert position == pytest.approx((index + 0.5 - 2) / 38 * 1000, abs=1.0)
    is_round, marks = in_module(opened, "result/marks.js", code, [5.0, 1.0, 2.0, 9.0, 4.0])
    assert not is_round
    assert {label for _, label in marks} <= {"2", "9", "4"}
