"""The names of a stencil's body, or of a function's at one of its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from halocline_engine.errors import NameRuleError
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import (
    Apply,
    At,
    Branch,
    Choice,
    Demand,
    Function,
    Import,
    Infix,
    Inside,
    Literal,
    Loop,
    Name,
    Pack,
    Prefix,
    Region,
    Stencil,
    Step,
    Store,
    Subscript,
    Term,
    Text,
)

__all__ = [
    "AXES",
    "CONSTANTS",
    "REDUCTIONS",
    "Scope",
    "assigned",
    "augmented",
    "check_imports",
    "stencil_scope",
    "subscripted",
]

#: What an axis is called in an inlined body: no name of a text is spelled like this.
AXES: Mapping[str, str] = {"I": "<I>", "J": "<J>", "K": "<K>"}
#: Names that stand for themselves.
CONSTANTS = ("None", "...")
#: Functions over the neighbours that a table names.
REDUCTIONS = ("neighbor_sum", "max_over", "min_over")


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of one definition, at one of its calls.

    `renames` maps parameters and assigned names to what stands for them, `trail` holds the
    functions that are being inlined, and the call's temporaries begin with `prefix`.
    """

    renames: Mapping[str, Term]
    imports: frozenset[str]
    trail: tuple[str, ...] = ()
    prefix: str = ""


def stencil_scope(stencil: Stencil) -> Scope:
    """Return the scope of a stencil's body: every name stands for itself."""
    own = {argument.name: argument.place for argument in stencil.arguments}
    for sweep in stencil.sweeps:
        for section in sweep.sections:
            own |= {name: place for name, place in assigned(section.body) if name not in own}
    check_imports(own, stencil.externals)
    renames = {name: Name(name, place) for name, place in own.items()}
    return Scope(renames, frozenset(each.name for each in stencil.externals))


def check_imports(own: Mapping[str, Place], externals: Sequence[Import]) -> None:
    """Raise where an external is a parameter too, or is assigned to."""
    for external in externals:
        if external.name in own:
            message = f"'{external.name}' is an external, and a parameter or assigned as well."
            place = own[external.name]
            raise fault(NameRuleError, place, "externals", message, "Rename one of them.")


def assigned(steps: Iterable[Step], *, operators: bool = True) -> Iterator[tuple[str, Place]]:
    """Yield each name that a body assigns to, with where it is first assigned.

    Without `operators`, `x *= 2` is no assignment.
    """
    seen: set[str] = set()
    for step in steps:
        match step:
            case Store(operator=operator) if operator and not operators:
                found = []
            case Store(targets):
                bases = [t.base if isinstance(t, Subscript) else t for t in targets]
                found = [(t.name, t.place) for t in bases if isinstance(t, Name)]
            case Region(body=body) | Loop(body=body):
                found = [*assigned(body, operators=operators)]
            case Branch(_, then, otherwise):
                branches = (then, otherwise)
                found = [one for b in branches for one in assigned(b, operators=operators)]
            case Demand():
                found = []
            case _:
                assert_never(step)
        for name, place in found:
            if name not in seen:
                seen.add(name)
                yield name, place


def augmented(function: Function) -> frozenset[str]:
    """Return the parameters that a function changes by operators only, as in `x *= 2`."""
    parameters = {argument.name for argument in function.arguments}
    plain = {name for name, _ in assigned(function.body, operators=False)}
    return frozenset(name for name, _ in assigned(function.body)) & parameters - plain


def subscripted(function: Function) -> Iterator[str]:
    """Yield the names that a function reads with an index."""
    pending: list[Term | Step] = [*function.body, *function.results]
    while pending:
        node = pending.pop()
        match node:
            case Subscript(base, indices):
                if isinstance(base, Name):
                    yield base.name
                pending.extend((base, *indices))
            case Store(targets, values):
                pending.extend((*targets, *values))
            case Branch(condition, then, otherwise):
                pending.extend((condition, *then, *otherwise))
            case Demand(condition):
                pending.append(condition)
            case Region(body=body):
                pending.extend(body)
            case Loop(condition, body):
                pending.extend((condition, *body))
            case At(base, level, data):
                if isinstance(base, Name):
                    yield base.name
                pending.extend((level, *data))
            case Prefix(_, operand):
                pending.append(operand)
            case Infix(_, left, right):
                pending.extend((left, right))
            case Choice(condition, then, otherwise):
                pending.extend((condition, then, otherwise))
            case Apply(_, arguments, keywords):
                pending.extend((*arguments, *(keyword.value for keyword in keywords)))
            case Pack(items):
                pending.extend(items)
            case Literal() | Text() | Name() | Inside():
                pass
            case _:
                assert_never(node)
