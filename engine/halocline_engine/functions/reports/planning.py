"""Plan of a job without the job: what it reads, makes and needs, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.errors import InternalError

__all__ = ["plan_of"]


def plan_of(
    function: Callable[..., object],
    *arguments: Any,
    on_event: Callable[[Event], None] | None = None,
    **options: Any,
) -> Planned:
    """Return the plan that a function on datasets makes, and go no further.

    The arguments are those of the function: it checks them, opens the dataset and plans as it
    would for a run. Indices, weights and meshes are read, as the plan depends on them; values are
    not, and nothing is written.

    Parameters
    ----------
    function : callable
        One of the functions on datasets, such as `run` or `column`.
    *arguments
        Its positional arguments.
    on_event : callable, optional
        Called with each event up to the plan.
    **options
        Its keyword arguments.

    Returns
    -------
    Planned
        The plan.

    Raises
    ------
    HaloclineError
        What the function would raise before it computes.

    Examples
    --------
    >>> import xarray as xr
    >>> from halocline_engine.functions.matmul import matmul
    >>> from halocline_engine.functions.reports.planning import plan_of
    >>> dataset = xr.Dataset({"a": (("i", "k"), [[1.0, 2.0]]), "b": (("k", "j"), [[3.0], [4.0]])})
    >>> plan = plan_of(matmul, dataset, left="a", right="b", dim="k", target="reference")
    >>> plan.input_bytes, plan.result_bytes
    (32, 8)

    """

    def heard(event: Event) -> None:
        if on_event is not None:
            on_event(event)
        if isinstance(event, Planned):
            raise _PlanMade(event)

    try:
        function(*arguments, on_event=heard, **options)
    except _PlanMade as made:
        return made.plan
    raise InternalError("The function has computed without a plan.")


class _PlanMade(Exception):
    """Leaves the function as soon as there is a plan."""

    def __init__(self, plan: Planned) -> None:
        super().__init__("The plan is made.")
        self.plan = plan
