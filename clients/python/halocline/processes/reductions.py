"""Sums, means, extremes and histograms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Unpack

from halocline.inputs.arguments import by_name
from halocline.job import Job
from halocline.processes.documentation import documented
from halocline.processes.parameters import ReduceArguments
from halocline.processes.submitting import Submitting
from halocline.transfer.uploads import DatasetLike

__all__ = ["Reductions", "mentioned"]


class Reductions(Submitting):
    """The method that submits reductions."""

    @documented(ReduceArguments)
    def reduce(
        self,
        dataset: DatasetLike,
        diagnostics: Mapping[str, Mapping[str, Any]],
        **given: Unpack[ReduceArguments],
    ) -> Job:
        """Submit sums, means, extremes and histograms of a dataset, in one pass over its values.

        Parameters
        ----------
        %(dataset)s
        diagnostics : mapping of str to mapping
            Reductions by the name of the result: each has one of the keys 'sum', 'mean', 'norm',
            'min', 'max', 'count' and 'histogram' with an expression of variables, and perhaps
            'weights', 'dims', 'by' (a variable of labels), 'bins' (edges of a histogram) and
            'skipna'. Expressions are parsed, never executed.
        %(submission)s

        Examples
        --------
        >>> job = client.reduce(dataset, {"total": {"sum": "2.0 * cells"}}, target="reference")
        >>> job.result()["total"].item()
        66.0

        """
        asked = by_name("diagnostics", diagnostics)
        known = map(str, getattr(dataset, "data_vars", ()))  # only a dataset has some
        words = mentioned(asked)
        needed = [name for name in known if name in words]
        return self._submit(self.reduce, dataset, given, needed=needed, diagnostics=asked)


def mentioned(diagnostics: Mapping[str, Any]) -> set[str]:
    """Return the names that diagnostics may mean: their texts, and all words of these."""
    several: list[Mapping[str, Any]] = [
        one for one in diagnostics.values() if isinstance(one, Mapping)
    ]
    texts = {text for one in several for text in one.values() if isinstance(text, str)}
    return texts | {word for text in texts for word in re.findall(r"\w+", text)}
