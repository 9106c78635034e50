"""The meaning of a stencil program: frozen nodes that every target reads.

Grammar (a test compares it with the classes below)::

    Program     = (str name, str* arguments, Field* fields, Scalar* scalars,
                   Temporary* temporaries, Computation* computations, Table* tables,
                   Gather* gathers, Position* positions, Scratch* scratch, Limit* limits,
                   Components* components, Lookup* lookups, Choice* choices)
    Field       = (str name, DType dtype, Axis* axes, bool read, bool written)
    Scalar      = (str name, DType dtype, default)
    Temporary   = (str name, DType dtype)
    Table       = (str name, DType dtype, int slots)
    Gather      = (str name, str field, str index)
    Position    = (str name, Axis axis, span)
    Scratch     = (str name, Location* loops, int within)
    Limit       = (str name, field, bool last)
    Components  = (str name, DType dtype, Axis* axes, int* shape)
    Lookup      = (str name, int* shape, values)
    Choice      = (str name, str* parts, Expr index)
    Computation = (Order order, Block* blocks)
    Block       = (Interval interval, Statement* body)
    Interval    = (Bound start, Bound end)
    Bound       = (bool from_end, int offset)
    Statement   = Assign(str target, Expr value, Location location, level)
                | If(Expr condition, Statement* then, Statement* otherwise, Location location)
                | While(Expr condition, Statement* body, Location location)
    Expr        = Number(DType dtype, value)
                | Read(str name, Offset offset, DType dtype, level)
                | Parameter(str name, DType dtype)
                | Unary(str operator, Expr operand, DType dtype)
                | Binary(str operator, Expr left, Expr right, DType dtype)
                | Call(str function, Expr* arguments, DType dtype)
                | Select(Expr condition, Expr then, Expr otherwise, DType dtype)
                | Cast(DType dtype, Expr operand)

Every expression carries its dtype, and every conversion is an explicit `Cast`: the operands of a
`Binary` arithmetic operator have the node's own dtype, those of a comparison have one common dtype
(the node is BOOL), those of `and`/`or` are BOOL, the branches of a `Select` have its dtype, the
arguments of a `Call` have its dtype (but `pow`, whose exponent may be an integer, and `isnan`,
`isinf`, `isfinite`, which give BOOL), and the value of an `Assign` has the dtype of its target. So
a target needs no rule of promotion.

What a program means:

* Computations run in text order, their blocks in text order; blocks do not overlap.
* PARALLEL: each statement runs on the whole 3-D block before the next one starts, and its value
  is complete before any of it is stored. FORWARD and BACKWARD: for each level in that order, each
  statement runs on the whole I-J plane before the next one starts.
* The condition of an `If` is evaluated once, before both branches, and masks their statements.
  The first branch has statements.
* A `While` runs its body for the points of a statement whose condition holds, which is evaluated
  before each turn. Its body neither assigns what it reads at a horizontal offset, nor runs for
  ever: the condition holds for a bounded number of turns.
* Offsets are relative to the point: (i, j, k). Fields without an axis are broadcast along it, and
  their offset is 0 there.
* A read, or a target, with a `level` is at that level, of the point's column: it counts from the
  domain's first one, and is 0, or an int64 expression at the point that is bounded by the first and
  the last level that the array has. The offset along K is `ANY_LEVEL` then. Such levels that the
  array has are those of the array of a call, which may go beyond the domain; they are made before
  the program runs, as scalars that no caller gives, each a `Limit`.
* A temporary has exactly the levels of the domain; before its first assignment it holds zero.
* A table has some numbers for each point along I. Each of its columns is a field over I that is
  only read, and no argument.
* What a program reads of a field at points that a column names is a field of its own, which a
  `Gather` makes before the program runs: the value at (i, j, k) is that of the field at
  (index[i], j, k), where indices count from the domain's first point; for an index of -1 it is NaN,
  or 0 where the type has none. The field is not written, and nothing is read beside the point along
  I and J.
* The index of a point along an axis is a field over that axis, which a `Position` makes before the
  program runs: 0 at the domain's first point, 1 at the next one. It is only read, and no argument.
  A `Position` with a span says of each point whether its index is in that, which may be beyond the
  domain, where temporaries are.
* A temporary over I and J alone is a field over them that no caller gives, a `Scratch`: it is zero
  before the program runs, and keeps its value from level to level. One with `loops` holds the
  number, from 1 on, of the `While` that did not end at a point.
* An array argument with data dimensions has `Components`: each of its numbers at a point is a field
  of its own, and no argument. Those that the program does not use are no fields.
* A `Lookup` is an array argument that has nothing to do with the domain: a field over K whose
  levels are all its elements, in C order, which is read at levels that expressions give.
* A `Choice` stands for a component that scalars choose, where kernels are made: a field that each
  call finds among its parts.
* Points outside the domain are never written in a field; temporaries are computed as far outside
  as later statements read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from halocline_engine.ir.remember import Remembering, hashed_once
from halocline_engine.ir.types import Axis, DType, Order

__all__ = [
    "ANY_LEVEL",
    "ARITHMETIC",
    "COMPARISONS",
    "FAR",
    "FMA",
    "LOGICAL",
    "NOWHERE",
    "Assign",
    "Binary",
    "Block",
    "Bound",
    "Call",
    "Cast",
    "Choice",
    "Components",
    "Computation",
    "Expr",
    "Field",
    "Gather",
    "If",
    "Interval",
    "Limit",
    "Location",
    "Lookup",
    "Number",
    "Offset",
    "Parameter",
    "Position",
    "Program",
    "Read",
    "Scalar",
    "Scratch",
    "Select",
    "Statement",
    "Table",
    "Temporary",
    "Unary",
    "While",
]

Offset: TypeAlias = tuple[int, int, int]

ARITHMETIC = ("+", "-", "*", "/", "%")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
LOGICAL = ("and", "or")

#: Points beyond all that there are: where the bound of a region is left out.
FAR = 1 << 30

#: The offset along K of what is read at a level that an expression gives.
ANY_LEVEL = 1 << 30

#: A function that only the compiler calls: `a * b + c`, rounded once.
FMA = "fma"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the program's text, counted from 1; (0, 0) is no place."""

    line: int
    column: int


NOWHERE = Location(0, 0)


@dataclass(frozen=True, slots=True)
class Number:
    """A literal or a compile-time constant."""

    dtype: DType
    value: bool | int | float


@dataclass(frozen=True, slots=True)
class Read:
    """A field or temporary at an offset from the point, or at a level of its column."""

    name: str
    offset: Offset
    dtype: DType
    level: Expr | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A scalar argument of the program."""

    name: str
    dtype: DType


@hashed_once
@dataclass(frozen=True, slots=True)
class Unary(Remembering):
    """`-x` (operator "-") or `not x` (operator "not")."""

    operator: str
    operand: Expr
    dtype: DType


@hashed_once
@dataclass(frozen=True, slots=True)
class Binary(Remembering):
    """An operator of ARITHMETIC, COMPARISONS or LOGICAL on two operands of one dtype."""

    operator: str
    left: Expr
    right: Expr
    dtype: DType


@hashed_once
@dataclass(frozen=True, slots=True)
class Call(Remembering):
    """A function of FUNCTIONS, or FMA."""

    function: str
    arguments: tuple[Expr, ...]
    dtype: DType


@hashed_once
@dataclass(frozen=True, slots=True)
class Select(Remembering):
    """`then if condition else otherwise`, point by point; neither branch has an effect."""

    condition: Expr
    then: Expr
    otherwise: Expr
    dtype: DType


@hashed_once
@dataclass(frozen=True, slots=True)
class Cast(Remembering):
    """A conversion as in C: to an integer it truncates, to BOOL it compares with zero."""

    dtype: DType
    operand: Expr


Expr: TypeAlias = Number | Read | Parameter | Unary | Binary | Call | Select | Cast


@dataclass(frozen=True, slots=True)
class Assign(Remembering):
    """Store a value at the point, in a field or a temporary, or at a level of its column."""

    target: str
    value: Expr
    location: Location = field(default=NOWHERE, compare=False)
    level: Expr | None = None


@dataclass(frozen=True, slots=True)
class If(Remembering):
    """Run one of two bodies, point by point; the condition is evaluated once, before both."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class While(Remembering):
    """Run a body again, point by point, as long as a condition holds."""

    condition: Expr
    body: tuple[Statement, ...]
    location: Location = field(default=NOWHERE, compare=False)


Statement: TypeAlias = Assign | If | While


@dataclass(frozen=True, slots=True)
class Bound:
    """A level, counted from the first one, or from one past the last where `from_end`.

    `Bound(False, 1)` is the second level; `Bound(True, 0)` is one past the last level, and
    `Bound(True, -1)` the last level.
    """

    from_end: bool
    offset: int

    def level(self, size: int) -> int:
        """Return the level in a domain of `size` levels."""
        return self.offset + (size if self.from_end else 0)


@dataclass(frozen=True, slots=True)
class Interval:
    """The levels from `start` up to, not including, `end`."""

    start: Bound
    end: Bound


@dataclass(frozen=True, slots=True)
class Block:
    """Statements for the levels of one interval."""

    interval: Interval
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Computation:
    """Blocks in text order, which is the order of execution."""

    order: Order
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """An array argument: `axes` is a subset of (I, J, K) in that order."""

    name: str
    dtype: DType
    axes: tuple[Axis, ...]
    read: bool
    written: bool


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar argument; `default` is None where the caller must give a value."""

    name: str
    dtype: DType
    default: bool | int | float | None = None


@dataclass(frozen=True, slots=True)
class Temporary:
    """A 3-D intermediate result that no caller sees."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Table:
    """An array argument with `slots` numbers for each point along I."""

    name: str
    dtype: DType
    slots: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, which are fields over I; no text can spell them."""
        return tuple(f"{self.name}.{slot}" for slot in range(self.slots))


@dataclass(frozen=True, slots=True)
class Gather:
    """The field `name` holds what `field` has at the points that the field `index` names."""

    name: str
    field: str
    index: str


@dataclass(frozen=True, slots=True)
class Position:
    """The field `name` holds the index of each point along an axis, from the domain's first on.

    With a `span`, it holds whether the index is in that.
    """

    name: str
    axis: Axis
    span: Interval | None = None


@dataclass(frozen=True, slots=True)
class Scratch:
    """The field `name` is zero before each call, and forgotten after it.

    With `loops`, it holds which of them, from 1 on, was not over after as many turns as it may
    have; their places are given. All of them end where no integer that a caller gives, and no
    column, is larger than `within`, if that is not 0.
    """

    name: str
    loops: tuple[Location, ...] = ()
    within: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """The scalar `name` is the first level of the array of a field, or if `last` its last one.

    Levels count from the domain's first. Without a field, they are those of temporaries.
    """

    name: str
    field: str | None
    last: bool


@dataclass(frozen=True, slots=True)
class Components:
    """An array argument with data dimensions: so many numbers at each point."""

    name: str
    dtype: DType
    axes: tuple[Axis, ...]
    shape: tuple[int, ...]

    def field(self, number: int) -> str:
        """Return the name of the field of a component, counted in C order."""
        return f"{self.name}.{number}"


@dataclass(frozen=True, slots=True)
class Lookup:
    """The field `name` has the elements of an array of a shape as its levels.

    They are `values`, in this machine's byte order, where no caller gives them.
    """

    name: str
    shape: tuple[int, ...]
    values: bytes | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The field `name` is the part that an index on scalars chooses, or the nearest one."""

    name: str
    parts: tuple[str, ...]
    index: Expr


@dataclass(frozen=True, slots=True)
class Program:
    """A whole stencil program, lowered, typed and checked.

    `arguments` are the names of fields and scalars in the order of the text. A field that is
    neither read nor written may be passed as None.
    """

    name: str
    arguments: tuple[str, ...]
    fields: tuple[Field, ...]
    scalars: tuple[Scalar, ...]
    temporaries: tuple[Temporary, ...]
    computations: tuple[Computation, ...]
    tables: tuple[Table, ...] = ()
    gathers: tuple[Gather, ...] = ()
    positions: tuple[Position, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    limits: tuple[Limit, ...] = ()
    components: tuple[Components, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    choices: tuple[Choice, ...] = ()

    @property
    def regions(self) -> Mapping[str, Position]:
        """The positions that are tests of regions, by name."""
        return {one.name: one for one in self.positions if one.span is not None}

    @property
    def made(self) -> frozenset[str]:
        """The fields and scalars that no caller gives: they are made before the program runs."""
        known = [lookup for lookup in self.lookups if lookup.values is not None]
        made = (*self.gathers, *self.positions, *self.scratch, *self.limits, *known)
        return frozenset(one.name for one in made)
