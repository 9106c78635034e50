"""The page of a job: progress while it runs, events after a lost connection, its result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import numpy as np
import pytest
import xarray as xr
from dropping import dropping
from page_scripts import in_module
from playwright.sync_api import Page, Request, expect

from halocline import Client
from halocline.command.jobfile import read_job_file

if TYPE_CHECKING:
    from tests.clients.web.conftest import Site, Watched

_xr: Any = xr
BY = "\N{MULTIPLICATION SIGN}"
BLOCKS, COLUMNS, CHUNKS = 18, 36, {"y": 12, "x": 12}


def begun(site: Site) -> str:
    """Submit a job whose blocks wait for turns, one after the other."""
    site.gate.shut()
    return site.submit(chunks={**CHUNKS, "time": 1})


def test_a_job_that_is_submitted_by_keys_shows_progress_and_its_map(site: Site, page: Page) -> None:
    site.gate.shut()
    page.goto(f"{site.url}/ui/new")
    page.get_by_label("Dataset", exact=True).press_sequentially("sea.zarr")
    expect(page.locator("#state")).to_have_text("Ready to submit.")
    page.get_by_label("Boundary of x").press("p")
    page.get_by_label("Boundary of y").press("e")
    page.get_by_text("Execution", exact=True).click()
    page.get_by_label("Target").select_option("reference")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#facts")).to_contain_text("running")
    expect(page.locator(".link")).to_have_text("Events are live.")
    expect(page.locator(".left")).to_contain_text("running")
    site.gate.open()
    expect(page.locator("#facts")).to_contain_text("successful")
    expect(page.locator("canvas.result[data-ready]")).to_be_visible()
    expect(page.locator(".timeline li")).to_have_count(3)
    job = page.url.rpartition("/")[2]
    with Client(site.url) as client:
        inputs = client.job(job).inputs
    assert inputs["boundary"] == {"x": "periodic", "y": "edge"}
    assert inputs["scalars"] == {"strength": 0.2}


def test_the_order_of_blocks_has_the_colours_of_the_theme(site: Site, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"{site.url}/ui/jobs/{site.finished(chunks={**CHUNKS, 'time': 1})}")
    picture = page.locator("svg.picture")
    expect(picture).to_be_visible()
    code = "(it, name) => getComputedStyle(it.querySelector(name)).fill"
    assert picture.evaluate(code, "text") == "rgb(227, 237, 241)"
    assert picture.evaluate(code, ".ground") == "rgba(0, 0, 0, 0)"


def test_blocks_fill_the_map_as_they_finish(site: Site, page: Page) -> None:
    job = begun(site)
    page.goto(f"{site.url}/ui/jobs/{job}")
    blocks = page.locator("canvas.blocks")
    expect(blocks).to_have_attribute("aria-label", f"1 of {BLOCKS} blocks finished")
    site.gate.turns.release(4)
    expect(blocks).to_have_attribute("aria-label", f"5 of {BLOCKS} blocks finished")
    expect(page.locator(".left")).to_contain_text(f"block 5 of {BLOCKS}")
    page.get_by_text("Log", exact=True).first.click()
    expect(page.locator(".log")).to_contain_text("block-finished")
    site.gate.open()
    expect(page.locator("#facts")).to_contain_text("successful")
    expect(blocks).to_have_attribute("aria-label", f"{BLOCKS} of {BLOCKS} blocks finished")
    expect(page.locator("section:has(h2:text-is('Workers')) .legend li")).to_have_count(1)


def test_the_parts_of_blocks_and_the_kernels_are_shown(site: Site, page: Page) -> None:
    job = site.finished(chunks={**CHUNKS, "time": 1})
    page.goto(f"{site.url}/ui/jobs/{job}")
    parts = page.locator("section:has(h2:text-is('Workers')) .parts li")
    expect(parts.first).to_contain_text("reading")
    words = [text.split()[0] for text in parts.all_inner_texts()]
    assert [word for word in words if word != "waiting"] == ["reading", "computing", "writing"]
    page.get_by_text("Kernels", exact=True).click()
    expect(page.get_by_label("Schedule")).to_contain_text("schedule smooth")
    expect(page.get_by_text("Code for reference")).to_be_visible()
    page.get_by_text("Log", exact=True).first.click()
    expect(page.locator("[role=log]")).to_contain_text("compiled")
    assert "schedule smooth" not in page.locator("[role=log]").inner_text()


def test_rates_of_kernels_are_drawn_below_what_was_measured(site: Site, page: Page) -> None:
    job = site.finished(chunks={**CHUNKS, "time": 1})
    page.goto(f"{site.url}/ui/jobs/{job}")
    card = page.locator("#roofline")
    expect(card.locator("svg .roof")).to_have_count(1)
    expect(card.locator("svg .point")).to_have_count(1)
    spoken = card.locator("svg > title").text_content() or ""
    assert re.search(r"operations a second, \d+ % of the .* that its memory and cores", spoken)
    rates = httpx2.get(f"{site.url}/jobs/{job}/rates").json()["workers"]
    cells = card.locator("tbody tr td")
    expect(cells).to_have_count(7)
    share = f"{round(100 * rates[0]['share_of_copy'])} %"
    assert cells.all_inner_texts()[::5] == [rates[0]["worker"], share]


def test_halos_of_steps_that_stay_in_memory_are_in_the_timeline(site: Site, page: Page) -> None:
    # Land fills a chunk then, which is not stored.
    job = site.finished(chunks=CHUNKS, steps=6, feedback={"smoothed": "t"}, mode="resident")
    page.goto(f"{site.url}/ui/jobs/{job}")
    expect(page.locator("canvas.result[data-ready]")).to_be_visible()
    card = page.locator("section:has(h2:text-is('Workers'))")
    expect(card.locator(".legend li")).to_have_text([re.compile("^worker 0: process ")])
    words = [text.split()[0] for text in card.locator(".parts li").all_inner_texts()]
    assert [word for word in words if word != "waiting"] == [
        *("reading", "halos", "computing", "writing")
    ]


def test_states_fill_their_bar_however_short_the_job_was(site: Site, page: Page) -> None:
    job = site.finished()
    page.goto(f"{site.url}/ui/jobs/{job}")
    expect(page.locator(".timeline li")).to_have_count(3)
    code = "bar => bar.lastElementChild.getBoundingClientRect().right / "
    code += "bar.getBoundingClientRect().right"
    assert page.locator(".states").evaluate(code) > 0.99


def test_parts_of_a_block_fill_its_time(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/ui/")
    code = "return module.partsOf(given)"
    block = {"seconds": 10, "reading": 2, "sending": 1, "computing": 4, "writing": 1}
    assert in_module(page, "job/spans.js", code, block) == [
        ["reading", 2],
        ["waiting", 2],
        ["sending", 1],
        ["computing", 4],
        ["writing", 1],
    ]
    unknown = {**dict.fromkeys(block, 0), "seconds": 10}
    assert in_module(page, "job/spans.js", code, unknown) == [["computing", 10]]


def test_blocks_of_a_worker_at_the_same_time_lie_in_lanes(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/ui/")
    blocks = [
        {"at": at, "seconds": 2, "worker": worker, "computing": 2}
        for at, worker in ((12, "a"), (13, "a"), (14, "a"), (13, "b"))
    ]
    code = "return module.barsOfBlocks(given, ['a', 'b'])"
    found = in_module(page, "job/spans.js", code, blocks)
    placed = [(bar["row"], bar["from"], bar["to"]) for bar in found["bars"]]
    assert sorted(placed) == [(0, 0, 2), (0, 2, 4), (1, 1, 3), (2, 1, 3)]
    assert found["rows"] == 3


def test_steps_tell_of_the_first_rank_while_they_are_made(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/ui/")
    told = [{"seconds": 1, "halos": 0.25}, {"seconds": 3, "halos": 0.75}]
    found = in_module(page, "job/spans.js", "return module.barsOfSteps(given)", told)
    assert found["bars"] == [
        {"row": 0, "from": 0, "to": 1, "parts": [["halos", 0.25], ["computing", 0.75]]},
        {"row": 0, "from": 1, "to": 3, "parts": [["halos", 0.5], ["computing", 1.5]]},
    ]


def test_a_job_file_is_saved_that_the_command_runs(site: Site, page: Page, tmp_path: Path) -> None:
    job = site.finished()
    page.goto(f"{site.url}/ui/jobs/{job}")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as job file").click()
    assert saved.value.suggested_filename == "stencil.json"
    saved.value.save_as(tmp_path / "stencil.json")
    written = read_job_file(tmp_path / "stencil.json")
    assert written.process == "stencil"
    with Client(site.url) as client:
        assert written.inputs == client.job(job).inputs


def test_events_go_on_where_the_connection_was_lost(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.allowed = ["net::ERR_"]  # a browser tells of each connection that is cut
    job = begun(site)
    asked: list[str | None] = []

    def note(request: Request) -> None:
        if request.url.endswith("/events"):
            asked.append(request.headers.get("last-event-id"))

    with dropping(site.port) as proxy:
        page.on("request", note)
        page.goto(f"http://127.0.0.1:{proxy.port}/ui/jobs/{job}")
        expect(page.locator(".left")).to_contain_text(f"block 1 of {BLOCKS}")
        proxy.drop()
        assert proxy.dropped > 0
        expect(page.locator(".link")).to_have_text("Connection lost; trying again.")
        site.gate.turns.release(2)
        expect(page.locator(".left")).to_contain_text(f"block 3 of {BLOCKS}")
        expect(page.locator(".link")).to_have_text("Events are live.")
        site.gate.open()
        expect(page.locator("canvas.result[data-ready]")).to_be_visible()
        page.get_by_text("Log", exact=True).first.click()
        expect(page.locator(".log")).to_contain_text("finished")
        lines = page.locator(".log").inner_text().splitlines()
        page.goto("about:blank")
    first, *later = asked
    assert first is None
    assert later
    assert all(each is not None and int(each) > 0 for each in later)
    assert len([line for line in lines if " planned " in line]) == 1


def test_a_job_is_cancelled_and_removed(site: Site, page: Page) -> None:
    job = begun(site)
    page.goto(f"{site.url}/ui/jobs/{job}")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#facts")).to_contain_text("dismissed")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Remove").click()
    page.wait_for_url(f"{site.url}/ui/")
    expect(page.locator(f"a[href='jobs/{job}']")).to_have_count(0)
    site.gate.open()


def test_a_failed_job_says_why(site: Site, page: Page) -> None:
    until = {"field": "smoothed", "below": 0.0, "check_every": 1}
    job = site.submit(scalars={"strength": 1e200}, steps=5, feedback={"smoothed": "t"}, until=until)
    with Client(site.url) as client:
        client.job(job).wait(timeout=60)
    page.goto(f"{site.url}/ui/jobs/{job}")
    expect(page.locator("#facts [role=alert]")).to_contain_text("smoothed")


@pytest.fixture(scope="module")
def done(site: Site) -> str:
    return site.finished(chunks={**CHUNKS, "time": 1}, steps=2, feedback={"smoothed": "t"})


def values(site: Site, job: str) -> Any:
    with _xr.open_zarr(f"{site.url}/jobs/{job}/results/result.zarr", decode_times=False) as result:
        return result["smoothed"].load()


def pointed(page: Page, row: int, column: int, rows: int) -> str:
    """Point at a cell of the map, counted from its lower left corner."""
    area = page.locator("canvas.result").get_attribute("data-area")
    left, top, right, bottom = map(float, (area or "").split())
    x = left + (column + 0.5) / COLUMNS * (right - left)
    y = bottom - (row + 0.5) / rows * (bottom - top)
    page.locator("canvas.result").hover(position={"x": x, "y": y})
    return page.locator("#result .pointed").first.inner_text()


def test_the_map_has_the_values_of_the_result(site: Site, page: Page, done: str) -> None:
    result = values(site, done)
    page.goto(f"{site.url}/ui/jobs/{done}")
    page.wait_for_selector("canvas.result[data-ready]")
    page.locator("#result").scroll_into_view_if_needed()
    for row, column in ((20, 30), (12, 3), (9, 35)):
        told = pointed(page, row, column, len(result.y))
        assert float(told.rpartition(": ")[2].split()[0]) == pytest.approx(
            float(result[0, row, column]), rel=1e-3
        )
        assert f"y = {float(result.y[row]):.6g}, x = {column * 10}" in told
        assert told.endswith("degC")
    assert pointed(page, 2, 2, len(result.y)).endswith("no data")
    expect(page.locator("#result output")).to_have_text("2015-01-16")
    page.locator("#result input[type=range]").fill("2")
    expect(page.locator("#result output")).to_have_text("2015-03-16")
    page.wait_for_selector("canvas.result[data-ready='smoothed 2,0,0']")
    told = pointed(page, 20, 30, len(result.y))
    assert float(told.rpartition(": ")[2].split()[0]) == pytest.approx(
        float(result[2, 20, 30]), rel=1e-3
    )


def test_land_has_a_colour_of_its_own(page: Page, site: Site, done: str) -> None:
    page.goto(f"{site.url}/ui/jobs/{done}")
    page.wait_for_selector("canvas.result[data-ready]")
    colour = page.evaluate(
        "() => { const c = document.querySelector('canvas.result'), r = devicePixelRatio;"
        " const [left, , , bottom] = c.dataset.area.split(' ').map(Number);"
        " const d = c.getContext('2d').getImageData((left + 20) * r, (bottom - 20) * r, 1, 1).data;"
        " return `rgb(${[...d.slice(0, 3)].join(', ')})` }"
    )
    assert colour == page.evaluate(
        "() => { const probe = document.body.appendChild(document.createElement('i'));"
        " probe.style.color = 'var(--no-data)'; return getComputedStyle(probe).color }"
    )
    expect(page.locator("#result .legend")).to_have_text("no data")


def test_a_part_is_looked_at_closely_and_as_a_line(page: Page, site: Site, done: str) -> None:
    page.goto(f"{site.url}/ui/jobs/{done}")
    picture = page.locator("canvas.result[data-ready]")
    note = page.locator("#result .read")
    expect(note).to_contain_text(f"24 {BY} 36 read, every point is shown; 6 of 18 chunks")
    picture.press("ArrowRight")
    picture.press("+")
    expect(note).to_contain_text(f"18 {BY} 28 read")  # with a margin to move it by
    picture.press("0")
    expect(note).to_contain_text(f"24 {BY} 36 read")
    page.get_by_role("button", name="Look closer").click()
    expect(note).to_contain_text(f"18 {BY} 28 read")
    page.get_by_role("button", name="Show all").click()
    expect(note).to_contain_text(f"24 {BY} 36 read")
    page.get_by_label("Up").select_option("-1")
    expect(note).to_contain_text("36 read, every point is shown; 3 of 18 chunks")
    expect(page.locator("#result .pointed")).to_have_text("")
    picture.hover()
    expect(page.locator("#result .pointed")).to_contain_text("x = ")


def test_a_large_array_is_sampled_by_few_chunks(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/ui/cluster")
    counted = """
      const axes = given.map(([last, most, chunk]) => ({ first: 0, last, most, chunk }));
      const size = given.reduce((product, each) => product * each[2], 8);
      const indices = module.choose(axes, size);
      const chunk = (axis) => (index) => Math.floor(index / axes[axis].chunk);
      const chunks = indices.map((each, axis) => new Set(each.map(chunk(axis))).size);
      return [indices.map((each) => each.length), chunks, size];
    """
    for axes in (
        [[40_000, 480, 1000], [20_000, 720, 1000]],
        [[1_000_000, 480, 10], [1_000_000, 720, 10]],
        [[300, 480, 300], [400, 720, 400]],
        [[5, 480, 1], [7, 720, 3]],
    ):
        lengths, chunks, size = in_module(page, "result/sample.js", counted, axes)
        assert np.prod(chunks) <= 256
        assert np.prod(chunks) * size <= 256 * 2**20
        assert all(0 < length <= most for length, (_, most, _) in zip(lengths, axes, strict=True))
        if axes[0][0] <= 300:
            assert lengths == [axes[0][0], axes[1][0]]
    with pytest.raises(Exception, match="One chunk of this variable is too large for a browser"):
        in_module(page, "result/sample.js", counted, [[40_000, 480, 8000], [20_000, 720, 8000]])
