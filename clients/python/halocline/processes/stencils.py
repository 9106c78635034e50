"""Stencil programs, operators on staggered columns, and sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast

from halocline.errors import ProgramError
from halocline.inputs.arguments import by_name, plain, text
from halocline.inputs.program import program_and_externals
from halocline.inputs.stages import with_texts
from halocline.job import Job
from halocline.processes.documentation import documented
from halocline.processes.parameters import ColumnArguments, SequenceArguments, StencilArguments
from halocline.processes.reductions import mentioned
from halocline.processes.submitting import Submitting, asked
from halocline.transfer.submission import execute
from halocline.transfer.uploads import DatasetLike, Reference
from halocline_engine.language.python.sources import (
    ProgramLike,
    parameters,
    with_place,
)

__all__ = ["Stencils"]


#: Arguments that are only sent if given, as few requests have them.
_RARE = ("literal_precision", "arithmetic", "order")


class Stencils(Submitting):
    """Methods that submit programs."""

    @documented(StencilArguments)
    def stencil(
        self, program: ProgramLike, dataset: DatasetLike, **given: Unpack[StencilArguments]
    ) -> Job:
        """Submit a stencil program.

        Parameters
        ----------
        program : str, path or function
            Program text, the path of a `.py` file, or a Python function, which is sent as its
            source with the constants, types and functions that it refers to.
        %(dataset)s
        fields : mapping of str to str, optional
            Variables by field of the program; by default the variable of the same name. Only
            variables that the program needs are uploaded.
        scalars : mapping of str to number, DataArray or mapping, optional
            Values of the scalar parameters: numbers, arrays along the dimension 'step' or one that
            is looped over, ``{'values': [...], 'dim': 'step'}``, or what the clock tells,
            ``{'clock': 'seconds'}``.
        externals : mapping of str to number, function, module or mapping, optional
            Values of the names that the program imports from `__externals__`, or from a module
            whose source is not read: numbers, positions on an axis such as `I[0]`, functions, and
            modules, objects or mappings with numbers and functions.
        dtypes : mapping of str to dtype or str, optional
            Types of the names in annotations: types of numbers, or types of fields as text.
        stencil_name : str, optional
            Which stencil of the text, if it has several.
        literal_precision : {64, 32} or mapping of str to int, default: 64
            Bits of the numbers in the text; as ``{'int': 64, 'float': 32}`` for whole numbers and
            others.
        arithmetic : {'separate', 'fused'}, default: 'separate'
            Whether each operation is rounded by itself, or `a * b + c` once.
        axes : mapping of str to str or None, optional
            Dimensions of I, J and K, None for an axis that the dataset lacks; by default they
            follow from the coordinates.
        grid : mapping of str to mapping, optional
            Dimensions by axis and position, such as ``{'X': {'center': 'xh', 'right': 'xq'}}``,
            with the positions of xgcm; by default they follow from attributes and names.
        positions : mapping of str to list of str, optional
            Dimensions of results on axes that have several; by default those of the input that
            they feed, those that all inputs have, or the centres.
        boundary : mapping of str to str or mapping, optional
            Values beyond the ends of a dimension: 'edge', 'reflect', 'symmetric',
            'antisymmetric', 'extrapolate', 'periodic', 'none' or ``{'constant': value}``, for both
            ends or as ``{'low': ..., 'high': ...}``;
            with ``'fields': {name: rule}`` there, the rules of single fields.
        steps : int, default: 1
            Number of times the program is run.
        feedback : mapping of str to str, optional
            Inputs by output: in the next step, the output replaces the input.
        until : mapping, optional
            Condition to end before the last step: ``{'field': 'v', 'change': 'max', 'below': 1e-6,
            'check_every': 100}`` checks every 100 steps, and ends the job when a step changes the
            output `v` by at most 1e-6 everywhere; 'norm' is the square root of the sum of squares.
        snapshot_every : int, optional
            Steps between two snapshots of the results, along a first dimension 'step', or 'time'
            with a clock. The last step is always a snapshot.
        time : mapping, optional
            Clock of the steps, such as ``{'start': '2015-01-01', 'step': '15min', 'interpolate':
            'linear'}``. Variables that vary with time are interpolated to the steps.
        diagnostics : mapping of str to mapping, optional
            Sums, means, extremes and histograms of fields after each step, as `reduce` takes them:
            ``{'heat': {'sum': 't * area', 'every': 10}}``. They are variables of the result along a
            dimension 'step', or 'time' if there is a clock.
        order : {'auto', 'row', 'column', 'zigzag'}, default: 'auto'
            Order of the blocks.
        %(submission)s

        Examples
        --------
        >>> boundary = {"x": "periodic"}
        >>> job = client.stencil(program, dataset, boundary=boundary, target="reference")
        >>> job.result()["s"].values.tolist()
        [[0.0, 2.0, 0.0, 2.0]]

        """
        inputs, how = asked(self.stencil, given)
        inputs = {
            name: value for name, value in inputs.items() if name not in _RARE or name in given
        }
        name = inputs["stencil_name"]
        name = None if name is None else text("stencil_name", name)
        source, used = program_and_externals(program, inputs["externals"], name)
        name = name or source.name
        renamed = by_name("fields", inputs["fields"])
        inputs = plain(inputs | {"stencil_name": name, "externals": used}) | {
            "program": source.text
        }
        wanted = [renamed.get(p, p) for p in parameters(source, name)]
        wanted += sorted(mentioned(cast("Mapping[str, Any]", inputs.get("diagnostics") or {})))
        inputs["dataset"] = Reference(self._connection, dataset, wanted)
        try:
            document = execute(self._connection, "stencil", inputs, how)
        except ProgramError as error:
            raise with_place(error, source) from None
        return Job(self._connection, str(document["jobID"]), source)

    @documented(ColumnArguments)
    def column(
        self, expression: str, dataset: DatasetLike, **given: Unpack[ColumnArguments]
    ) -> Job:
        """Submit operators on staggered columns.

        Parameters
        ----------
        expression : str
            An expression, or lines ``name = expression``, of operators, arithmetic, functions,
            variables and scalars. The text is parsed, never executed.
        %(dataset)s
        fields : mapping of str to str, optional
            Variables by name in the text; by default the variable of the same name.
        scalars : mapping of str to number, optional
            Numbers by name in the text.
        axis : str or mapping of str to str, optional
            Vertical dimension of the centres, or ``{'centre': ..., 'face': ...}``; by default it
            follows from the coordinates.
        heights : str, optional
            Variable with the heights of the faces; by default they follow from the coordinates.
        boundary : mapping of str to str, optional
            ``{dim: 'periodic'}`` for periodic columns.
        dtype : {'float32', 'float64'}, optional
            Type of all fields.
        name : str, default: 'result'
            Name of the result of a bare expression.
        %(submission)s

        Examples
        --------
        >>> slope = "GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(t)"
        >>> client.column(slope, dataset, target="reference").result()["result"].values.tolist()
        [0.0, 1.0, 2.0, 0.0]

        """
        return self._submit(self.column, dataset, given, expression=expression)

    @documented(SequenceArguments)
    def sequence(
        self,
        stages: Sequence[Mapping[str, Any]],
        dataset: DatasetLike,
        **given: Unpack[SequenceArguments],
    ) -> Job:
        """Submit several stages, run one after another in each step, as one job.

        Parameters
        ----------
        stages : sequence of mapping
            The stages of a step, each as ``{kind: arguments}``: the name of a method, such as
            'stencil' or 'tridiagonal', with its arguments except the dataset. A stage reads the
            dataset and the results of earlier stages; its results replace variables of the same
            name. ``{'repeat': 4, 'stages': [...]}`` runs stages four times.
        %(dataset)s
        steps : int, default: 1
            Number of times the stages are run.
        feedback : mapping of str to str, optional
            Variables of the dataset by the result that becomes them in the next step. A variable
            that gets a result may be passed on itself: ``{'h_new': 'h', 'h': 'h_old'}``.
        snapshot_every : int, optional
            Steps between two snapshots of the results, along a first dimension 'step'.
        results : sequence of str, optional
            Results of stages to return; by default all.
        %(submission)s

        Examples
        --------
        >>> smooth = {"stencil": {"program": program, "boundary": {"x": "periodic"}}}
        >>> job = client.sequence([smooth], dataset, steps=2, feedback={"s": "u"}, target="cpu")
        >>> job.result()["s"].values.tolist()
        [[2.0, 0.0, 2.0, 0.0]]

        """
        return self._submit(self.sequence, dataset, given, stages=with_texts(stages))
