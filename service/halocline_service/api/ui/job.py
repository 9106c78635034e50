"""One job: its state as a table; its script adds what moves."""

from __future__ import annotations

from typing import Any

from halocline_service.api.schemas import StatusInfo
from halocline_service.api.ui.html import Html, element
from halocline_service.api.ui.words import duration, moment, names, progress, state

__all__ = ["job_main", "missing_main"]


def job_main(info: StatusInfo) -> Html:
    """Write a job."""
    return element(
        "main",
        element("h1", f"Job {info.id[-8:]} ", element("small", info.processID), *_labels(info)),
        element("div", id="actions", class_="actions"),
        _facts(info),
        element("div", id="live"),
        _links(info),
        id="main",
        tabindex="-1",
        data_job=info.id,
    )


def _labels(info: StatusInfo) -> list[Html]:
    return [element("span", word, class_="label") for word in names(info)]


def _facts(info: StatusInfo) -> Html:
    end = info.finished or (info.updated if info.status == "running" else None)
    facts = element(
        "dl",
        _fact("State", state(info.status)),
        _fact("Progress", progress(info.progress), f" {info.progress} %", moves=True),
        _fact("Time", duration(info.started, end), moves=True),
        _fact("Created", moment(info.created)),
        _fact("Started", moment(info.started)),
        _fact("Finished", moment(info.finished)),
        _fact("Attempts", info.attempt) if info.attempt > 1 else None,
        _fact("Message", info.message, moves=True, wide=True),
        _fact("Identifier", element("code", info.id), wide=True),
        class_="facts",
    )
    return element(
        "section", facts, _exception(info.exception), id="facts", data_status=info.status
    )


def _fact(name: str, *values: Html | str | int, moves: bool = False, wide: bool = False) -> Html:
    """Write a fact; those that move are left to the script while it follows the job."""
    return element(
        "div",
        element("dt", name),
        element("dd", *values),
        class_="fact wide" if wide else "fact",
        data_live=moves,
    )


def _exception(error: dict[str, Any] | None) -> Html | None:
    if error is None:
        return None
    excerpt = error.get("excerpt")
    return element(
        "div",
        element("h2", str(error.get("title", "It failed"))),
        element("p", str(error.get("detail", ""))),
        element("pre", str(excerpt)) if excerpt else None,
        element("p", f"Hint: {error['hint']}") if error.get("hint") else None,
        class_="problem",
        role="alert",
    )


def _links(info: StatusInfo) -> Html:
    api = f"../../jobs/{info.id}"
    links = [("Status as JSON", api), ("Log", f"{api}/log")]
    if info.status in ("running", "successful"):
        links.append(("Plan", f"{api}/plan"))
    if info.status == "successful":
        links.append(("Results as JSON", f"{api}/results"))
        if info.processID not in ("plan", "echo"):
            links.append(("Rates", f"{api}/rates"))
    items = (element("a", title, href=href) for title, href in links)
    return element("nav", *items, class_="pager raw", aria_label="The same from the API")


def missing_main(job_id: str) -> Html:
    """Write what is shown where there is no such job."""
    return element(
        "main",
        element("h1", "No such job"),
        element("p", f"There is no job '{job_id[:100]}'. It may have been removed."),
        element("p", element("a", "All jobs", href="../")),
        id="main",
        tabindex="-1",
    )
