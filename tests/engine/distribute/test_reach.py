"""Whether workers reach the memory of a process is asked once of each set of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from halocline_engine.distribute.executors.reach import Reach


def test_all_workers_must_read_the_secret_and_are_asked_once() -> None:
    asked: list[int] = []
    blind: set[str] = set()
    gone: set[str] = set()

    def each(function: Callable[..., Any], *arguments: Any) -> Mapping[str, Any]:
        asked.append(1)
        seen = {name: function(*arguments) for name in ("a", "b")}
        return {name: one and name not in blind for name, one in seen.items() if name not in gone}

    reach = Reach(each)
    assert reach.by(["a", "b"])
    assert reach.by(["b", "a"])
    assert len(asked) == 1
    assert not reach.by(["a", "b", "c"])
    blind.add("b")
    assert not reach.by(["a", "b"])
    assert len(asked) == 3
    blind.clear()
    gone.add("a")
    assert not Reach(each).by(["a", "b"])
