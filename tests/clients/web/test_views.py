"""Every view opens, in both themes and on a phone, and can be used by keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, Route, expect

from halocline_service.api.routes.ui import POLICY

if TYPE_CHECKING:
    from tests.clients.web.conftest import Site

VIEWS = {"": "Jobs", "new": "New job", "datasets": "Datasets", "cluster": "Cluster"}
BESIDE = {"../": "Halocline", "../docs": "API reference"}
FORMS = {"light": (1200, 900), "dark": (1200, 900), "phone": (360, 740)}


@pytest.fixture(scope="module")
def done(site: Site) -> str:
    return site.finished()


@pytest.mark.parametrize("form", FORMS)
def test_every_view_opens(site: Site, page: Page, done: str, form: str) -> None:
    width, height = FORMS[form]
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme="dark" if form == "dark" else "light")
    pages = {**VIEWS, **BESIDE, f"jobs/{done}": f"Job {done[-8:]} stencil"}
    for path, title in pages.items():
        answer = page.goto(f"{site.url}/ui/{path}")
        assert answer is not None
        assert answer.headers["content-security-policy"] == POLICY
        expect(page.locator("h1")).to_have_text(title)
        expect(page.locator("#theme")).to_have_text("Theme: system")  # the script has run
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (path, wide)
    expect(page.locator("canvas.result[data-ready]")).to_be_visible()
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(12, 20, 24)" if form == "dark" else "rgb(243, 247, 248)")


def test_the_jobs_can_be_read_without_a_script(site: Site, page: Page, done: str) -> None:
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(f"{site.url}/ui/")
    expect(plain.locator("tbody tr").first).to_contain_text("successful")
    plain.locator(f"a[href='jobs/{done}']").click()
    expect(plain.locator("#facts")).to_contain_text(done)
    context.close()


def test_a_proxy_may_put_it_under_any_path(site: Site, page: Page, done: str) -> None:
    asked: list[str] = []

    def forward(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(response=route.fetch(url=route.request.url.replace("/below/a/path", "")))

    page.route(f"{site.url}/below/a/path/**", forward)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site.url}/below/a/path/ui/")
    page.locator(f"a[href='jobs/{done}']").click()
    expect(page.locator("canvas.result[data-ready]")).to_be_visible()
    for title in VIEWS.values():
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=title).click()
        expect(page.locator("h1")).to_have_text(title)
        expect(page.locator("#theme")).to_have_text("Theme: system")
    own = f"{site.url}/below/a/path/"
    assert not [url for url in asked if not url.startswith((own, "blob:"))]
    # A page that closes while something is under way would fail the next test, and what it asks for
    # without routes is not there.
    page.goto("about:blank")
    page.unroute_all(behavior="ignoreErrors")


def test_a_theme_is_chosen_and_kept(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/cluster")
    button = page.locator("#theme")
    button.click()
    expect(button).to_have_text("Theme: dark")
    page.goto(f"{site.url}/ui/")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(12, 20, 24)"
    button.click()
    expect(button).to_have_text("Theme: light")
    button.click()
    page.reload()
    expect(button).to_have_text("Theme: system")


def test_keys_reach_everything_and_the_focus_is_seen(site: Site, page: Page, done: str) -> None:
    page.goto(f"{site.url}/ui/")
    reached: list[str] = []
    for _ in range(22):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "() => { const it = document.activeElement, s = getComputedStyle(it);"
            " return [it.textContent, it.matches(':focus-visible') && s.outlineWidth] }"
        )
        reached.append(focused[0])
        assert focused[1] == "3px", focused
        if focused[0] == done[-8:]:
            break
    assert reached[0] == "Skip to content"
    assert {"Jobs", "New job", "Datasets", "Cluster"} <= set(reached)
    page.keyboard.press("Enter")
    expect(page.locator("#facts")).to_contain_text(done)


def test_every_control_has_a_name(site: Site, page: Page, done: str) -> None:
    for path in (*VIEWS, "new?process=sequence", "new?process=regrid", f"jobs/{done}"):
        page.goto(f"{site.url}/ui/{path}")
        expect(page.locator("#theme")).to_be_visible()
        if path.startswith("new"):
            expect(page.locator("#fields .field").first).to_be_visible()
        if path == "new?process=sequence":
            page.get_by_role("button", name="Add a stage").click()
        nameless = page.evaluate(
            "() => ['input', 'select', 'textarea', 'button', 'canvas', 'progress']"
            ".flatMap(name => [...document.querySelectorAll(name)])"
            ".filter(it => !it.closest('[hidden]') && !it.labels?.length && !it.ariaLabel"
            " && !it.textContent.trim()).map(it => it.outerHTML)"
        )
        assert nameless == [], path


def test_filters_work_as_one_types(site: Site, page: Page, done: str) -> None:
    page.goto(f"{site.url}/ui/")
    rows = page.locator("tbody tr")
    expect(rows.first).to_be_visible()
    page.get_by_label("Text").press_sequentially("no job has this text")
    expect(page.locator("#list")).to_contain_text("No job fits.")
    page.get_by_label("Text").fill(done[-8:])
    expect(rows).to_have_count(1)
    page.get_by_label("State").select_option("failed")
    expect(page.locator("#list")).to_contain_text("No job fits.")
    assert "status=failed" in page.url
    page.reload()
    expect(page.get_by_label("State")).to_have_value("failed")
