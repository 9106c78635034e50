"""Syntax of a program's text, before names and types are known.

Grammar::

    Syntax      = (str text, Limits limits, Definition* definitions)
    Definition  = Stencil(str name, Argument* arguments, Import* externals, Sweep* sweeps)
                | Function(str name, Argument* arguments, Import* externals, Step* body,
                           Term* results, Place result)
                | Binding(str name, Term term)
                | Broken(str name, bool callable, bool stencil, ProgramError error)
    Argument    = (str name, Term? annotation, Term? default, bool keyword_only)
    Sweep       = (Term order, Section* sections, Condition* conditions)
    Section     = (Apply interval, Step* body, Condition* conditions)
    Condition   = (Apply call, bool wanted)
    Step        = Store(Term* targets, Term* values, str operator, Term? annotation)
                | Branch(Term condition, Step* then, Step* otherwise)
                | Demand(Term condition, Place? result) | Region(Area* areas, Step* body)
    Area        = (Side i, Side j)
    Side        = (Term? low, Term? high, bool point)
    Term        = Literal(value, str dtype) | Text(str value) | Name(str name)
                | Subscript(Term base, Term* indices) | Pack(Term* items)
                | Prefix(str operator, Term operand) | Infix(str operator, Term left, Term right)
                | Choice(Term condition, Term then, Term otherwise)
                | Apply(str function, Term* arguments, Keyword* keywords)
                | Inside(str axis, Edge low, Edge high)

Every node has a `place`. A name may be dotted (`grid.DX`); `None` and `...` are names. The empty
tuple of indices is `a[...]`. A `Store` with one value and several targets takes a function that
returns several. A definition that breaks a rule becomes `Broken`, and its error is raised where
the definition is needed, so that a module may hold stencils that are not asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from halocline_engine.errors import ProgramError
from halocline_engine.language.limits import Limits
from halocline_engine.language.source import Place

__all__ = [
    "Apply",
    "Area",
    "Argument",
    "At",
    "Binding",
    "Branch",
    "Broken",
    "Choice",
    "Condition",
    "Definition",
    "Demand",
    "Edge",
    "Function",
    "Import",
    "Infix",
    "Inside",
    "Keyword",
    "Literal",
    "Loop",
    "Name",
    "Pack",
    "Prefix",
    "Region",
    "Section",
    "Side",
    "Stencil",
    "Step",
    "Store",
    "Subscript",
    "Sweep",
    "Syntax",
    "Term",
    "Text",
    "with_operands",
]


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or truth value; `dtype` is empty where the literal's precision decides."""

    value: bool | int | float
    place: Place
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A string: the name of a type."""

    value: str
    place: Place


@dataclass(frozen=True, slots=True)
class Name:
    """A name, dotted or not."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class Subscript:
    """`base[indices]`."""

    base: Term
    indices: tuple[Term, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Pack:
    """A tuple inside an index."""

    items: tuple[Term, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Prefix:
    """`+x`, `-x` or `not x`."""

    operator: str
    operand: Term
    place: Place


@dataclass(frozen=True, slots=True)
class Infix:
    """An arithmetic operator, a comparison, `and` or `or`; the place is the left operand's."""

    operator: str
    left: Term
    right: Term
    place: Place


@dataclass(frozen=True, slots=True)
class Choice:
    """`then if condition else otherwise`."""

    condition: Term
    then: Term
    otherwise: Term
    place: Place


@dataclass(frozen=True, slots=True)
class At:
    """`base.at(K=level, ddim=[data])`: a field at a level that counts from the domain's first."""

    base: Term
    level: Term
    data: tuple[Term, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Keyword:
    """`name=value` in a call."""

    name: str
    value: Term
    place: Place


@dataclass(frozen=True, slots=True)
class Apply:
    """A call of something by its name."""

    function: str
    arguments: tuple[Term, ...]
    keywords: tuple[Keyword, ...]
    place: Place


#: A place on an axis: whether it counts from the end, and the points from there.
Edge: TypeAlias = tuple[bool, int]


@dataclass(frozen=True, slots=True)
class Inside:
    """Whether a point's index along an axis is from `low` up to, not including, `high`.

    No text has it: regions become it.
    """

    axis: str
    low: Edge
    high: Edge
    place: Place


Term: TypeAlias = (
    Literal | Text | Name | Subscript | Pack | Prefix | Infix | Choice | Apply | Inside | At
)


@dataclass(frozen=True, slots=True)
class Store:
    """`targets = values`, or `target operator= value`."""

    targets: tuple[Term, ...]
    values: tuple[Term, ...]
    place: Place
    operator: str = ""
    annotation: Term | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """`if condition: then else: otherwise`."""

    condition: Term
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Loop:
    """`while condition: body`."""

    condition: Term
    body: tuple[Step, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Demand:
    """`compile_assert(condition)`; with a `result`, what leads to that `return` in an `if`."""

    condition: Term
    place: Place
    result: Place | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """The part of an axis in a region: an index if `point`, else `low:high`, both optional."""

    low: Term | None
    high: Term | None
    point: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Area:
    """`region[i, j]`."""

    i: Side
    j: Side
    place: Place


@dataclass(frozen=True, slots=True)
class Region:
    """`with horizontal(areas):` and its body, which runs in one area after the other."""

    areas: tuple[Area, ...]
    body: tuple[Step, ...]
    place: Place


Step: TypeAlias = Store | Branch | Loop | Demand | Region


#: A call of `__INLINED`, and what it must be.
Condition: TypeAlias = tuple[Apply, bool]


@dataclass(frozen=True, slots=True)
class Section:
    """`with interval(...):` and its body, which is there under all conditions only."""

    interval: Apply
    body: tuple[Step, ...]
    place: Place
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Sweep:
    """`with computation(order):` and its intervals, which is there under all conditions only."""

    order: Term
    sections: tuple[Section, ...]
    place: Place
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a stencil or a function."""

    name: str
    annotation: Term | None
    default: Term | None
    keyword_only: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Import:
    """A name from `from __externals__ import`."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class Stencil:
    """A definition with `with computation(...)`."""

    name: str
    arguments: tuple[Argument, ...]
    externals: tuple[Import, ...]
    sweeps: tuple[Sweep, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Function:
    """A definition that is inlined where it is called."""

    name: str
    arguments: tuple[Argument, ...]
    externals: tuple[Import, ...]
    body: tuple[Step, ...]
    results: tuple[Term, ...]
    result: Place
    place: Place


@dataclass(frozen=True, slots=True)
class Binding:
    """A constant or a type: `NAME = term` in the module, or `Class.NAME` in a class."""

    name: str
    term: Term
    place: Place


@dataclass(frozen=True, slots=True)
class Broken:
    """A definition that breaks a rule, with its error."""

    name: str
    callable: bool
    stencil: bool
    error: ProgramError
    place: Place


Definition: TypeAlias = Stencil | Function | Binding | Broken


@dataclass(frozen=True, slots=True)
class Syntax:
    """A whole text: its definitions in order, each name once.

    `foreign` are the names that it imports from modules which are not read.
    """

    text: str
    limits: Limits
    definitions: tuple[Definition, ...]
    foreign: frozenset[str] = frozenset()


def with_operands(
    term: Prefix | Infix | Choice | Apply, change: Callable[[Term], Term]
) -> Prefix | Infix | Choice | Apply:
    """Return an operation on what `change` makes of each of its operands."""
    match term:
        case Prefix():
            return replace(term, operand=change(term.operand))
        case Infix():
            return replace(term, left=change(term.left), right=change(term.right))
        case Choice(condition, then, otherwise, place):
            return Choice(change(condition), change(then), change(otherwise), place)
        case Apply():
            return replace(term, arguments=tuple(change(one) for one in term.arguments))
        case _:
            assert_never(term)
