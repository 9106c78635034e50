"""The landing page and the documents."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running


def test_the_landing_page_links_to_everything(idle: Running) -> None:
    answer = idle.client.get("/")
    assert answer.headers["content-type"] == "application/json"
    links = {(link["rel"], link["type"]): link["href"] for link in answer.json()["links"]}
    ogc = "http://www.opengis.net/def/rel/ogc/1.0"
    for version in ("3.0", "3.1"):
        kind = f"application/vnd.oai.openapi+json;version={version}"
        document = idle.client.get(links[("service-desc", kind)])
        assert document.headers["content-type"] == kind
        assert document.json()["openapi"].startswith(version)
    for rel in (f"{ogc}/conformance", f"{ogc}/processes", f"{ogc}/job-list", "conformance"):
        assert idle.client.get(links[(rel, "application/json")]).status_code == 200
    assert ("service-doc", "text/html") in links


def test_the_landing_page_is_html_for_browsers(idle: Running) -> None:
    answer = idle.client.get("/", headers={"Accept": "text/html,*/*;q=0.8"})
    assert answer.headers["content-type"].startswith("text/html")
    for path in re.findall(r'href="((?:ui/|docs|api)[^"#]*)"', answer.text):
        assert idle.client.get(path).status_code == 200, path
    assert {"ui/new", "docs", "api"} <= set(re.findall(r'href="([^"]*)"', answer.text))
    assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_the_reference_has_every_operation_and_every_input(idle: Running) -> None:
    page = idle.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path in idle.client.get("/api").json()["paths"]:
        assert f"<code>{escape(path)}</code>" in page.text
    for process in idle.client.get("/processes").json()["processes"]:
        described = idle.client.get(f"/processes/{process['id']}").json()
        part = page.text.split(f'id="process-{process["id"]}"')[1].split("</section>")[0]
        for name in described["inputs"]:
            assert f"<code>{name}</code>" in part, (process["id"], name)


def test_the_document_is_where_tools_look_for_it(idle: Running) -> None:
    answer = idle.client.get("/openapi.json", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (308, "api")
    assert idle.client.get("/openapi.json").json()["openapi"].startswith("3.1")


def test_conformance_names_what_is_met_only(idle: Running) -> None:
    classes = idle.client.get("/conformance").json()["conformsTo"]
    prefix = "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/"
    assert {each.removeprefix(prefix) for each in classes} == {
        "core",
        "ogc-process-description",
        "json",
        "oas30",
        "job-list",
        "dismiss",
    }


def test_a_public_url_is_used_in_links(idle: Running, client_of: ClientOf) -> None:
    settings = idle.settings.model_copy(update={"public_url": "https://testserver/halo/"})
    client = client_of(settings)
    assert client.get("/").json()["links"][0]["href"] == "https://testserver/halo/"
    problem = client.get("/nothing").json()
    assert problem["type"] == "https://testserver/halo/problems/not-found"


def test_kinds_of_problems_are_explained(idle: Running) -> None:
    problem = idle.client.get("/nothing")
    assert problem.status_code == 404
    explained = idle.client.get(problem.json()["type"])
    assert explained.json() == {
        "code": "not-found",
        "title": "Not found",
        "status": 404,
    }
    assert idle.client.get("/problems/unheard-of").status_code == 404
