"""The names of a stencil's body, or of a function's at one of its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from halocline_engine.errors import NameRuleError
from halocline_engine.language import syntax
from halocline_engine.language.source import Place, fault

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

    renames: Mapping[str, syntax.Term]
    imports: frozenset[str]
    trail: tuple[str, ...] = ()
    prefix: str = ""


def stencil_scope(stencil: syntax.Stencil) -> Scope:
    """Return the scope of a stencil's body: every name stands for itself."""
    own = {argument.name: argument.place for argument in stencil.arguments}
    for sweep in stencil.sweeps:
        for section in sweep.sections:
            own |= {name: place for name, place in assigned(section.body) if name not in own}
    check_imports(own, stencil.externals)
    renames = {name: syntax.Name(name, place) for name, place in own.items()}
    return Scope(renames, frozenset(each.name for each in stencil.externals))


def check_imports(own: Mapping[str, Place], externals: Sequence[syntax.Import]) -> None:
    """Raise where an external is a parameter too, or is assigned to."""
    for external in externals:
        if external.name in own:
            message = f"'{external.name}' is an external, and a parameter or assigned as well."
            place = own[external.name]
            raise fault(NameRuleError, place, "externals", message, "Rename one of them.")


def assigned(
    steps: Iterable[syntax.Step], *, operators: bool = True
) -> Iterator[tuple[str, Place]]:
    """Yield each name that a body assigns to, with where it is first assigned.

    Without `operators`, `x *= 2` is no assignment.
    """
    seen: set[str] = set()
    for step in steps:
        match step:
            case syntax.Store(operator=operator) if operator and not operators:
                found = []
            case syntax.Store(targets):
                bases = [t.base if isinstance(t, syntax.Subscript) else t for t in targets]
                found = [(t.name, t.place) for t in bases if isinstance(t, syntax.Name)]
            case syntax.Region(body=body) | syntax.Loop(body=body):
                found = [*assigned(body, operators=operators)]
            case syntax.Branch(_, then, otherwise):
                branches = (then, otherwise)
                found = [one for b in branches for one in assigned(b, operators=operators)]
            case syntax.Demand():
                found = []
            case _:
                assert_never(step)
        for name, place in found:
            if name not in seen:
                seen.add(name)
                yield name, place


def augmented(function: syntax.Function) -> frozenset[str]:
    """Return the parameters that a function changes by operators only, as in `x *= 2`."""
    parameters = {argument.name for argument in function.arguments}
    plain = {name for name, _ in assigned(function.body, operators=False)}
    return frozenset(name for name, _ in assigned(function.body)) & parameters - plain


def subscripted(function: syntax.Function) -> Iterator[str]:
    """Yield the names that a function reads with an index."""
    pending: list[syntax.Term | syntax.Step] = [*function.body, *function.results]
    while pending:
        node = pending.pop()
        match node:
            case syntax.Subscript(base, indices):
                if isinstance(base, syntax.Name):
                    yield base.name
                pending.extend((base, *indices))
            case syntax.Store(targets, values):
                pending.extend((*targets, *values))
            case syntax.Branch(condition, then, otherwise):
                pending.extend((condition, *then, *otherwise))
            case syntax.Demand(condition):
                pending.append(condition)
            case syntax.Region(body=body):
                pending.extend(body)
            case syntax.Loop(condition, body):
                pending.extend((condition, *body))
            case syntax.At(base, level, data):
                if isinstance(base, syntax.Name):
                    yield base.name
                pending.extend((level, *data))
            case syntax.Prefix(_, operand):
                pending.append(operand)
            case syntax.Infix(_, left, right):
                pending.extend((left, right))
            case syntax.Choice(condition, then, otherwise):
                pending.extend((condition, then, otherwise))
            case syntax.Apply(_, arguments, keywords):
                pending.extend((*arguments, *(keyword.value for keyword in keywords)))
            case syntax.Pack(items):
                pending.extend(items)
            case syntax.Literal() | syntax.Text() | syntax.Name() | syntax.Inside():
                pass
            case _:
                assert_never(node)
