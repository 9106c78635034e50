"""A Dask client that is made up: a test sets its workers, their heartbeats and its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Answered:
    """A future that is done, with an error or a value."""

    key = "key"
    status = "error"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def result(self, *, timeout: float) -> object:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def done(self) -> bool:
        return True

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        call(self)


class MadeUp:
    """A client of a scheduler with `workers`, where whatever is submitted ends with `answer`."""

    status = "running"

    def __init__(self, *workers: str, answer: object = None) -> None:
        self.workers = {name: facts() for name in workers}
        self.answer = answer
        self.scheduler = self
        self.beating = set(workers)
        self.looks = 0

    def submit(self, *_: object, **__: Any) -> Any:
        return Answered(self.answer)

    def identity(self, *, n_workers: int) -> dict[str, Any]:
        self.looks += 1
        for name in self.beating & self.workers.keys():
            self.workers[name]["last_seen"] += 1.0
        return {"workers": {name: dict(facts) for name, facts in self.workers.items()}}

    def processing(self, *, workers: None) -> dict[str, list[str]]:
        return {name: ["key"] for name in self.workers}

    def sync(self, function: Callable[..., Any], *, callback_timeout: float, **told: Any) -> Any:
        return function(**told)


def facts() -> dict[str, Any]:
    return {"nthreads": 1, "resources": {}, "host": "here", "metrics": {}, "last_seen": 0.0}
