"""The cluster: whether jobs can run, how many wait, and what a user may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from halocline_service.api.ui.html import Child, Html, element
from halocline_service.api.ui.words import size
from halocline_service.settings import Settings

__all__ = ["Cluster", "cluster_main"]


@dataclass(frozen=True, slots=True)
class Cluster:
    """State of the cluster; `oldest` is the longest wait of a job, in seconds."""

    checks: Mapping[str, str]
    counts: Mapping[str, int]
    of_all: bool  # users, and not of who looks alone
    oldest: float | None
    dispatchers: Sequence[Mapping[str, Any]]
    free: int
    unfinished: int  # jobs of who looks
    uploads: int
    settings: Settings


def cluster_main(cluster: Cluster) -> Html:
    """Write the page."""
    live = element(
        "div",
        _table("Readiness", ("Part", "State"), [*cluster.checks.items()]),
        _table("Jobs of all users" if cluster.of_all else "Your jobs", *_queue(cluster)),
        _table("Dispatchers", ("Name", "Workers"), _dispatchers(cluster)),
        _table("Limits", ("What", "At most"), _limits(cluster)),
        _table("Workers", ("Name", "Device", "Threads", "Memory"), _workers(cluster)),
        id="live",
        class_="cards",
    )
    return element("main", element("h1", "Cluster"), live, id="main", tabindex="-1")


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[Child]]) -> Html:
    names = element("tr", *(element("th", word, scope="col") for word in head))
    body = (element("tr", *(element("td", value) for value in row)) for row in rows)
    none = element("tr", element("td", "none", colspan=len(head)))
    return element(
        "section",
        element("h2", title),
        element("table", element("thead", names), element("tbody", *(body if rows else (none,)))),
        class_="card",
    )


def _queue(cluster: Cluster) -> tuple[tuple[str, str], list[tuple[str, Child]]]:
    waited = "—" if cluster.oldest is None else f"{cluster.oldest:.0f} s"
    return ("State", "Jobs"), [*cluster.counts.items(), ("longest wait", waited)]


def _dispatchers(cluster: Cluster) -> list[tuple[str, Child]]:
    return [
        (str(each.get("name", "?")), str(each.get("lacks") or "can compute"))
        for each in cluster.dispatchers
    ]


def _workers(cluster: Cluster) -> list[tuple[Child, ...]]:
    """Give the workers, which all dispatchers see that have the same scheduler."""
    seen = [each for one in cluster.dispatchers for each in one.get("workers", ())]
    return [
        (
            str(each["name"]),
            str(each["device"] or "CPU"),
            str(each["threads"]),
            _of(each["memory"], each["memory_limit"]),
        )
        for each in {each["name"]: each for each in seen}.values()
    ]


def _of(part: int | None, limit: int | None) -> str:
    """Say how much of a limit is taken."""
    taken = "?" if part is None else size(part)
    return f"{taken} of {size(limit)}" if limit else taken


def _limits(cluster: Cluster) -> list[tuple[str, Child]]:
    settings = cluster.settings
    granted = settings.memory_bytes, settings.device_memory_bytes
    memory, device = (size(one) if one else "what is free" for one in granted)
    return [
        (f"your jobs that wait or run ({cluster.unfinished} now)", settings.queue_per_owner),
        ("jobs at once, of each dispatcher", settings.concurrency),
        ("memory of a worker for jobs", memory),
        ("memory of a GPU for jobs", device),
        (f"your uploads ({cluster.uploads} now)", settings.uploads_per_owner),
        ("size of an upload", size(settings.upload_bytes)),
        ("size of one object of an upload", size(settings.upload_key_bytes)),
        ("free space on the disk now", size(cluster.free)),
    ]
