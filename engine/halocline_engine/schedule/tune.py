"""Choice of the fastest way to run a program: a model proposes, measurement decides.

A `Candidate` is one way, as options that only its target reads, with the seconds that a model
expects; the first one is always what is used unasked. `proposed` keeps the few that are worth a
measurement, `measured` takes their times with whatever clock it is given, and `choose` says which
one is used: the default, unless another is faster by more than the noise. What came out is a
`Tuning`, which targets keep on disk for each `Subject`: the device, the program, the class of the
domain's shape, and how arrays lie.

No candidate changes a bit of a result, so a program may run with any of them while others are
compiled, and change to a better one between two calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice, zip_longest
from statistics import median
from typing import Any, TypeVar, cast

from halocline_engine.errors import HaloclineError

__all__ = [
    "Candidate",
    "Measured",
    "Subject",
    "Tuning",
    "choose",
    "measured",
    "proposed",
    "shape_class",
    "tuning_from",
    "tuning_text",
]

#: Another one than the default must be faster by this share in at least so many rounds.
_GAIN = 0.02
_LEAST_ROUNDS = 3
_ROUNDS = 7
#: A candidate this much slower than the best one is not measured again.
_HOPELESS = 1.15
#: How many candidates of one family are measured; those of a family differ little.
_ALIKE = 2
#: Sizes along I that are no multiple of this leave threads without points.
_WHOLE = 32
_FORMAT = 1
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to compute a program.

    `label` says it to people, `options` (a JSON object) to the target, and `cost` are the expected
    seconds. `group` says what part of the program is computed in another way, and `family` is the
    same for those of a group that differ little.
    """

    label: str
    options: str
    cost: float
    group: str = ""
    family: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurement of a candidate: `seconds` of a call in `rounds`, or the reason for none."""

    label: str
    options: str
    seconds: float | None
    rounds: int
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """Validity of a measurement; `layout` says how arrays lie, as far as code depends on it.

    `program` is the fingerprint of the program's IR, and `shape` a `shape_class`.
    """

    device: str
    program: str
    shape: str
    dtypes: str
    layout: str


@dataclass(frozen=True, slots=True)
class Tuning:
    """Measurements for a subject, and the choice.

    `default` and `chosen` are seconds of a call; `took` are those of compiling and measuring.
    """

    subject: Subject
    options: str
    label: str
    default: float
    chosen: float
    measured: tuple[Measured, ...]
    took: float
    date: str

    @property
    def gain(self) -> float:
        """Speed of the choice relative to the default; 1 where it is the default."""
        return self.default / self.chosen


def shape_class(domain: tuple[int, int, int], *, exact_levels: bool) -> str:
    """Return the class of a domain's shape, for which one measurement does.

    Sizes count down to a power of two, and along I whether it is whole; the number of levels counts
    exactly where columns are kept on chip.

    >>> shape_class((1021, 1019, 80), exact_levels=True)
    '512+ odd x 512+ x 80'
    """
    i, j, k = domain
    odd = " odd" if i % _WHOLE else ""
    return f"{_down(i)}+{odd} x {_down(j)}+ x {k if exact_levels else f'{_down(k)}+'}"


def proposed(candidates: Sequence[Candidate], most: int) -> tuple[Candidate, ...]:
    """Return the default, which comes first, and of the others those that are expected to be best.

    At most `most` in all: the best of each group, then the second ones, and so on, with few of one
    family. Equal options count once.
    """
    first, *others = candidates
    alike: dict[tuple[str, str], int] = {}
    groups: dict[str, list[Candidate]] = {}
    seen = {first.options}
    for one in sorted(others, key=lambda one: one.cost):
        family = (one.group, one.family)
        if one.options in seen or one.cost == float("inf") or alike.get(family, 0) == _ALIKE:
            continue
        seen.add(one.options)
        alike[family] = alike.get(family, 0) + 1
        groups.setdefault(one.group, []).append(one)
    turns = (one for turn in zip_longest(*groups.values()) for one in turn if one is not None)
    return (first, *islice(turns, most - 1))


def measured(
    candidates: Sequence[Candidate],
    seconds: Callable[[Candidate], float],
    now: Callable[[], float],
    until: float,
) -> tuple[Measured, ...]:
    """Return what each candidate takes, in their order.

    In each round the default is timed and then the others, each against the default of its round,
    so that a device that changes its pace favours none. Candidates that are much slower than the
    best after two rounds, or raise a `HaloclineError`, are left out of later ones. Nothing is begun
    after `until` but the first timing of the default, whose errors are raised.
    """
    times: list[float] = []
    ratios: list[list[float]] = [[] for _ in candidates]
    failures = [""] * len(candidates)
    alive = list(range(1, len(candidates)))
    for _ in range(_ROUNDS):
        if times and now() >= until:
            break
        times.append(seconds(candidates[0]))
        for number in tuple(alive):
            if now() >= until:
                break
            try:
                ratios[number].append(seconds(candidates[number]) / times[-1])
            except HaloclineError as error:
                failures[number] = str(error)
                alive.remove(number)
        if len(times) > 1:
            best = min((median(ratios[n]) for n in alive if ratios[n]), default=1.0)
            most = _HOPELESS * min(1.0, best)
            alive = [n for n in alive if not ratios[n] or median(ratios[n]) <= most]
    usual = median(times)
    ratios[0] = [1.0] * len(times)
    return tuple(_result(*one, usual) for one in zip(candidates, ratios, failures, strict=True))


def choose(results: Sequence[Measured]) -> Measured:
    """Return the fastest, or the first one if no other is clearly faster."""
    default = results[0]
    found = [
        one
        for one in results[1:]
        if one.seconds is not None and not one.failure and one.rounds >= _LEAST_ROUNDS
    ]
    best = min(found, key=_seconds, default=default)
    return best if _seconds(best) < (1 - _GAIN) * _seconds(default) else default


def tuning_text(tuning: Tuning) -> str:
    """Return a tuning as JSON, which `tuning_from` reads."""
    record = asdict(tuning) | {"format": _FORMAT, "options": json.loads(tuning.options)}
    record["measured"] = [
        asdict(one) | {"options": json.loads(one.options)} for one in tuning.measured
    ]
    return json.dumps(record, indent=1) + "\n"


def tuning_from(text: str) -> Tuning:
    """Return the tuning that a text holds; raises `ValueError` saying why it holds none.

    A tuning whose choice is not among what was measured is no tuning.
    """
    record = _object(json.loads(text), "the file")
    if record.get("format") != _FORMAT:
        raise ValueError(f"its format is {record.get('format')!r}, expected {_FORMAT}")
    parts = record.get("measured")
    if not isinstance(parts, list):
        raise ValueError("'measured' is no list")  # noqa: TRY004 - one error for what is wrong
    values = record | {
        "subject": _made(Subject, _object(record.get("subject"), "'subject'")),
        "options": _options(record.get("options")),
        "measured": tuple(
            _made(Measured, one | {"options": _options(one.get("options"))})
            for one in (_object(part, "'measured'") for part in cast("list[object]", parts))
        ),
    }
    values.pop("format")
    tuning = _made(Tuning, values)
    if tuning.options not in {one.options for one in tuning.measured} or tuning.chosen <= 0:
        raise ValueError("its choice was not measured")
    return tuning


def _down(size: int) -> int:
    return 1 << max(0, size.bit_length() - 1)


def _result(one: Candidate, ratios: Sequence[float], failure: str, usual: float) -> Measured:
    if failure or not ratios:
        return Measured(one.label, one.options, None, 0, failure or "No time was left.")
    return Measured(one.label, one.options, median(ratios) * usual, len(ratios))


def _seconds(one: Measured) -> float:
    return float("inf") if one.seconds is None else one.seconds


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object")  # noqa: TRY004 - as above
    return cast("dict[str, Any]", value)


def _options(value: object) -> str:
    return json.dumps(_object(value, "'options'"), sort_keys=True)


#: What JSON may give for the annotation of a field.
_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
}


def _made(kind: type[_Kind], values: Mapping[str, Any]) -> _Kind:
    """Return a dataclass of these values; raises `ValueError` where names or types are others."""
    known = {field.name: str(field.type) for field in fields(cast("Any", kind))}
    if set(values) != set(known):
        raise ValueError(f"the names of {kind.__name__} are not {', '.join(known)}")
    for name, expected in known.items():
        if expected in _KINDS and (
            not isinstance(values[name], _KINDS[expected]) or isinstance(values[name], bool)
        ):
            raise ValueError(f"'{name}' is no {expected}")
    return kind(**values)
