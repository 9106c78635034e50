"""What is typed, sent and shown: programs, keys, uploads, names of users."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from page_scripts import in_module
from playwright.sync_api import Locator, Page, Request, Route, expect
from tests.clients.web.conftest import sea, write

from halocline import Client

if TYPE_CHECKING:
    from tests.clients.web.conftest import Site, Watched

HOSTILE = "<img src=x onerror=window.hit=1>"


def test_a_program_is_checked_while_one_types(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/new")
    checked = page.locator(".checked")
    expect(checked).to_contain_text("'smooth' is a valid program.")
    rows = page.locator("[data-name=fields] .row")
    expect(rows.nth(0)).to_contain_text("reads 1 before and 1 after along I, 1 before and 1 after")
    expect(rows.nth(1)).to_contain_text("a new variable")
    expect(page.locator(".wrong:visible")).to_have_count(0)  # nobody has submitted anything yet
    program = page.get_by_label("Program")
    program.fill(program.input_value().replace("(around", "(arround"))
    expect(checked).to_contain_text("The name 'arround' is unknown.")
    expect(checked).to_contain_text("Hint: Did you mean 'around'?")
    excerpt = checked.locator("pre").text_content() or ""
    line, caret = excerpt.splitlines()
    assert line[caret.index("^") :].startswith("arround")
    mark = page.locator(".marks mark.error")
    expect(mark).to_have_text("arround")
    expect(program).to_have_attribute("aria-invalid", "true")
    checked.get_by_role("button", name="line 4").click()
    at = program.evaluate("it => it.value.slice(it.selectionStart, it.selectionStart + 7)")
    assert at == "arround"


def test_what_is_wrong_stands_beside_its_field(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/new?dataset=sea.zarr")
    state = page.locator("#state")
    expect(state).to_have_text("Ready to submit.")

    def wrong(name: str) -> Locator:
        return page.locator(f"[data-name={name}] .wrong")

    page.get_by_label("strength").fill("much")
    said = "Type a number, such as 0.5 or 1e-3; got 'much'."
    expect(wrong("scalars")).to_have_text(said)
    expect(state).to_have_attribute("data-state", "wrong")
    page.get_by_label("strength").fill("")
    expect(state).to_have_text("Fill in what is marked.")
    page.get_by_role("button", name="Submit").click()
    expect(wrong("scalars")).to_have_text("Type a value for 'strength'.")
    expect(page.get_by_label("strength")).to_be_focused()
    page.get_by_label("strength").fill("0.1")
    expect(wrong("scalars")).to_be_hidden()
    page.get_by_label("Boundary of x").select_option("constant")
    page.get_by_role("button", name="Submit").click()
    expect(wrong("boundary")).to_have_text("Constant at x: type a value.")
    page.get_by_label("Constant at x").fill("1.5")
    page.get_by_label("Boundary of y").select_option("sides")
    page.get_by_label("Boundary after y").select_option("edge")
    page.get_by_label("Steps").fill("0")
    expect(wrong("steps")).to_have_text("Type 1 or more.")
    page.get_by_label("Steps").fill("2")
    page.get_by_label("smoothed becomes").select_option("t")
    expect(state).to_have_text("Ready to submit.")
    page.get_by_label("Name of the job").fill("my smoothing")
    page.get_by_label("Labels").fill("sea, first")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/ui/jobs/*")
    expect(page.locator("h1")).to_contain_text("my smoothing")
    with Client(site.url) as client:
        job = client.job(page.url.rpartition("/")[2])
        assert job.inputs["boundary"] == {
            "x": {"constant": 1.5},
            "y": {"low": "none", "high": "edge"},
        }
        assert job.inputs["feedback"] == {"smoothed": "t"}
        assert job.inputs["steps"] == 2


def test_every_process_has_a_form_of_its_own(site: Site, page: Page) -> None:
    """With a field for each input that its description has."""
    processes = page.request.get(f"{site.url}/processes").json()["processes"]
    for process in (each["id"] for each in processes if each["id"] != "plan"):
        described = page.request.get(f"{site.url}/processes/{process}").json()["inputs"]
        page.goto(f"{site.url}/ui/new?process={process}&dataset=sea.zarr")
        expect(page.locator("#fields .field").first).to_be_visible()
        fields = page.locator("#fields .field").evaluate_all(
            "all => all.map(it => it.dataset.name)"
        )
        assert sorted(fields) == sorted(described), process
        boxes = page.locator("#fields input:not([type=checkbox]):visible").count()
        assert boxes < len(described) + 6, process


def test_names_are_chosen_from_the_dataset(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/new?process=tridiagonal&dataset=sea.zarr")
    lower = page.get_by_label("Lower")
    expect(lower.locator("option")).to_contain_text(["choose", "t (time, y, x, float64)"])
    expect(page.get_by_label("Dimension").locator("option")).to_have_text(
        ["choose", "time (3)", "y (24)", "x (36)"], use_inner_text=True
    )
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("[data-name=rhs] .wrong")).to_have_text("Right-hand side must be there.")
    for title in ("Lower", "Diagonal", "Upper", "Right-hand side"):
        page.get_by_label(title, exact=True).select_option("t")
    page.get_by_label("Dimension").select_option("y")
    page.get_by_text("Execution", exact=True).click()
    page.locator("[data-name=chunks]").get_by_label("time").fill("1")
    expect(page.locator("#state")).to_have_text("Ready to submit.")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/ui/jobs/*")
    with Client(site.url) as client:
        inputs = client.job(page.url.rpartition("/")[2]).inputs
    assert inputs["chunks"] == {"time": 1}
    assert (inputs["dim"], inputs["rhs"]) == ("y", "t")


def test_an_example_takes_the_type_of_the_data(site: Site, page: Page) -> None:
    path = site.roots / "single.zarr"
    if not path.exists():
        data: Any = sea()
        write(data.astype("float32"), path)
    page.goto(f"{site.url}/ui/new?dataset=single.zarr")
    expect(page.locator("#state")).to_have_text("Ready to submit.")
    expect(page.get_by_label("Program")).to_have_value(re.compile(r"t: Field\[np\.float32\]"))
    page.get_by_role("button", name="Gradient").click()
    expect(page.get_by_label("dx", exact=True)).to_have_value("1000")
    expect(page.locator("#state")).to_have_text("Ready to submit.")


def test_a_sequence_is_put_together_of_stages(site: Site, page: Page) -> None:
    """A stage may read what those before it make."""
    page.goto(f"{site.url}/ui/new?process=sequence&dataset=sea.zarr")
    page.get_by_role("button", name="Add a stage").click()
    stages = page.locator(".stage")
    stages.nth(0).get_by_label("Program").fill(
        "def double(t: Field[np.float64], u: Field[np.float64]):\n"
        "    with computation(PARALLEL), interval(...):\n        u = 2.0 * t\n"
    )
    expect(stages.nth(0)).to_contain_text("'double' is a valid program.")
    page.get_by_label("Kind of the next stage").select_option("gather")
    page.get_by_role("button", name="Add a stage").click()
    source = stages.nth(1).get_by_label("Source")
    expect(source.locator("option")).to_contain_text(["choose", "u (made before)"])
    source.select_option("u")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("[data-name=stages] > .wrong")).to_contain_text("Stage 2: ")
    stages.nth(1).get_by_role("button", name="Remove this stage").click()
    expect(page.locator("#state")).to_have_text("Ready to submit.")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/ui/jobs/*")
    with Client(site.url) as client:
        job = client.job(page.url.rpartition("/")[2])
        assert list(job.inputs["stages"][0]) == ["stencil"]


def test_a_mark_lies_under_its_word(site: Site, page: Page) -> None:
    """The copy beneath the text has the same lines at the same places, when scrolled as well."""
    page.goto(f"{site.url}/ui/new")
    program = page.get_by_label("Program")
    text = "# " + "x" * 300 + "\n" + "#\n" * 60 + program.input_value().replace("t[1,", "q[1,")
    program.fill(text)
    mark = page.locator(".marks mark.error").first
    expect(mark).to_have_text("q")
    page.locator(".checked").get_by_role("button").first.click()
    sizes = page.evaluate(
        "() => ['.editor textarea', '.marks'].map((place) => document.querySelector(place))"
        ".map((it) => [it.scrollTop, it.scrollLeft, getComputedStyle(it).font])"
    )
    assert sizes[0] == sizes[1]
    assert sizes[0][0] > 0
    box, area = mark.bounding_box(), program.bounding_box()
    assert box is not None
    assert area is not None
    assert area["y"] <= box["y"] <= area["y"] + area["height"]


def test_a_refused_job_is_not_submitted(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.allowed = ["404 (Not Found)"]  # a browser tells of each
    page.goto(f"{site.url}/ui/new")
    expect(page.get_by_label("strength")).to_have_value("0.2")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("[data-name=dataset] .wrong")).to_have_text("Choose a dataset.")
    expect(page.get_by_label("Dataset", exact=True)).to_be_focused()
    page.get_by_label("Dataset", exact=True).fill("nothing.zarr")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("[data-name=dataset] .wrong")).to_contain_text("'nothing.zarr'")
    assert page.url == f"{site.url}/ui/new"


def test_a_job_is_begun_from_another_one(site: Site, page: Page) -> None:
    """Where the API gives what a job was asked for."""
    job = site.finished(steps=3, feedback={"smoothed": "t"})
    inputs = {
        "program": "def f(a: Field[float], b: Field[float], s: float):\n"
        "    with computation(PARALLEL), interval(...):\n        b = s * a\n",
        "dataset": HOSTILE,
        "scalars": {"s": 2.5},
        "boundary": {"x": {"low": "edge", "high": {"constant": 1}}},
        "steps": 3,
        "feedback": {"b": "a"},
        "mode": "streamed",
    }

    def with_inputs(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "inputs": inputs})

    page.route(f"{site.url}/jobs/{job}", with_inputs)
    page.goto(f"{site.url}/ui/jobs/{job}")
    expect(page.locator(".program-text")).to_contain_text("b = s * a")
    expect(page.get_by_text("Inputs")).to_be_visible()
    expect(page.locator("#live")).to_contain_text(HOSTILE)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as Python").click()
    expect(page.locator("#status")).to_have_text("Copied.")
    assert 'client.submit("stencil", inputs)' in page.evaluate("navigator.clipboard.readText()")
    page.get_by_role("link", name="New job like this").click()
    expect(page.get_by_label("Boundary of x")).to_have_value("sides")
    expect(page.get_by_label("Boundary before x")).to_have_value("edge")
    expect(page.get_by_label("Constant after x")).to_have_value("1")
    expect(page.get_by_label("Steps")).to_have_value("3")
    expect(page.get_by_label("Mode")).to_have_value("streamed")
    expect(page.get_by_label("s", exact=True)).to_have_value("2.5")
    expect(page.locator(".checked")).to_contain_text("'f' is a valid program.")


def test_a_job_is_planned_where_a_process_plans(site: Site, page: Page) -> None:
    """The job that plans goes once its answer is there."""
    plan = {
        "mode": "streamed",
        "reason": HOSTILE,
        "target": "cpu",
        "workers": 2,
        "blocks": 6,
        "passes": 1,
        "steps": 4,
        "steps_per_pass": 4,
        "projected_bytes": 3 * 2**20,
        "halo": {"x": [1, 2]},
        "block": {"x": 12},
        "input_bytes": 2**20,
        "unfused": "'t' is updated in place",
        "predicted_rate": 123456.0,
    }
    told: list[str] = []

    def answer(route: Route) -> None:
        request = route.request
        path = request.url.removeprefix(site.url)
        told.append(f"{request.method} {path}")
        if path.startswith("/processes?"):
            given = route.fetch().json()
            route.fulfill(json={**given, "processes": [*given["processes"], {"id": "plan"}]})
        elif path == "/processes/plan/execution":
            sent = json.loads(request.post_data or "")["inputs"]
            assert (sent["process"], sent["inputs"]["dataset"]) == ("stencil", "sea.zarr")
            route.fulfill(status=201, json={"id": "1"})
        elif path == "/jobs/1/events":
            route.fulfill(content_type="text/event-stream", body="")
        elif path == "/jobs/1/results":
            route.fulfill(json={"plan": plan})
        else:
            route.fulfill(json={"status": "successful"})

    told_of = rf"{re.escape(site.url)}/(processes[?]|processes/plan/|jobs/1(/|$))"
    page.route(re.compile(told_of), answer)
    page.goto(f"{site.url}/ui/new?dataset=sea.zarr")
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("#planned dl")).to_contain_text("6 a pass")
    expect(page.locator("#planned dl")).to_contain_text("x: 1 before, 2 after")
    expect(page.locator("#planned dl")).to_contain_text(HOSTILE)
    expect(page.locator("#planned dl")).to_contain_text("'t' is updated in place")
    expect(page.locator("#planned dl")).to_contain_text("120 k cells a second")
    assert told[-1] == "DELETE /jobs/1"


def test_a_service_that_plans_offers_a_plan(site: Site, page: Page) -> None:
    with page.expect_response("**/processes?limit=100"):
        page.goto(f"{site.url}/ui/new")
    expect(page.get_by_role("button", name="Copy as JSON")).to_be_visible()
    expect(page.get_by_role("button", name="Plan", exact=True)).to_have_count(1)


def test_names_of_users_are_shown_as_text(site: Site, page: Page) -> None:
    """Names of datasets, long names and units of variables, refusals."""
    page.goto(f"{site.url}/ui/datasets")
    expect(page.locator("#named")).to_contain_text(f"{HOSTILE}.zarr")
    expect(page.locator("#named")).to_contain_text("Ω" * 100)
    page.goto(f"{site.url}/ui/new?dataset={HOSTILE}")
    expect(page.get_by_label("Dataset", exact=True)).to_have_value(HOSTILE)
    expect(page.locator("[data-name=dataset] .wrong")).to_contain_text(HOSTILE)
    job = site.finished(f"{HOSTILE}.zarr", steps=2, feedback={"smoothed": "t"})
    page.goto(f"{site.url}/ui/jobs/{job}")
    page.wait_for_selector("canvas.result[data-ready]")
    expect(page.get_by_label("Variable").locator("option").first).to_contain_text(HOSTILE)
    expect(page.locator("img:not(.mark-of-brand)")).to_have_count(0)


def test_a_store_is_uploaded_used_and_removed(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/datasets")
    page.get_by_role("button", name="Upload").click()
    expect(page.locator("#send [role=status]")).to_have_text(
        "Choose a NetCDF file, or the folder of a Zarr store, first."
    )
    page.get_by_label("Folder").set_input_files(site.roots)
    page.get_by_role("button", name="Upload").click()
    expect(page.locator("#send [role=status]")).to_contain_text("This folder is no Zarr store")
    page.get_by_label("Folder").set_input_files(site.roots / "sea.zarr")
    page.get_by_role("button", name="Upload").click()
    expect(page.locator("#send [role=status]")).to_have_text("The dataset is there.")
    row = page.locator("tr[data-upload]").first
    expect(row).to_contain_text("complete")
    reference = row.locator("code").first.inner_text()
    site.finished(reference)
    row.get_by_role("link", name="Use in a new job").click()
    expect(page.get_by_label("Dataset", exact=True)).to_have_value(reference)
    page.go_back()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name=f"Remove {reference}").click()
    expect(page.locator("#uploads")).not_to_contain_text(reference)


def test_a_netcdf_file_is_sent_to_the_address_of_its_kind(
    site: Site, page: Page, tmp_path: Path
) -> None:
    sent: list[tuple[str, bytes | None]] = []

    def answer(route: Route) -> None:
        sent.append((route.request.method, route.request.post_data_buffer))
        route.fulfill(status=204)

    page.route(re.compile(r"/uploads/[^/]*\.nc$"), answer)
    page.route(re.compile(r"/uploads/[^/]*/complete$"), lambda route: route.fulfill(json={}))
    (tmp_path / "sea.nc").write_bytes(b"CDF")
    page.goto(f"{site.url}/ui/datasets")
    page.get_by_label("NetCDF file").set_input_files(tmp_path / "sea.nc")
    page.get_by_role("button", name="Upload").click()
    expect(page.locator("#send [role=status]")).to_have_text("The dataset is there.")
    assert sent == [("PUT", b"CDF")]
    page.unroute_all(behavior="ignoreErrors")


def test_datasets_of_the_operator_show_what_is_inside(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/datasets")
    item = page.locator("#named li").filter(has=page.get_by_text("sea.zarr", exact=True))
    expect(item).to_contain_text("1 variable · ")
    expect(item).to_contain_text("y 24")
    item.locator("summary").click()
    expect(item.locator("tbody tr").first).to_contain_text("degC")
    item.get_by_role("link", name="Use in a new job").click()
    expect(page.get_by_label("Dataset", exact=True)).to_have_value("sea.zarr")
    expect(page.locator("#state")).to_have_text("Ready to submit.")


def test_a_key_is_asked_for_and_sent(locked_service: tuple[str, str], page: Page) -> None:
    url, key = locked_service
    sent: list[tuple[str, str | None]] = []

    def note(request: Request) -> None:
        sent.append((request.url, request.headers.get("authorization")))

    page.goto(f"{url}/ui/")
    page.get_by_label("API key").fill("hc_wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#main [role=alert]")).to_have_text("This API key is not valid.")
    page.get_by_label("API key").fill(key)
    page.keyboard.press("Enter")
    expect(page.locator("#list")).to_contain_text("There are no jobs.")
    body: dict[str, Any] = {"inputs": {"string": "x"}}
    code = """
      const headers = { Prefer: "respond-async" };
      return (await module.post("processes/echo/execution", given, { headers })).id;
    """
    job = in_module(page, "core/api.js", code, body)
    page.on("request", note)
    with page.expect_response("**/events"):
        page.goto(f"{url}/ui/jobs/{job}")
    expect(page.locator("#facts")).to_contain_text("successful")
    expect(page.locator("#result pre")).to_contain_text('"string": "x"')
    events = [header for address, header in sent if address.endswith("/events")]
    assert events
    assert set(events) == {f"Bearer {key}"}
    assert key not in page.url
    page.get_by_role("button", name="Forget key").click()
    expect(page.get_by_label("API key")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
