"""Stencils on arrays, with GT4Py's calling convention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Literal, get_args

from halocline_engine.analysis.signature import signature_of
from halocline_engine.arguments import names_by_name, number, text, whole
from halocline_engine.backends.base import (
    Adjustable,
    Drawable,
    Executable,
    Tunable,
    TuneMode,
    Turning,
    prepare,
)
from halocline_engine.errors import ArgumentError
from halocline_engine.functions.binding import Call, Origin, bind
from halocline_engine.ir.extent import Extent
from halocline_engine.ir.show import show
from halocline_engine.program import Compiled, compile_program
from halocline_engine.schedule.show import show_schedule
from halocline_engine.schedule.tune import Tuning

__all__ = ["Stencil", "stencil"]

#: An hour.
_LONGEST = 3600.0


def stencil(
    text: str,
    *,
    name: str | None = None,
    externals: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    target: str = "auto",
    tune: TuneMode = "cached",
    tune_seconds: float = 20.0,
) -> Stencil:
    """Compile the text of a stencil program.

    `name` chooses among several stencils in the text, `externals` gives values to the names that
    are imported from `__externals__`, `dtypes` to dtypes that are written as names, and `target` is
    "auto", "cuda", "cpu" or "reference". Raises `ProgramError` with the place in the text.

    `tune` is for "cuda", and changes no bit of a result: with "cached", code runs in the shape that
    was measured as the best for such a call on such a device, if it was measured before; "off" is
    for the usual shape always; with "measure", what is not known is found out beside the first
    calls, in `tune_seconds` at most for each kind of call. `Stencil.tune` does it at once.
    """
    _check_tuning(tune, tune_seconds)
    compiled = compile_program(text, name=name, externals=externals, dtypes=dtypes, target=target)
    artifact = compiled.artifact
    if isinstance(artifact, Adjustable):
        compiled = replace(compiled, artifact=artifact.tuned(tune, tune_seconds))
    return Stencil(compiled)


class Stencil:
    """A compiled stencil that is called on arrays.

    It is called as GT4Py's stencils are: fields and scalars by position in the order of the text
    or by name; `origin` is the index of the domain's first point, as a triple for all fields, as
    the K part alone, or as a mapping from field names (and "_all_" for the rest); an array may
    bring its own as `__gt_origin__`. `domain` is the number of points along I, J and K; left out,
    it is the largest one for which the arrays hold what is read. Points outside the domain are
    never written. All checks are made on every call.

    A stencil is picklable, and then loads again where it arrives.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._signature = signature_of(compiled.program, compiled.facts)
        self._executable: Executable | None = None

    def __call__(
        self,
        *args: object,
        origin: Origin | None = None,
        domain: Sequence[int] | None = None,
        **kwargs: object,
    ) -> None:
        """Run once on arrays; written fields are changed in place.

        Raises `ArgumentError` and `FieldError` before anything is changed.
        """
        compiled = self.compiled
        call = bind(
            self._signature,
            compiled.target,
            args,
            kwargs,
            origin=origin,
            domain=domain,
        )
        if 0 not in call.domain:
            self._load()(call.fields, call.scalars, call.origins, call.domain)

    def repeat(
        self,
        steps: int,
        *args: object,
        feedback: Mapping[str, str],
        origin: Origin | None = None,
        domain: Sequence[int] | None = None,
        **kwargs: object,
    ) -> dict[str, object]:
        """Make steps on arrays, each from what the last one wrote; return each field's array.

        `feedback` says which field is the next step's input: {"v": "u"}. The two exchange their
        arrays after every step, but not after the last one. Boundaries stay as they are in each
        array. The other arguments are those of a call. A device is asked once for many steps.

        Raises `ArgumentError` and `FieldError` before anything is changed.
        """
        program = self.compiled.program
        _check_steps(steps, feedback, {field.name for field in program.fields})
        named = {**dict(zip(program.arguments, args, strict=False)), **kwargs}
        other = {**feedback, **{old: new for new, old in feedback.items()}}
        swapped = {name: named.get(other.get(name, name)) for name in named}
        bound = [
            bind(
                self._signature,
                self.compiled.target,
                given,
                by_name,
                origin=origin,
                domain=domain,
            )
            for given, by_name in ((args, kwargs), ((), swapped))
        ]
        executable = self._load()
        other = executable.turned() if isinstance(executable, Turning) else executable

        turns = zip((executable, other), bound[:steps], strict=False)
        calls = [_prepared(one, call) for one, call in turns]

        def once() -> None:
            for call in calls:
                call()

        once()
        if steps > 2:
            executable.repeat(once, (steps - 2) // 2)
        if steps > 2 and steps % 2:
            calls[0]()
        last = named if steps % 2 else swapped
        return {field.name: last[field.name] for field in program.fields if field.name in last}

    def tune(
        self,
        *args: object,
        seconds: float = 20.0,
        origin: Origin | None = None,
        domain: Sequence[int] | None = None,
        **kwargs: object,
    ) -> Tuning | None:
        """Find out which code is the fastest for calls like this one, and use and keep it.

        It takes `seconds` at most; no array is changed. The other arguments are those of a call.
        None where there is nothing to find out: no points, or arrays that share memory.

        Raises `ArgumentError` where the target is not "cuda", and what a call raises.
        """
        _check_tuning("measure", seconds)
        executable = self._load()
        if not isinstance(executable, Tunable):
            raise ArgumentError(
                f"The target '{self.target}' is not tuned.", hint="Only 'cuda' is; leave it out."
            )
        call = bind(
            self._signature,
            self.compiled.target,
            args,
            kwargs,
            origin=origin,
            domain=domain,
        )
        return executable.tune(call.fields, call.scalars, call.origins, call.domain, seconds)

    @property
    def name(self) -> str:
        """The name of the stencil in its text."""
        return self.compiled.program.name

    @property
    def target(self) -> str:
        """The target that it was compiled for: "cuda", "cpu" or "reference"."""
        return self.compiled.target

    @property
    def extents(self) -> dict[str, Extent]:
        """What each field must hold around the domain: ((i-, i+), (j-, j+), (k-, k+)).

        Negative numbers lie before the domain, positive ones after; along K they are relative to
        the first and the last level, and (1, 0) says that the first level is never touched.
        """
        return dict(self.compiled.facts.fields)

    @property
    def source(self) -> str:
        """The generated code."""
        return self.compiled.artifact.source

    def show(self, stage: Literal["ir", "schedule", "kernel"]) -> str:
        """Return the program as it is after one stage of the compiler, as text.

        On "cuda" the schedule says how kernels are cut, for each kind of call that was made, and
        whether that is as usual or as it was measured, with the gain. On both it draws in which
        order loops or blocks go through points that others read again, where there is more of them
        than caches hold, and what a cache holds on the way.
        """
        if text("stage", stage, "the name of a stage") == "ir":
            return show(self.compiled.program)
        if stage == "schedule":
            lines = "".join(f"{line}\n" for line in (*self._tilings(), *self._walks()))
            return show_schedule(self.compiled.schedule) + lines
        if stage == "kernel":
            return self.source
        raise ArgumentError(
            f"Stage '{stage}' is unknown.", hint="Use 'ir', 'schedule' or 'kernel'."
        )

    def __repr__(self) -> str:
        arguments = ", ".join(self.compiled.program.arguments)
        return f"<halocline stencil {self.name}({arguments}) on {self.target}>"

    def __getstate__(self) -> Compiled:
        return self.compiled

    def __setstate__(self, state: Compiled) -> None:
        self.compiled = state
        self._signature = signature_of(state.program, state.facts)
        self._executable = None

    def _tilings(self) -> tuple[str, ...]:
        """Return how kernels were cut in calls so far, or will be."""
        found = self._executable.tilings() if isinstance(self._executable, Tunable) else ()
        artifact = self.compiled.artifact
        return found or (artifact.tilings() if isinstance(artifact, Adjustable) else ())

    def _walks(self) -> tuple[str, ...]:
        artifact = self.compiled.artifact
        return artifact.walks() if isinstance(artifact, Drawable) else ()

    def _load(self) -> Executable:
        if self._executable is None:
            self._executable = self.compiled.artifact.load()
        return self._executable


def _prepared(executable: Executable, call: Call) -> Callable[[], None]:
    """Return a call that can be made many times; on no points it does nothing."""
    if 0 in call.domain:
        return lambda: None
    return prepare(executable, call.fields, call.scalars, call.origins, call.domain)


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
