"""The picture of a result: playing, series of a point, comparison, files, and its cost."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from page_scripts import in_module
from playwright.sync_api import Page, expect
from tests.clients.web.conftest import sea, write

if TYPE_CHECKING:
    from tests.clients.web.conftest import Site

_xr: Any = xr
FEEDBACK: dict[str, Any] = {"feedback": {"smoothed": "t"}}
FRAME = 16.0  # milliseconds of the main thread's processor time


@pytest.fixture(scope="module")
def done(site: Site) -> str:
    return site.finished(steps=2, **FEEDBACK)


@pytest.fixture(scope="module")
def other(site: Site) -> str:
    return site.finished(steps=4, **FEEDBACK)


def opened(site: Site, page: Page, job: str) -> None:
    page.goto(f"{site.url}/ui/jobs/{job}")
    page.wait_for_selector("canvas.result[data-ready]")


def values(site: Site, job: str) -> Any:
    with _xr.open_zarr(f"{site.url}/jobs/{job}/results/result.zarr", decode_times=False) as result:
        return result["smoothed"].load()


def clicked(page: Page, row: int, column: int, shape: tuple[int, int] = (24, 36)) -> None:
    """Click a cell of the map, counted from its lower left corner."""
    canvas = page.locator("canvas.result").first
    left, top, right, bottom = map(float, (canvas.get_attribute("data-area") or "").split())
    x = left + (column + 0.5) / shape[1] * (right - left)
    y = bottom - (row + 0.5) / shape[0] * (bottom - top)
    canvas.click(position={"x": x, "y": y})


def test_limits_of_colours_stay_while_it_plays(site: Site, page: Page, done: str) -> None:
    opened(site, page, done)
    low, high = page.get_by_label("From", exact=True), page.get_by_label("To", exact=True)
    before = low.input_value(), high.input_value()
    page.get_by_role("button", name="Play time").click()
    page.wait_for_selector("canvas.result[data-ready='smoothed 2,0,0']")
    page.get_by_role("button", name="Pause time").click()
    assert (low.input_value(), high.input_value()) == before
    high.fill("20")
    high.press("Enter")
    page.get_by_label("time", exact=True).fill("1")
    page.wait_for_selector("canvas.result[data-ready='smoothed 1,0,0']")
    expect(high).to_have_value("20")
    page.get_by_role("button", name="Fit").click()
    most = float(values(site, done)[1].max())
    assert float(high.input_value()) == pytest.approx(most, rel=1e-4)


def test_a_link_opens_the_same_view(site: Site, page: Page, done: str) -> None:
    opened(site, page, done)
    page.get_by_label("time", exact=True).fill("2")
    page.wait_for_selector("canvas.result[data-ready='smoothed 2,0,0']")
    page.get_by_label("Colours").select_option("grey")
    for title, value in (("From", "4.5"), ("To", "21")):
        page.get_by_label(title, exact=True).fill(value)
        page.get_by_label(title, exact=True).press("Enter")
    page.get_by_role("button", name="Look closer").click()
    link = page.get_by_role("link", name="Link to this view")
    expect(link).to_have_attribute("href", re.compile("part.x=9%3A27.*from=4.5&to=21$"))
    address = str(link.evaluate("it => it.href"))
    pixels = page.locator("canvas.result").evaluate("it => it.toDataURL()")

    other = page.context.new_page()
    other.goto(address)
    other.wait_for_selector("canvas.result[data-ready='smoothed 2,0,0']")
    expect(other.get_by_label("Colours")).to_have_value("grey")
    expect(other.get_by_label("From", exact=True)).to_have_value("4.5")
    expect(other.get_by_label("To", exact=True)).to_have_value("21")
    assert other.get_by_role("link", name="Link to this view").evaluate("it => it.href") == address
    other.wait_for_function(
        "pixels => document.querySelector('canvas.result').toDataURL() === pixels", arg=pixels
    )
    other.get_by_label("Up").select_option("values (line)")
    other.wait_for_function(
        "() => !document.querySelector('.filters ~ .zoom .legend:not([hidden])')"
    )
    line = str(other.get_by_role("link", name="Link to this view").evaluate("it => it.href"))
    other.close()

    page.goto(line)  # the address of the same page: no reload
    page.wait_for_selector("canvas.result[data-ready='smoothed 2,12,0']")
    expect(page.get_by_label("Up")).to_have_value("-1")


def test_what_is_drawn_is_saved_as_a_table(
    site: Site, page: Page, done: str, tmp_path: Path
) -> None:
    known = values(site, done)

    def saved(name: str) -> list[list[str]]:
        with page.expect_download() as download:
            page.get_by_role("button", name="CSV of the picture").click()
        download.value.save_as(tmp_path / name)
        return list(csv.reader(io.StringIO((tmp_path / name).read_text())))

    opened(site, page, done)
    page.get_by_label("time", exact=True).fill("2")
    page.wait_for_selector("canvas.result[data-ready='smoothed 2,0,0']")
    head, *rows = saved("map.csv")
    assert head == ["y", "x", "smoothed"]
    assert [row[:2] for row in rows[:2]] == [["-60", "0"], ["-60", "10"]]
    table = np.array([float(row[2] or "nan") for row in rows]).reshape(24, 36)
    np.testing.assert_array_equal(table, known[2].to_numpy())
    page.goto(f"{site.url}/ui/jobs/{done}#variable=smoothed&across=x&up=values&at.y=20&part.x=9:27")
    page.reload()
    page.wait_for_selector("canvas.result[data-ready='smoothed 0,20,0']")
    head, *rows = saved("line.csv")
    assert head == ["x", "smoothed"]
    line = known[0, 20, 9:27]
    assert [float(x) for x, _ in rows] == list(line["x"].to_numpy())
    np.testing.assert_array_equal([float(value) for _, value in rows], line.to_numpy())


def test_coordinates_of_tables_have_all_their_digits(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/")
    code = """
      const at = () => 4321000.25;
      const { exact, short } = module;
      return [exact({ at, write: short }, 0), exact({ at, write: () => '2015-02-16' }, 0)];
    """
    assert in_module(page, "result/axes.js", code) == [4321000.25, "2015-02-16"]


@pytest.mark.parametrize(
    "fragment",
    [
        "#variable=nothing&at.time=9",
        "#variable=smoothed&across=y&up=y&at.time=x&colours=constructor&from=&to=NaN",
        "#variable=smoothed&across=x&up=y&at.time=-3&part.x=30:400&part.y=a:b&colours=toString",
        "#main",
        "#variable=<img src=x onerror=window.hit=1>",
    ],
)
def test_a_link_that_is_wrong_shows_the_result(
    site: Site, page: Page, done: str, fragment: str
) -> None:
    page.goto(f"{site.url}/ui/jobs/{done}{fragment}")
    page.wait_for_selector("canvas.result[data-ready='smoothed 0,0,0']")
    expect(page.get_by_label("Colours")).to_have_value("sequential")


def test_a_point_has_a_series_that_is_saved(
    site: Site, page: Page, done: str, tmp_path: Path
) -> None:
    opened(site, page, done)
    clicked(page, 20, 30)
    expect(page.locator(".series h3")).to_have_text("At y = 40, x = 300")
    expect(page.locator(".series figcaption")).to_have_text("Series along time")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    saved.value.save_as(tmp_path / "series.csv")
    head, *rows = csv.reader(io.StringIO((tmp_path / "series.csv").read_text()))
    assert head == ["time", "smoothed"]
    assert [row[0] for row in rows] == ["2015-01-16", "2015-02-16", "2015-03-16"]
    found = [float(row[1]) for row in rows]
    assert found == pytest.approx(values(site, done)[:, 20, 30].values.tolist())
    page.locator("canvas.result").press("Enter")  # by keys as well
    expect(page.locator(".series h3")).to_have_text("At y = 40, x = 300")


def test_two_results_are_compared(site: Site, page: Page, done: str, other: str) -> None:
    one, two = values(site, done), values(site, other)
    opened(site, page, done)
    page.get_by_label("Compare with").select_option(other)
    expect(page.locator("canvas.result")).to_have_count(2)
    clicked(page, 20, 30)
    for panel, result in zip(page.locator(".panel").all(), (one, two), strict=True):
        told = panel.locator(".pointed").inner_text()
        shown = float(told.rpartition(": ")[2].split()[0])
        assert shown == pytest.approx(float(result[0, 20, 30]), rel=1e-3)
    page.get_by_label("Shown").select_option("difference")
    expect(page.locator("canvas.result")).to_have_count(1)
    difference = one[0] - two[0]
    expect(page.get_by_label("Colours")).to_have_value("diverging")
    high = float(page.get_by_label("To", exact=True).input_value())
    assert high == pytest.approx(float(np.abs(difference).max()), rel=1e-4)
    page.get_by_label("Compare with").select_option("")
    expect(page.get_by_label("Shown")).to_have_count(0)


def test_results_on_other_grids_are_not_compared(site: Site, page: Page, done: str) -> None:
    if not (site.roots / "small.zarr").exists():
        write(sea().isel(x=slice(0, 12)), site.roots / "small.zarr")
    small = site.finished("small.zarr")
    opened(site, page, done)
    page.get_by_label("Compare with").select_option(small)
    expect(page.locator("#result .read")).to_have_text(
        "The result cannot be shown: 'smoothed' has 12 points along 'x', 'smoothed' has 36."
    )


def test_a_result_is_taken_away(site: Site, page: Page, done: str, tmp_path: Path) -> None:
    opened(site, page, done)
    link = page.get_by_role("link", name="NetCDF")
    assert link.get_attribute("href") == f"{site.url}/jobs/{done}/results?f=netcdf"
    with page.expect_download() as saved:
        page.get_by_role("button", name="PNG of the picture").click()
    saved.value.save_as(tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert saved.value.suggested_filename == f"smoothed-{done[-8:]}.png"


def test_a_part_is_moved_by_the_pointer(site: Site, page: Page, done: str) -> None:
    opened(site, page, done)
    canvas = page.locator("canvas.result")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    x, y = box["x"] + 400, box["y"] + 150
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    for _ in range(4):
        page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    before = page.locator("#result .pointed").inner_text()
    page.mouse.down()
    page.mouse.move(x + 120, y, steps=4)
    page.mouse.up()
    page.mouse.move(x + 121, y)
    page.mouse.move(x + 120, y)
    assert page.locator("#result .pointed").inner_text().split(",")[:2] == before.split(",")[:2]
    canvas.dblclick()
    expect(page.locator("#result .read")).to_contain_text("24 \N{MULTIPLICATION SIGN} 36 read")


def test_a_map_of_four_million_points_is_moved_in_time(site: Site, page: Page) -> None:
    """Wheel and pointer take at most a frame of the main thread each."""
    side = 2000
    if not (site.roots / "large.zarr").exists():
        row = np.sin(np.linspace(0, 30, side))
        coords = {"y": np.linspace(-90, 90, side), "x": np.arange(side) * 0.18}
        large = _xr.Dataset({"t": (("y", "x"), np.multiply.outer(row, row))}, coords=coords)
        large.y.attrs["units"], large.x.attrs["units"] = "degrees_north", "degrees_east"
        write(large, site.roots / "large.zarr", y=500, x=500)
    job = site.finished("large.zarr", target="cpu")
    opened(site, page, job)
    cdp: Any = page.context.new_cdp_session(page)
    cdp.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        metrics = cdp.send("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "TaskDuration")

    canvas = page.locator("canvas.result")
    canvas.scroll_into_view_if_needed()
    canvas.focus()
    box = canvas.bounding_box()
    assert box is not None
    x, y = box["x"] + 400, box["y"] + 200
    page.mouse.move(x, y)
    count = 30
    start = busy()
    for _ in range(count):
        page.mouse.wheel(0, -60)
    page.mouse.down()
    for step in range(count):
        page.mouse.move(x + step * 6, y + step * 3)
    page.mouse.up()
    page.wait_for_timeout(300)
    assert (busy() - start) / (2 * count) * 1000 <= FRAME
