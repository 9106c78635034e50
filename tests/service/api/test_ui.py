"""The web page as HTML: what can be read without JavaScript, its headers, its files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from halocline_service.api.routes.ui import POLICY
from halocline_service.api.schemas import DatasetList, Link, StatusInfo, UploadInfo, UploadList
from halocline_service.api.ui import jobs as jobs_page
from halocline_service.api.ui.assets import read_assets
from halocline_service.api.ui.datasets import datasets_main
from halocline_service.api.ui.job import job_main
from halocline_service.api.ui.jobs import Asked, Found, jobs_main
from halocline_service.auth.keys import create
from halocline_service.jobs.job import Ending
from halocline_service.jobs.states import Event

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running

WEB = Path(str(files("halocline_service"))) / "web"
PAGES = ("", "new", "datasets", "cluster")
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "\"><script>alert('x')</script>",
    "'\"&amp;</td></table>",
    "ein sehr langer Name " + "Ω" * 3000,
    "\u202eright to left, \ud800 half of a pair",
)


class Reader(HTMLParser):
    """The elements and the words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, Mapping[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[Mapping[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return "".join(self.words)


def read(running: Running, path: str, **headers: str) -> Reader:
    answer = running.client.get(f"/ui/{path}", headers=headers)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Reader(answer.text)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_its_own_files_only(idle: Running, page: str) -> None:
    answer = idle.client.get(f"/ui/{page}")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["vary"] == "Authorization"
    found = Reader(answer.text)
    assert "style" not in [tag for tag, _ in found.elements]
    for tag, attributes in found.elements:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
    scripts = found.all("script")
    assert len(scripts) == 2
    for script in scripts:
        assert idle.client.get(f"/ui/{script['src']}").status_code == 200
    for style in found.all("link"):
        assert idle.client.get(f"/ui/{style['href']}").status_code == 200


def test_the_policy_lets_nothing_inline_and_no_other_host() -> None:
    parts = [rule.partition(" ") for rule in POLICY.split("; ")]
    rules = {name: sources for name, _, sources in parts}
    assert rules["default-src"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert "unsafe" not in POLICY
    assert "http" not in POLICY


def test_the_address_without_a_slash_leads_to_the_page(idle: Running) -> None:
    answer = idle.client.get("/ui", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (308, "ui/")
    assert idle.client.get("/ui").status_code == 200


def test_the_landing_page_leads_here(idle: Running) -> None:
    links = idle.client.get("/").json()["links"]
    assert [link["href"] for link in links if link["rel"] == "related"] == ["http://testserver/ui/"]


def test_jobs_can_be_read_without_a_script(service: Running) -> None:
    job = service.submit()
    service.wait(job)
    failed = service.submit(scalars={"fail": 1})
    service.wait(failed)
    found = read(service, "")
    assert [row["href"] for row in found.all("a") if "jobs/" in str(row["href"])] == [
        f"jobs/{failed}",
        f"jobs/{job}",
    ]
    assert "successful" in found.text
    assert "The result is there." in found.text
    shown = read(service, f"jobs/{job}")
    assert job in shown.text
    for link in shown.all("a"):
        if str(link["href"]).startswith("../../"):
            path = str(link["href"]).removeprefix("../..")
            assert service.client.get(path).status_code == 200
    told = read(service, f"jobs/{failed}")
    assert "has no variable." in told.text
    assert "Hint: Name it in 'fields'." in told.text


def test_jobs_are_filtered(service: Running) -> None:
    good, bad = service.submit(), service.submit(scalars={"fail": 1})
    echo = service.submit("echo", string="something")
    for job in (good, bad, echo):
        service.wait(job)

    def listed(query: str) -> set[str]:
        return set(
            re.findall(r'href="jobs/([0-9a-f-]{36})"', service.client.get(f"/ui/?{query}").text)
        )

    assert listed("") == {good, bad, echo}
    assert listed("status=failed") == {bad}
    assert listed("process=echo") == {echo}
    assert listed("status=successful&process=stencil") == {good}
    assert listed("q=NO+variable") == {bad}
    assert listed(f"q={good[-8:]}") == {good}
    assert listed("q=echo&status=failed") == set()
    assert "No job fits." in service.client.get("/ui/?q=nothing+like+this").text


def test_a_filter_keeps_what_was_chosen(idle: Running) -> None:
    found = read(idle, "?status=running&process=matmul&q=%22wind%22")
    chosen = [option["value"] for option in found.all("option") if "selected" in option]
    assert chosen == ["running", "matmul"]
    assert [each["value"] for each in found.all("input")] == ['"wind"']


def test_many_jobs_are_turned_in_pages(idle: Running) -> None:
    jobs = [idle.submit("echo", string=str(number)) for number in range(jobs_page.PAGE + 3)]
    page = idle.client.get("/ui/?process=echo").text
    seen = re.findall(r'href="jobs/([0-9a-f-]{36})"', page)
    assert seen == jobs[: -jobs_page.PAGE - 1 : -1]
    (older,) = re.findall(r'<a href="([^"]*)" rel="next">', page)
    rest = idle.client.get(f"/ui/{older.replace('&amp;', '&')}").text
    assert re.findall(r'href="jobs/([0-9a-f-]{36})"', rest) == jobs[2::-1]
    assert ">Older<" not in rest
    assert ">Newest<" in rest


def test_a_text_is_looked_for_in_so_many_jobs(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the page says so, and its link goes on behind the last one that was looked at."""
    monkeypatch.setattr(jobs_page, "_SCANNED", 4)
    jobs = [idle.submit("echo", string=str(number)) for number in range(10)]
    page = idle.client.get(f"/ui/?q={jobs[0]}").text
    assert "Of 4 jobs that were looked at" in page
    found = ""
    for _ in range(4):
        (older,) = re.findall(r'<a href="([^"]*)" rel="next">', page)
        page = idle.client.get(f"/ui/{older.replace('&amp;', '&')}").text
        if f"jobs/{jobs[0]}" in page:
            found = page
            break
    assert found


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_of_users_stay_text(name: str) -> None:
    """In every place where one can stand."""
    info: Any = StatusInfo(
        jobID=name,
        id=name,
        processID=name,
        status="failed",
        message=name,
        progress=10,
        attempt=1,
        created="2026-01-31T12:00:00.000Z",
        updated="2026-01-31T12:00:00.000Z",
        exception={"title": name, "detail": name, "excerpt": name, "hint": name},
        links=[Link(href="http://localhost", rel="self")],
    )
    upload = UploadInfo(
        id=name,
        status="complete",
        href=name,
        reference=name,
        created=name,
        kept=False,
        links=[],
    )
    listed = DatasetList(datasets=[name], truncated=True, links=[])
    pages = [
        jobs_main(Found([info], name), Asked("failed", name, name, name), [name], {}),
        job_main(info),
        datasets_main(listed, UploadList(uploads=[upload], links=[]), before=name),
    ]
    shown = name.encode("utf-8", "replace").decode()
    for page in pages:
        found = Reader(page)
        assert {"img", "script"}.isdisjoint(tag for tag, _ in found.elements)
        assert not [a for _, a in found.elements if any(key.startswith("on") for key in a)]
        assert shown in found.text
        page.encode()


def test_an_error_with_markup_is_shown_as_text(idle: Running) -> None:
    job = idle.submit()
    claimed = idle.store.jobs.claim("somebody")
    assert claimed is not None
    error = {"code": "field", "message": HOSTILE[0], "hint": HOSTILE[1]}
    idle.store.jobs.settle(claimed.lease, Ending(Event.FAIL, HOSTILE[0], error=error))
    for path in ("", f"jobs/{job}"):
        found = read(idle, path)
        assert HOSTILE[0] in found.text
        assert [image["class"] for image in found.all("img")] == ["mark-of-brand"]


def test_a_job_that_is_not_there_is_a_page(idle: Running) -> None:
    answer = idle.client.get("/ui/jobs/%3Cimg%20src%3Dx%3E")
    assert answer.status_code == 404
    assert "There is no job &#x27;&lt;img src=x&gt;&#x27;." in answer.text
    assert answer.headers["content-security-policy"] == POLICY


def test_uploads_and_datasets_are_listed(idle: Running) -> None:
    upload = idle.client.post("/uploads").json()
    found = read(idle, "datasets")
    assert upload["reference"] in found.text
    assert "sst.zarr" in found.text
    assert [row["data-upload"] for row in found.all("tr") if "data-upload" in row] == [upload["id"]]
    offered = [option["value"] for option in read(idle, "new").all("option") if "value" in option]
    assert "sst.zarr" in offered
    assert upload["reference"] not in offered  # it is not complete


def test_the_cluster_is_what_the_service_knows(service: Running) -> None:
    service.wait(service.submit())
    service.client.post("/uploads")
    text = read(service, "cluster").text
    assert "your unfinished jobs (0 now)100" in text
    assert "your uploads (1 now)100" in text
    assert "workersok" in text.replace(" ", "")
    assert "0jobs waiting, all users" in text
    assert "can compute" in text
    listed = read(service, "").text
    assert "1successful" in listed
    assert "0failed" in listed


def test_the_workers_of_all_dispatchers_are_listed_once(idle: Running) -> None:
    gpu = {"name": "tls://a:1", "device": "NVIDIA H100", "threads": 4}
    load = [[100.0, 2**30], [350.0, 3 * 2**30]]
    workers = [
        {**gpu, "memory": 3 * 2**30, "memory_limit": 64 * 2**30, "recent": load},
        {"name": "tls://b:1", "device": "", "threads": 1, "memory": None, "memory_limit": 0},
    ]
    for name in ("first", "second"):
        idle.store.presence.beat(name, {"name": name, "lacks": "", "workers": workers})
    idle.store.presence.beat("older", {"name": "older", "lacks": ""})
    found = read(idle, "cluster")
    first = "tls://a:1NVIDIA H100, 4 threadsProcessors: 350 %Memory: 3.0 GiB of 64.0 GiB"
    assert found.text.count(first) == 1
    assert found.text.count("tls://b:1CPU, 1 threadsProcessors: ?Memory: ?") == 1
    lines = [each["points"] for each in found.all("polyline")]
    assert lines[:2] == ["0.0,25.0 180.0,5.0", "0.0,32.5 180.0,31.5"]
    assert len(lines) == 4


def test_without_a_key_there_is_a_form_and_nothing_else(idle: Running, client_of: ClientOf) -> None:
    job = idle.submit()
    client = client_of(idle.settings.model_copy(update={"auth": "keys"}))
    for path in (*PAGES, f"jobs/{job}"):
        answer = client.get(f"/ui/{path}")
        assert answer.status_code == 200
        assert 'id="key-form"' in answer.text
        assert "requires an API key" in answer.text
        for secret in (job, "sst.zarr", "can compute"):
            assert secret not in answer.text.replace(f"Job {job[-8:]}", "")
    wrong = client.get("/ui/", headers={"Authorization": "Bearer hc_nothing"})
    assert "This API key is not valid." in wrong.text


def test_with_a_key_one_sees_ones_own(idle: Running, client_of: ClientOf) -> None:
    client = client_of(idle.settings.model_copy(update={"auth": "keys"}))
    keys = [create(idle.store.keys, owner).text for owner in ("me", "you")]
    mine, yours = ({"Authorization": f"Bearer {key}"} for key in keys)
    body = {"inputs": {"string": "mine"}}
    wishes = {**mine, "Prefer": "respond-async"}
    job = client.post("/processes/echo/execution", json=body, headers=wishes).json()["jobID"]
    assert job in client.get("/ui/", headers=mine).text
    assert job not in client.get("/ui/", headers=yours).text
    assert client.get(f"/ui/jobs/{job}", headers=yours).status_code == 404


def asset_url(running: Running, path: str) -> str:
    return f"/ui/assets/{running.app.state.assets.version}/{path}"


def test_files_are_kept_for_ever_under_the_name_of_their_content(idle: Running) -> None:
    answer = idle.client.get(asset_url(idle, "core/dom.js"))
    content = (WEB / "core" / "dom.js").read_bytes()
    assert answer.content == content
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    tag = answer.headers["etag"]
    for condition in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = idle.client.get(answer.url.path, headers={"If-None-Match": condition})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    other = idle.client.get(answer.url.path, headers={"If-None-Match": '"other"'})
    assert other.status_code == 200
    head = idle.client.head(answer.url.path)
    assert (head.content, head.headers["etag"]) == (b"", tag)


def test_a_name_of_another_version_leads_nowhere(idle: Running) -> None:
    answer = idle.client.get("/ui/assets/0123456789abcdef/style.css")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "The page has no such file: load it again."


@pytest.mark.parametrize(
    "path",
    [
        "../settings.py",
        "..%2Fsettings.py",
        "%2e%2e/%2e%2e/settings.py",
        "core/../../app.py",
        "core/..%2f..%2fapp.py",
        "//etc/passwd",
        "%2Fetc%2Fpasswd",
        "core%5c..%5c..%5capp.py",
        "style.css%00.js",
        "",
        "core",
        "core/",
        "vendor/README.md",
        "vendor/SHA256SUMS",
        "vendor/make/make.sh",
        "vendor/make/entry.js",
    ],
)
def test_no_path_leads_out_of_the_files(idle: Running, path: str) -> None:
    answer = idle.client.get(asset_url(idle, path))
    assert answer.status_code == 404
    assert "def " not in answer.text


def test_the_version_changes_with_any_file(tmp_path: Path) -> None:
    made = read_assets()
    changed = dict(made.by_path)
    changed["style.css"] = replace(changed["style.css"], tag='"other"')
    assert made == read_assets()
    assert {"style.css", "theme.js", "jobs.js", "vendor/zarrita.js"} <= set(changed)
    assert re.fullmatch("[0-9a-f]{16}", made.version)


def test_vendored_files_are_those_that_were_made() -> None:
    """`vendor/make/make.sh` writes their digests."""
    lines = (WEB / "vendor" / "SHA256SUMS").read_text().splitlines()
    for line in lines:
        digest, name = line.split()
        assert hashlib.sha256((WEB / "vendor" / name).read_bytes()).hexdigest() == digest
    assert {line.split()[1] for line in lines} == {
        "coast.js",
        "zarrita.js",
        "zarrita.licences.txt",
    }


def own_scripts() -> list[Path]:
    return [path for path in sorted(WEB.rglob("*.js")) if "vendor" not in path.parts]


@pytest.mark.parametrize("path", own_scripts(), ids=lambda path: path.stem)
def test_a_script_is_small_and_writes_no_markup(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 350
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in text, word
    assert not re.search(r"https?://(?!www\.w3\.org)", text)


@pytest.mark.parametrize("path", own_scripts(), ids=lambda path: path.stem)
def test_what_a_script_imports_is_there(path: Path) -> None:
    for name in re.findall(
        r'^(?:import|\} from|export).*?"(\.[^"]+)";', path.read_text(), re.MULTILINE
    ):
        assert (path.parent / name).is_file(), name
