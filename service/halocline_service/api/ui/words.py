"""Times, sizes and states in words."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from halocline_service.api.schemas import StatusInfo
from halocline_service.api.ui.html import Html, element

__all__ = ["duration", "moment", "names", "progress", "size", "state"]


def moment(text: str | None) -> Html:
    """Write a time of the API; the script of the page converts it to the local time zone.

    >>> moment("2026-01-31T12:00:01.500Z")
    '<time datetime="2026-01-31T12:00:01.500Z">2026-01-31 12:00:01 UTC</time>'
    """
    if not text:
        return element("span", "—")
    return element("time", f"{text[:10]} {text[11:19]} UTC", datetime=text)


def duration(start: str | None, end: str | None) -> str:
    """Return the duration between two times of the API.

    >>> duration("2026-01-31T12:00:00.000Z", "2026-01-31T13:02:03.400Z")
    '1 h 02 min'
    >>> duration("2026-01-31T12:00:00.000Z", "2026-01-31T12:00:03.400Z")
    '3.4 s'
    """
    if not start or not end:
        return "—"
    seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    if seconds < 60:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def names(info: StatusInfo) -> list[str]:
    """Return the name and the labels of a job, if any."""
    members: dict[str, Any] = info.model_dump(include={"job_name", "labels"})
    labels: list[str] = members.get("labels") or []
    return [str(word) for word in (members.get("job_name"), *labels) if word]


def size(number: int | None) -> str:
    """Return a number of bytes with its unit.

    >>> size(512), size(3 * 2**20), size(None)
    ('512 B', '3.0 MiB', '—')
    """
    if number is None:
        return "—"
    value, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{number} B" if unit == "B" else f"{value:.1f} {unit}"


def state(status: str) -> Html:
    """Write a state; the colour adds nothing to the word."""
    return element("span", status, class_=f"state {status}")


def progress(percent: int) -> Html:
    """Write a progress bar."""
    label = f"{percent} %"
    return element("progress", label, value=percent, max=100, aria_label=label)
