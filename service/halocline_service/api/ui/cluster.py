"""The page 'Cluster': readiness, queue, workers and limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from halocline_service.api.ui.html import Child, Html, element
from halocline_service.api.ui.words import size
from halocline_service.settings import Settings

__all__ = ["Cluster", "cluster_main"]

_GOOD, _BAD = "successful", "failed"  # classes of colours
_WIDE, _HIGH = 180, 34  # of a line of load


@dataclass(frozen=True, slots=True)
class Cluster:
    """State of the cluster; `oldest` is the longest wait of a job, in seconds."""

    checks: Mapping[str, str]
    counts: Mapping[str, int]
    of_all: bool  # whether counts are of all users
    oldest: float | None
    dispatchers: Sequence[Mapping[str, Any]]
    free: int
    unfinished: int  # jobs of this user
    uploads: int
    settings: Settings


def cluster_main(cluster: Cluster) -> Html:
    """Write the page."""
    live = element(
        "div",
        _summary(cluster),
        _workers(cluster),
        element("div", _readiness(cluster), _limits(cluster), class_="cards"),
        id="live",
    )
    return element("main", element("h1", "Cluster"), live, id="main", tabindex="-1")


def _summary(cluster: Cluster) -> Html:
    """Write the main figures."""
    waited = "—" if cluster.oldest is None else f"{cluster.oldest:.0f} s"
    workers = len(list(_seen(cluster)))
    whose = "all users" if cluster.of_all else "yours"
    tiles = (
        (cluster.counts.get("running", 0), f"jobs running, {whose}"),
        (cluster.counts.get("accepted", 0), f"jobs waiting, {whose}"),
        (waited, "longest wait"),
        (workers or "—", "workers"),
        (size(cluster.free), "free on the disk"),
    )
    return element(
        "div",
        *(
            element("div", element("strong", value), element("span", words), class_="tile card")
            for value, words in tiles
        ),
        class_="tiles",
    )


def _readiness(cluster: Cluster) -> Html:
    rows = [
        (
            name,
            element("span", state, class_=f"state {'successful' if state == 'ok' else 'failed'}"),
        )
        for name, state in cluster.checks.items()
    ]
    dispatchers = [
        (
            element("span", str(each.get("name", "?"))),
            str(each.get("lacks") or "can compute"),
        )
        for each in cluster.dispatchers
    ]
    return element(
        "section",
        element("h2", "Readiness"),
        _table(("Part", "State"), rows),
        element("h3", "Dispatchers ", _explained("?", _DISPATCHER)),
        _table(("Name", "State"), dispatchers) if dispatchers else element("p", "None."),
        class_="card",
    )


_DISPATCHER = "A dispatcher takes jobs from the queue and runs them on the workers."


def _explained(word: str, meaning: str) -> Html:
    return element("abbr", word, title=meaning, tabindex="0", class_="note")


def _table(head: Sequence[str], rows: Sequence[Sequence[Child]]) -> Html:
    names = element("tr", *(element("th", word, scope="col") for word in head))
    body = (element("tr", *(element("td", value) for value in row)) for row in rows)
    return element(
        "div",
        element("table", element("thead", names), element("tbody", *body)),
        class_="scroll",
    )


def _seen(cluster: Cluster) -> Iterator[Mapping[str, Any]]:
    """Yield the workers once each, as dispatchers with a common scheduler share them."""
    seen = [each for one in cluster.dispatchers for each in one.get("workers", ())]
    yield from {each["name"]: each for each in seen}.values()


def _workers(cluster: Cluster) -> Html:
    items = [
        element(
            "li",
            element(
                "div",
                element("strong", str(each["name"])),
                element("div", f"{each['device'] or 'CPU'}, {each['threads']} threads"),
                class_="of-worker",
            ),
            _load(each),
            _memory(each),
        )
        for each in _seen(cluster)
    ]
    none = "No workers are connected: the dispatcher computes by itself, or waits for workers."
    return element(
        "section",
        element("h2", "Workers ", element("small", "load of the last five minutes")),
        element("ul", *items, class_="workers") if items else element("p", none, class_="empty"),
        class_="card",
    )


def _load(worker: Mapping[str, Any]) -> Html:
    percents = [cpu for cpu, _ in worker.get("recent", ()) if cpu is not None]
    now = f"{percents[-1]:.0f} %" if percents else "?"
    most = 100.0 * (worker["threads"] or 1)
    return _measured("Processors", _line(percents, most), now)


def _measured(what: str, line: Html, now: str) -> Html:
    words = element("span", f"{what}: {now}")
    return element("div", line, words, class_="load")


def _memory(worker: Mapping[str, Any]) -> Html:
    sizes = [memory for _, memory in worker.get("recent", ()) if memory is not None]
    limit = worker["memory_limit"]
    taken = "?" if worker["memory"] is None else size(worker["memory"])
    words = f"{taken} of {size(limit)}" if limit else taken
    return _measured("Memory", _line(sizes, limit or max(sizes, default=1)), words)


def _line(values: Sequence[float], most: float) -> Html:
    """Draw values over time, from 0 to `most`."""
    shown = values or [0.0]
    step = _WIDE / max(1, len(shown) - 1)
    heights = (min(1.0, value / most) * (_HIGH - 2) for value in shown)
    points = [f"{step * place:.1f},{_HIGH - 1 - high:.1f}" for place, high in enumerate(heights)]
    if len(points) == 1:
        points.append(f"{_WIDE},{points[0].split(',')[1]}")
    area = [f"0,{_HIGH}", *points, f"{_WIDE},{_HIGH}"]
    return element(
        "svg",
        element("polygon", points=" ".join(area)),
        element("polyline", points=" ".join(points)),
        viewBox=f"0 0 {_WIDE} {_HIGH}",
        width=_WIDE,
        height=_HIGH,
        class_="sparkline",
        aria_hidden="true",
    )


def _limits(cluster: Cluster) -> Html:
    settings = cluster.settings
    granted = settings.memory_bytes, settings.device_memory_bytes
    memory, device = (size(one) if one else "free memory" for one in granted)
    rows: list[tuple[str, Child]] = [
        (f"your unfinished jobs ({cluster.unfinished} now)", settings.queue_per_owner),
        ("concurrent jobs of a dispatcher", settings.concurrency),
        ("memory of a worker for jobs", memory),
        ("memory of a GPU for jobs", device),
        (f"your uploads ({cluster.uploads} now)", settings.uploads_per_owner),
        ("size of an upload", size(settings.upload_bytes)),
        ("size of one file of an upload", size(settings.upload_key_bytes)),
    ]
    return element(
        "section",
        element("h2", "Limits"),
        _table(("Limit", "Value"), rows),
        class_="card",
    )
