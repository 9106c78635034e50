"""What checks inputs for the API: in processes of their own, or in this one."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import anyio.to_thread

from halocline_service.api.checking.described import describe_dataset
from halocline_service.api.checking.fitting import Datasets, fitted
from halocline_service.api.checking.inputs import JsonObject, checked

__all__ = ["CheckHere", "Checks"]


class Checks(Protocol):
    """Checks inputs of processes; used as `async with`."""

    async def __aenter__(self) -> Self:
        """Prepare."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        ...

    async def __call__(
        self, owner: str, process: str, inputs: Mapping[str, Any], *, facts: bool = False
    ) -> JsonObject:
        """Return the outcome of `checked`. Raises a problem where a limit is met."""
        ...

    async def fit(
        self, owner: str, process: str, inputs: Mapping[str, Any], datasets: Datasets
    ) -> JsonObject:
        """Return the outcome of `fitted`; empty where a limit is met, which says nothing."""
        ...

    async def describe(self, owner: str, path: str, largest_chunk: int) -> JsonObject:
        """Return the outcome of `describe_dataset`. Raises a problem where a limit is met."""
        ...


class CheckHere:
    """Checks in a thread of this process, without limits: for tests and documents."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    async def __call__(
        self,
        owner: str,  # noqa: ARG002  nobody waits for another one here
        process: str,
        inputs: Mapping[str, Any],
        *,
        facts: bool = False,
    ) -> JsonObject:
        """Return the outcome of `checked`."""
        return await anyio.to_thread.run_sync(lambda: checked(process, inputs, facts=facts))

    async def fit(
        self,
        owner: str,  # noqa: ARG002
        process: str,
        inputs: Mapping[str, Any],
        datasets: Datasets,
    ) -> JsonObject:
        """Return the outcome of `fitted`."""
        return await anyio.to_thread.run_sync(fitted, process, inputs, datasets)

    async def describe(
        self,
        owner: str,  # noqa: ARG002  nobody waits for another one here
        path: str,
        largest_chunk: int,
    ) -> JsonObject:
        """Return the outcome of `describe_dataset`."""
        return await anyio.to_thread.run_sync(describe_dataset, path, largest_chunk)
