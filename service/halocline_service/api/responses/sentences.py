"""Events of a job as sentences, for those who read its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from halocline_engine.progress.view import duration

__all__ = ["sentence_of"]

_ACTIVITIES = ("reading", "sending", "compiling", "computing", "halos", "fetching", "writing")
_UNITS = ("kB", "MB", "GB", "TB", "PB")


def sentence_of(kind: str, data: Mapping[str, Any]) -> str:
    """Return what happened, without what only programs read.

    >>> sentence_of("steps-finished", {"steps_done": 10, "steps": 40, "seconds": 2.5})
    'Step 10 of 40, 2.5 s'
    >>> sentence_of("status", {"status": "accepted", "message": "Waiting for a dispatcher."})
    'accepted: Waiting for a dispatcher.'
    """
    return " ".join(_told(kind, data).split())


def _told(kind: str, data: Mapping[str, Any]) -> str:
    match kind, data:
        case "planned", {"blocks": int()}:
            return _planned(data)
        case "compiled", {"name": name, "target": target}:
            return f"Program '{name}' is compiled for {target}"
        case "block-finished", {"done": done, "total": total}:
            return _timed(f"Block {done} of {total}{_of_passes(data)}", data)
        case "pass-finished", {"pass_index": int()}:
            return _timed(f"Pass {data['pass_index'] + 1} of {data['passes']}{_step(data)}", data)
        case (
            ("steps-finished" | "checkpointed" | "snapshot-written" | "resumed"),
            {"steps": int()},
        ):
            done = {"checkpointed": " is saved", "snapshot-written": " is in the result"}
            at = "Continued from step" if kind == "resumed" else "Step"
            text = f"{at} {data['steps_done']} of {data['steps']}{done.get(kind, '')}"
            return _timed(text, data)
        case "measured", {"change": float() as change, "below": below}:
            return f"Step {data.get('steps_done')} changed by {change:.3g}, ends below {below:.3g}"
        case "worked", {"worker": worker, "blocks": blocks}:
            text = f"Worker {worker} has computed {_many(blocks, 'block')}"
            spent = _spent(data)
            return f"{text}: {spent}" if spent else text
        case "ceilings", {"worker": worker, "copy_rate": copies}:
            rate = data.get("operation_rate") or 0
            product = f", multiplies matrices at {rate / 1e9:.3g} GFLOP/s" if rate else ""
            return f"Worker {worker} copies {_size(copies)}/s{product}"
        case "finished", {"seconds": float() as seconds}:
            moved = f"{_size(data.get('bytes_read', 0))} read"
            moved += f", {_size(data.get('bytes_written', 0))} written"
            peak = data.get("peak_bytes") or 0
            most = f", at most {_size(peak)} of memory in one process" if peak else ""
            return f"Computed in {duration(seconds)}: {moved}{most}"
        case "warned", {"message": str() as message}:
            line = data.get("line")
            return f"Line {line}: {message}" if line else message
        case _:
            return _others(data)


def _planned(data: Mapping[str, Any]) -> str:
    block: Mapping[str, int] = data.get("block") or {}
    sizes = " by ".join(f"{dim} {size}" for dim, size in block.items())
    parts = [_many(data["blocks"], "block") + (f" of {sizes}" if sizes else "")]
    if data.get("passes", 1) > 1:
        parts.append(_many(data["passes"], "pass", "passes"))
    if data.get("steps", 1) > 1:
        parts.append(_many(data["steps"], "step"))
    parts.append(f"{data.get('target', 'cpu')} on {_many(data.get('workers', 1), 'worker')}")
    if data.get("projected_bytes"):
        parts.append(f"{_size(data['projected_bytes'])} of memory")
    mode, reason = data.get("mode", ""), str(data.get("reason", "")).rstrip(".")
    chosen = f"; {mode}: {reason}" if mode and reason else ""
    return f"{', '.join(parts)}{chosen}"


def _of_passes(data: Mapping[str, Any]) -> str:
    passes = data.get("passes", 1)
    return f" of pass {data.get('pass_index', 0) + 1} of {passes}" if passes > 1 else ""


def _step(data: Mapping[str, Any]) -> str:
    steps = data.get("steps", 1)
    return f", step {data.get('steps_done', 0)} of {steps}" if steps > 1 else ""


def _timed(text: str, data: Mapping[str, Any]) -> str:
    """Return a text with the time that it took, and where that went."""
    seconds = data.get("seconds")
    if not isinstance(seconds, int | float):
        return text
    spent = _spent(data)
    return f"{text}, {seconds:.3g} s" + (f" ({spent})" if spent else "")


def _spent(data: Mapping[str, Any]) -> str:
    """Return the activities that took time."""
    known = ((name, data.get(name) or 0.0) for name in _ACTIVITIES)
    return ", ".join(f"{name} {seconds:.3g} s" for name, seconds in known if seconds >= 0.001)


def _others(data: Mapping[str, Any]) -> str:
    """Return the status and the message of an event; else its members, as it has no sentence."""
    status, message = data.get("status"), data.get("message")
    if status or message:
        return ": ".join(str(part) for part in (status, message) if part)
    plain = ((name, value) for name, value in data.items() if name not in ("kind", "progress"))
    return ", ".join(
        f"{name.replace('_', ' ')} {value}"
        for name, value in plain
        if isinstance(value, int | float) or (isinstance(value, str) and "\n" not in value)
    )


def _many(count: int, one: str, several: str = "") -> str:
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def _size(count: float) -> str:
    """Return bytes with the unit that suits them.

    >>> _size(512), _size(47_800_000)
    ('512 B', '47.8 MB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    for unit in _UNITS:
        count /= 1000
        if count < 1000 or unit == _UNITS[-1]:
            return f"{count:.3g} {unit}"
    raise AssertionError("unreachable")
