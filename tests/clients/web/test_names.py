"""Every control of the pages has a name that readers of a screen are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Page, expect

from halocline_service.processes.table import PROCESSES

if TYPE_CHECKING:
    from tests.clients.web.conftest import Site

_CONTROLS = frozenset(
    {
        *("button", "checkbox", "combobox", "DisclosureTriangle", "link", "listbox", "menuitem"),
        *("radio", "searchbox", "slider", "spinbutton", "switch", "textbox"),
    }
)
PAGES = [name for name in PROCESSES if name != "plan"]


def unfold(page: Page) -> None:
    """Open what is folded: nobody is told of what is not shown."""
    page.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true; })")


def controls(page: Page) -> list[tuple[str, str, str]]:
    """Return role, name and place of each control, as Chromium tells them to a screen reader."""
    unfold(page)
    session: Any = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    found: list[tuple[str, str, str]] = []
    for node in nodes:
        role = str(node.get("role", {}).get("value", ""))
        if not node.get("ignored") and role in _CONTROLS:
            name = str(node.get("name", {}).get("value", "")).strip()
            found.append((role, name, "" if name else _markup(session, node)))
    session.detach()
    return found


def _markup(session: Any, node: Any) -> str:
    return str(session.send("DOM.getOuterHTML", {"backendNodeId": node["backendDOMNodeId"]}))


def unnamed(page: Page) -> list[tuple[str, str, str]]:
    return [each for each in controls(page) if not each[1]]


@pytest.mark.parametrize("process", PAGES)
def test_controls_of_forms_have_names(site: Site, page: Page, process: str) -> None:
    page.goto(f"{site.url}/ui/new?process={process}&dataset=sea.zarr")
    expect(page.locator("#fields .field").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    unfold(page)
    for button in page.locator("#fields button:text-matches('^(Add|\\\\+)')").all():
        button.click()
    shown = page.locator("#fields").locator("input, select, textarea").count()
    assert len(controls(page)) >= shown
    assert unnamed(page) == []


@pytest.mark.parametrize("path", ["", "new", "datasets", "cluster", "jobs/{job}", "../", "../docs"])
def test_controls_of_pages_have_names(site: Site, page: Page, path: str, done: str) -> None:
    page.goto(f"{site.url}/ui/{path}".replace("{job}", done))
    if "{job}" in path:
        page.wait_for_selector("canvas.result[data-ready]")
    page.wait_for_load_state("networkidle")
    assert len(controls(page)) > 3
    assert unnamed(page) == []


def test_a_control_without_a_name_is_found(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/datasets")
    page.evaluate("document.querySelector('#main').append(document.createElement('select'))")
    assert [(role, name) for role, name, _ in unnamed(page)] == [("combobox", "")]


@pytest.fixture(scope="module")
def done(site: Site) -> str:
    return site.finished()
