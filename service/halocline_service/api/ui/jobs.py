"""The list of jobs: a form that filters it, a table, and the way to older ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from halocline_service.api.schemas import StatusInfo
from halocline_service.api.ui.html import Html, element
from halocline_service.api.ui.words import duration, moment, names, progress, state
from halocline_service.jobs.job import JobSummary
from halocline_service.jobs.states import State, ogc_status
from halocline_service.store.base import JobQuery, JobStore, Page

__all__ = ["PAGE", "Asked", "Found", "find", "jobs_main"]

PAGE = 25  # jobs of a page
_SCANNED = 2000  # jobs that one request compares with a text, at most
_TURN = 250
_STATES = {ogc_status(each): each for each in State}


@dataclass(frozen=True, slots=True)
class Asked:
    """Filter of the list of jobs; empty texts match all."""

    status: str = ""
    process: str = ""
    text: str = ""
    before: str | None = None

    @property
    def query(self) -> str:
        """The query of the page; empty where everything is asked for."""
        parts = {"status": self.status, "process": self.process, "q": self.text}
        kept = {name: value for name, value in (parts | {"before": self.before}).items() if value}
        return f"?{urlencode(kept, errors='replace')}" if kept else ""

    def older(self, last: str) -> str:
        """Give the query of the page that follows a job."""
        return replace(self, before=last).query


@dataclass(frozen=True, slots=True)
class Found:
    """The jobs of a page; `last` is the job behind which the next page begins, if there are more.

    `looked_at` is how many jobs were compared with a text, where that is why there are no more.
    """

    jobs: Sequence[StatusInfo]
    last: str | None
    looked_at: int | None = None


def find(
    store: JobStore, owner: str, asked: Asked, show: Callable[[JobSummary], StatusInfo]
) -> Found:
    """Look for the jobs of a page."""
    query = JobQuery(
        owner=owner,
        processes=(asked.process,) if asked.process else (),
        states=(_STATES[asked.status],) if asked.status in _STATES else (),
        page=Page(limit=_TURN if asked.text else PAGE + 1, before=asked.before),
    )
    found: list[StatusInfo] = []
    last: str | None = None
    for scanned, job in enumerate(_scan(store, query)):
        if len(found) == PAGE:
            return Found(found, found[-1].id)
        if scanned == _SCANNED:
            return Found(found, last, scanned)
        info, last = show(job), job.id
        if _has(info, asked.text):
            found.append(info)
    return Found(found, None)


def _scan(store: JobStore, query: JobQuery) -> Iterator[JobSummary]:
    """Go through jobs, newest first."""
    while page := store.list(query):
        yield from page
        if len(page) < query.page.limit:
            return
        query = replace(query, page=replace(query.page, before=page[-1].id))


def _has(info: StatusInfo, text: str) -> bool:
    """Say whether a job has a text in what the list shows of it."""
    if not text:
        return True
    shown = (info.id, info.processID, info.status, info.message, *names(info))
    return text.casefold() in " ".join(shown).casefold()


def jobs_main(
    found: Found, asked: Asked, processes: Sequence[str], counts: Mapping[str, int]
) -> Html:
    """Write the list; `counts` are all jobs of who looks, by state."""
    new = element("a", "New job", href="new", class_="button primary")
    return element(
        "main",
        element("div", element("h1", "Jobs"), new, class_="headline"),
        _counts(counts, asked),
        _form(asked, processes),
        _table(found, asked),
        id="main",
        tabindex="-1",
    )


def _counts(counts: Mapping[str, int], asked: Asked) -> Html:
    """Write how many jobs there are of each state, which leads to them."""
    tiles = (
        element(
            "a",
            element("strong", counts.get(status, 0)),
            element("span", status),
            href=Asked(status, asked.process, asked.text).query or "./",
            aria_current="true" if status == asked.status else None,
        )
        for status in _STATES
    )
    return element(
        "nav", *tiles, class_="counts", id="counts", aria_label="How many jobs there are"
    )


def _form(asked: Asked, processes: Sequence[str]) -> Html:
    return element(
        "form",
        _choice("status", "State", tuple(_STATES), asked.status),
        _choice("process", "Process", processes, asked.process),
        element(
            "label",
            element("span", "Text"),
            element("input", name="q", type="search", value=asked.text, maxlength=200),
        ),
        element("button", "Filter"),
        id="filters",
        class_="filters",
        role="search",
        action="./",
    )


def _choice(name: str, title: str, words: Sequence[str], chosen: str) -> Html:
    options = (
        element("option", word or "any", value=word, selected=word == chosen)
        for word in ("", *words)
    )
    return element("label", element("span", title), element("select", *options, name=name))


def _table(found: Found, asked: Asked) -> Html:
    head = element(
        "tr",
        *(
            element("th", word, scope="col")
            for word in ("Job", "Process", "State", "Progress", "Message", "Created", "Time")
        ),
    )
    rows = element("tbody", *(_row(info) for info in found.jobs))
    table = element("table", element("thead", head), rows, class_="jobs")
    pager = element(
        "nav",
        element("a", "Newest", href="./") if asked.before else None,
        element("a", "Older", href=asked.older(found.last), rel="next") if found.last else None,
        class_="pager",
        aria_label="More jobs",
    )
    return element(
        "section",
        _told(found, asked),
        table if found.jobs else None,
        pager,
        id="list",
        aria_label="Jobs",
    )


def _told(found: Found, asked: Asked) -> Html | None:
    """Say why there are no jobs, or perhaps more of them."""
    if found.looked_at is not None:
        return element("p", f"Of {found.looked_at} jobs that were looked at; there are older ones.")
    if found.jobs:
        return None
    if asked != Asked():
        return element("p", "No job fits.", class_="empty")
    first = element("a", "Start the first one", href="new")
    return element("p", "There are no jobs. ", first, ".", class_="empty")


def _row(info: StatusInfo) -> Html:
    end = info.finished or (info.updated if info.status == "running" else None)
    labels = (element("span", word, class_="label") for word in names(info))
    return element(
        "tr",
        element("td", element("a", info.id[-8:], href=f"jobs/{info.id}", title=info.id), *labels),
        element("td", info.processID, data_head="Process"),
        element("td", state(info.status), data_head="State"),
        element("td", progress(info.progress), data_head="Progress"),
        element("td", info.message, data_head="Message", class_="message"),
        element("td", moment(info.created), data_head="Created"),
        element("td", duration(info.started, end), data_head="Time"),
    )
