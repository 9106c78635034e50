"""Stencil programs on arrays, with the calling convention of GT4Py."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, Unpack, get_args
from warnings import warn

from halocline_engine.analysis.signature import signature_of
from halocline_engine.arguments import names_by_name, number, text, whole
from halocline_engine.backends.base import (
    Adjustable,
    Drawable,
    Tunable,
    TuneMode,
)
from halocline_engine.backends.compiled import Compiled
from halocline_engine.backends.repetition import make_steps
from halocline_engine.errors import ArgumentError
from halocline_engine.functions.calls.arguments import (
    FieldInfo,
    ScalarInfo,
    fields_of,
    scalars_of,
    shown_signature,
)
from halocline_engine.functions.calls.binding import Call, Origin, bind
from halocline_engine.functions.calls.known_calls import KnownCalls
from halocline_engine.functions.calls.variants import Variants
from halocline_engine.ir.extent import Extent
from halocline_engine.ir.show import show
from halocline_engine.language.limits import Limits
from halocline_engine.language.python.sources import ProgramLike
from halocline_engine.program import Arithmetic, compile_program
from halocline_engine.program_warning import ProgramWarning
from halocline_engine.schedule.show import show_schedule
from halocline_engine.schedule.tune import Tuning
from halocline_engine.signatures import (
    Default,
    complete,
    described,
    documents,
    unpacks,
    with_answers,
)

__all__ = ["ReadingArguments", "Stencil", "stencil"]

#: Maximum seconds of tuning.
_LONGEST = 3600.0


class ReadingArguments(TypedDict, total=False):
    """Options for reading the text of a program.

    Parameters
    ----------
    stencil_name : str, optional
        Which stencil of the text, if it has several.
    externals : mapping of str to number, optional
        Values of the names that the program imports from `__externals__`, or from a module that is
        not read, such as `{"constants": {"GRAVITY": 9.81}}`; also Python functions, whose source is
        put below the program, and the modules themselves.
    dtypes : mapping of str or type to dtype or str, optional
        Types that the annotations of the program give as names: of numbers, or of fields as text,
        such as `{"FloatFieldIJ": "Field[IJ, np.float64]"}`. The key `float` itself means
        annotations `float`, and the numbers of the text.
    literal_precision : int or mapping of str to int, default: 64
        Bits of the numbers in the text, and of `int` and `float` there, 32 or 64; as
        ``{'int': 64, 'float': 32}`` for whole numbers and others.
    arithmetic : {'separate', 'fused'}, default: 'separate'
        Whether each operation is rounded by itself, or `a * b + c` once, on every target alike.
    limits : Limits, optional
        The largest program that is accepted.

    """

    stencil_name: Annotated[str | None, Default(None)]
    externals: Annotated[Mapping[str, Any] | None, Default(None)]
    dtypes: Annotated[Mapping[Any, Any] | None, Default(None)]
    literal_precision: Annotated[int | Mapping[str, int], Default(64)]
    arithmetic: Annotated[Arithmetic, Default("separate")]
    limits: Annotated[Limits | None, Default(None)]


@unpacks(ReadingArguments)
@documents({"reading": described(ReadingArguments)})
def stencil(
    program: ProgramLike,
    *,
    target: str = "auto",
    tune: TuneMode = "cached",
    tune_seconds: float = 20.0,
    **given: Unpack[ReadingArguments],
) -> "Stencil":
    """Compile a stencil program for calls on arrays.

    Parameters
    ----------
    program : str, path or function
        Program text, the path of a `.py` file, or a Python function (taken as its source, with the
        constants and functions that it refers to; never executed).
    %(reading)s
    target : {'auto', 'cuda', 'cpu', 'reference'}, default: 'auto'
        What computes: generated CUDA, compiled loops on the processor, or NumPy. 'auto' is 'cuda'
        where there is a GPU, otherwise 'cpu'; 'gpu' means 'cuda'.
    tune : {'cached', 'measure', 'off'}, default: 'cached'
        Choice of tiles on 'cuda', which changes no bit of a result: the fastest known for such a
        call on such a device if it was measured before, a measurement during the first calls, or
        those of the cost model.
    tune_seconds : float, default: 20.0
        Limit of 'measure' for each kind of call.

    Returns
    -------
    Stencil
        The compiled stencil, which is called on arrays.

    Raises
    ------
    ProgramError
        The program is wrong; the message shows the line.
    ArgumentError
        Another argument is wrong.

    Warns
    -----
    ProgramWarning
        The program is valid, but may not mean what was meant.

    See Also
    --------
    run : The same programs on datasets.

    Examples
    --------
    >>> import numpy as np
    >>> import halocline_engine as he
    >>> program = '''
    ... def difference(a: Field[float], b: Field[float]):
    ...     with computation(PARALLEL), interval(...):
    ...         b = a[1, 0, 0] - a[-1, 0, 0]
    ... '''
    >>> difference = he.stencil(program, target="reference")
    >>> a, b = np.arange(5.0).reshape(5, 1, 1) ** 2, np.zeros((5, 1, 1))
    >>> difference(a, b, origin=(1, 0, 0), domain=(3, 1, 1))
    >>> b.ravel().tolist()
    [0.0, 4.0, 8.0, 12.0, 0.0]

    """
    _check_tuning(tune, tune_seconds)
    compiled = compile_program(program, target=target, **complete(stencil, given))
    for warning in compiled.warnings:
        warn(warning, stacklevel=3)  # past the check of the call
    artifact = compiled.artifact
    if isinstance(artifact, Adjustable):
        compiled = replace(compiled, artifact=artifact.tuned(tune, tune_seconds))
    return Stencil(compiled)


_called = documents(
    {
        "arrays": """
*args, **kwargs : array or number
    Fields and scalars, by position in the order of the program or by name. Arrays are NumPy
    or CuPy arrays (on 'cuda') of any strides.
""",
        "points": """
origin : tuple of int or mapping of str to tuple, optional
    Index of the first point of the domain, for all fields or by field, with '_all_' for the
    others. An array may have its own as `__gt_origin__`.
domain : tuple of int, optional
    Number of points along I, J and K; by default the most for which the arrays hold what is
    read.
""",
    }
)


@with_answers
class Stencil:
    """A compiled stencil, as `stencil` returns it.

    It can be pickled, and is loaded again where it arrives.

    Attributes
    ----------
    compiled : Compiled
        Program, schedule and generated code.

    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._signature = signature_of(compiled.program, compiled.facts)
        self._variants = Variants(compiled)
        self._known = KnownCalls(self._signature, self._variants)
        self.__signature__ = shown_signature(compiled.program)

    @_called
    def __call__(
        self,
        *args: object,
        origin: Origin | None = None,
        domain: Sequence[int] | None = None,
        **kwargs: object,
    ) -> None:
        """Run once on arrays; written fields are changed in place.

        Parameters
        ----------
        %(arrays)s
        %(points)s

        Raises
        ------
        ArgumentError, FieldError
            An argument is wrong. Nothing has been changed. Every call is checked.

        Examples
        --------
        See `stencil`.

        """
        known = self._known
        given = known.given(args, kwargs, origin, domain)
        if given is not None and known.make(given):
            return
        call = self._checked(args, kwargs, origin, domain)
        executable = None if 0 in call.domain else self._variants.load(call.scalars)
        if executable is not None:
            executable(call.fields, call.scalars, call.origins, call.domain)
        known.keep(args, kwargs, origin, domain, call, executable)

    @_called
    def repeat(
        self,
        steps: int,
        *args: object,
        feedback: Mapping[str, str],
        origin: Origin | None = None,
        domain: Sequence[int] | None = None,
        **kwargs: object,
    ) -> dict[str, object]:
        """Run several steps on arrays, each on the result of the previous one.

        Parameters
        ----------
        steps : int
            Number of steps.
        %(arrays)s
        feedback : mapping of str to str
            Inputs by the output that becomes them in the next step: ``{'v': 'u'}``. The two
            exchange arrays after every step but the last. Points outside the domain stay as they
            are in each array.
        %(points)s

        Returns
        -------
        dict of str to array
            The array of each field after the last step.

        Raises
        ------
        ArgumentError, FieldError
            An argument is wrong. Nothing has been changed.

        Notes
        -----
        On 'cuda' many steps are one launch of a CUDA graph, and several are made in one pass
        through memory where that is faster. Neither changes a bit.

        Examples
        --------
        >>> import numpy as np
        >>> import halocline_engine as he
        >>> program = '''
        ... def double(u: Field[float], v: Field[float]):
        ...     with computation(PARALLEL), interval(...):
        ...         v = 2.0 * u
        ... '''
        >>> double = he.stencil(program, target="reference")
        >>> u, v = np.ones((2, 1, 1)), np.zeros((2, 1, 1))
        >>> float(double.repeat(5, u, v, feedback={"v": "u"})["v"][0, 0, 0])
        32.0

        """
        program = self.compiled.program
        _check_steps(steps, feedback, {field.name for field in program.fields})
        named = {**dict(zip(program.arguments, args, strict=False)), **kwargs}
        other = {**feedback, **{old: new for new, old in feedback.items()}}
        swapped = {name: named.get(other.get(name, name)) for name in named}
        bound = [
            self._checked(given, by_name, origin, domain)
            for given, by_name in ((args, kwargs), ((), swapped))
        ]
        executable = self._variants.load(bound[0].scalars)
        turns = [(one.fields, one.scalars, one.origins, one.domain) for one in bound]
        make_steps(executable, turns, steps, feedback)
        last = named if steps % 2 else swapped
        return {field.name: last[field.name] for field in program.fields if field.name in last}

    @_called
    def tune(
        self,
        *args: object,
        seconds: float = 20.0,
        origin: Origin | None = None,
        domain: Sequence[int] | None = None,
        **kwargs: object,
    ) -> Tuning | None:
        """Measure which tiles are fastest for calls like this one, and use and store them.

        Parameters
        ----------
        %(arrays)s
        seconds : float, default: 20.0
            Limit of the measurement.
        %(points)s

        Returns
        -------
        Tuning or None
            What was measured; None if there is nothing to measure: no points, or arrays that share
            memory. No array is changed.

        Raises
        ------
        ArgumentError, FieldError
            The target is not 'cuda', or an argument is wrong.

        """
        _check_tuning("measure", seconds)
        call = self._checked(args, kwargs, origin, domain)
        executable = self._variants.load(call.scalars)
        if not isinstance(executable, Tunable):
            raise ArgumentError(
                f"The target '{self.target}' is not tuned.", hint="Only 'cuda' is; leave it out."
            )
        tuning = executable.tune(call.fields, call.scalars, call.origins, call.domain, seconds)
        self._known.forget()
        return tuning

    @property
    def name(self) -> str:
        """Name of the stencil in the program."""
        return self.compiled.program.name

    @property
    def fields(self) -> dict[str, FieldInfo]:
        """Fields by name, each with its `dtype`, `axes`, `shape`, and whether `read`, `written`.

        Examples
        --------
        >>> import halocline_engine as he
        >>> program = '''
        ... def scale(a: Field[IJ, float], b: Field[float], factor: float = 2.0):
        ...     with computation(PARALLEL), interval(...):
        ...         b = factor * a
        ... '''
        >>> stencil = he.stencil(program, target="reference")
        >>> {name: (field.axes, field.written) for name, field in stencil.fields.items()}
        {'a': ('IJ', False), 'b': ('IJK', True)}
        >>> stencil.scalars["factor"].default
        2.0

        """
        return fields_of(self.compiled.program)

    @property
    def scalars(self) -> dict[str, ScalarInfo]:
        """Scalar parameters by name, each with its `dtype` and `default`."""
        return scalars_of(self.compiled.program)

    @property
    def target(self) -> str:
        """Target that it is compiled for: 'cuda', 'cpu' or 'reference'."""
        return self.compiled.target

    @property
    def warnings(self) -> tuple[ProgramWarning, ...]:
        """Warnings of valid code in the program that may not be meant."""
        return self.compiled.warnings

    @property
    def extents(self) -> dict[str, Extent]:
        """Extents of each field around the domain: ((i-, i+), (j-, j+), (k-, k+)).

        Negative numbers are points before the domain, positive ones after. Along K they are
        relative to the first and the last level; (1, 0) means that the first level is not read.
        """
        facts, made = self.compiled.facts, self.compiled.program.made
        return {name: facts.required(name) for name in facts.fields if name not in made}

    @property
    def source(self) -> str:
        """Generated code."""
        return self.compiled.artifact.source

    def show(self, stage: Literal["ir", "schedule", "kernel"]) -> str:
        """Return the program after a stage of the compiler, as text.

        Parameters
        ----------
        stage : {'ir', 'schedule', 'kernel'}
            The intermediate representation; the kernels with their temporaries, tiles and order of
            loops or blocks; or the generated code.

        Returns
        -------
        str
            The text.

        Raises
        ------
        ArgumentError
            The stage is unknown.

        Notes
        -----
        The text is that of the whole program. A call has kernels of the branches that its scalars
        take, where conditions depend on scalars alone.

        """
        if text("stage", stage, "the name of a stage") == "ir":
            return show(self.compiled.program)
        if stage == "schedule":
            artifact = self.compiled.artifact
            walks = artifact.walks() if isinstance(artifact, Drawable) else ()
            lines = "".join(f"{line}\n" for line in (*self._tilings(), *walks))
            return show_schedule(self.compiled.schedule) + lines
        if stage == "kernel":
            return self.source
        raise ArgumentError(
            f"Stage '{stage}' is unknown.", hint="Use 'ir', 'schedule' or 'kernel'."
        )

    def __repr__(self) -> str:
        arguments = ", ".join(self.compiled.program.arguments)
        return f"<halocline stencil {self.name}({arguments}) on {self.target}>"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.compiled,)

    def _tilings(self) -> tuple[str, ...]:
        """Return descriptions of the tiles of kernels, in calls so far or as planned."""
        loaded = (one for one in self._variants if isinstance(one, Tunable))
        tilings = tuple(line for one in loaded for line in one.tilings())
        artifact = self.compiled.artifact
        return tilings or (artifact.tilings() if isinstance(artifact, Adjustable) else ())

    def _checked(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        origin: Origin | None,
        domain: Sequence[int] | None,
    ) -> Call:
        """Return a call after all checks; raises the errors of `bind`."""
        target = self.compiled.target
        return bind(self._signature, target, args, kwargs, origin=origin, domain=domain)


def _check_tuning(tune: str, seconds: float) -> None:
    if text("tune", tune, "the name of a way") not in get_args(TuneMode):
        raise ArgumentError(
            f"Argument 'tune' is {tune!r}, which is unknown.",
            hint="Use 'off', 'cached' or 'measure'.",
        )
    if not 0 < number("seconds", seconds, "how long tuning may take") <= _LONGEST:
        raise ArgumentError(
            f"The seconds for tuning must be above 0 and at most {_LONGEST:g}, got {seconds!r}."
        )


def _check_steps(steps: int, feedback: Mapping[str, str], fields: Set[str]) -> None:
    if whole("steps", steps, 0) < 1:
        raise ArgumentError(f"Argument 'steps' must be at least 1, got {steps}.")
    names_by_name("feedback", feedback, "{'v': 'u'}")
    named = [*feedback, *feedback.values()]
    for name in named:
        if name not in fields:
            raise ArgumentError(
                f"Argument 'feedback' names '{name}', which is not a field of the stencil.",
                hint=f"The fields are {', '.join(sorted(fields))}.",
            )
        if named.count(name) > 1:
            raise ArgumentError(
                f"Argument 'feedback' names '{name}' twice, but arrays are exchanged in pairs.",
                hint="For example feedback={'v': 'u'}: what is written to v is read from u next.",
            )
