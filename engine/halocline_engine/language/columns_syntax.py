"""Syntax of a column program, before operators and staggering are known.

Grammar::

    ColumnSyntax = (str text, Output* outputs)
    Output       = (str name, Node value)
    Node         = Number(value) | Variable(str name) | Negative(str operator, Node operand)
                 | Operation(str operator, Node left, Node right)
                 | Choose(Node condition, Node then, Node otherwise)
                 | Invoke(str name, Node* arguments, Option* options)
                 | Act(str operator, Option* options, Node* arguments)
                 | Rule(str* parameters, Node body) | State(Node* items)
    Option       = (str name, Node value)

`Act` is an operator made and applied, `GradientC2F(top=SetValue(1.0))(a)`; `Invoke` is one call,
`exp(a)` or `SetValue(1.0)`. A `Rule` is a `lambda`, a `State` a tuple; both stand in the options of
reductions only. The name of the one `Output` of a bare expression is empty. Every node has a
`place`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from halocline_engine.language.source import Place

__all__ = [
    "Act",
    "Choose",
    "ColumnSyntax",
    "Invoke",
    "Negative",
    "Node",
    "Number",
    "Operation",
    "Option",
    "Output",
    "Rule",
    "State",
    "Variable",
    "names_in",
    "nodes_in",
    "with_operands",
]


@dataclass(frozen=True, slots=True)
class Number:
    """A number or a truth value."""

    value: bool | int | float
    place: Place


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the dataset, a scalar, an earlier line of the program, or a word."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class Negative:
    """`-x`, `+x` or `not x`."""

    operator: str
    operand: Node
    place: Place


@dataclass(frozen=True, slots=True)
class Operation:
    """An arithmetic operator, a comparison, `and` or `or`; the place is the left operand's."""

    operator: str
    left: Node
    right: Node
    place: Place


@dataclass(frozen=True, slots=True)
class Choose:
    """`then if condition else otherwise`."""

    condition: Node
    then: Node
    otherwise: Node
    place: Place


@dataclass(frozen=True, slots=True)
class Option:
    """`name=value` in a call."""

    name: str
    value: Node
    place: Place


@dataclass(frozen=True, slots=True)
class Invoke:
    """A call of a function, a reduction or a boundary condition by its name."""

    name: str
    arguments: tuple[Node, ...]
    options: tuple[Option, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Act:
    """An operator with its boundary conditions, applied to its arguments."""

    operator: str
    options: tuple[Option, ...]
    arguments: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Rule:
    """`lambda parameters: body`."""

    parameters: tuple[str, ...]
    body: Node
    place: Place


@dataclass(frozen=True, slots=True)
class State:
    """`(a, b)`, or one entry of it: `acc[1]` is the State of `acc` and `1`, with `entry`."""

    items: tuple[Node, ...]
    place: Place
    entry: bool = False


Node: TypeAlias = Number | Variable | Negative | Operation | Choose | Invoke | Act | Rule | State


@dataclass(frozen=True, slots=True)
class Output:
    """`name = value`, or a bare expression where the name is empty."""

    name: str
    value: Node
    place: Place


@dataclass(frozen=True, slots=True)
class ColumnSyntax:
    """A whole text: its lines in order, each name once."""

    text: str
    outputs: tuple[Output, ...]


def names_in(syntax: ColumnSyntax) -> dict[str, Place]:
    """Return every name that stands for a value (or is a word), with its first place."""
    found: dict[str, Place] = {}
    for node in nodes_in(syntax):
        if isinstance(node, Variable):
            found.setdefault(node.name, node.place)
    return found


def nodes_in(syntax: ColumnSyntax) -> Iterator[Node]:
    """Give every node, in the order of the text."""
    pending: list[Node] = [output.value for output in reversed(syntax.outputs)]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed([*_parts(node)]))


def _parts(node: Node) -> Iterator[Node]:
    match node:
        case Number() | Variable():
            return
        case Negative(operand=operand):
            yield operand
        case Operation(left=left, right=right):
            yield from (left, right)
        case Choose(condition, then, otherwise):
            yield from (condition, then, otherwise)
        case (
            Invoke(arguments=arguments, options=options) | Act(options=options, arguments=arguments)
        ):
            yield from (option.value for option in options)
            yield from arguments
        case Rule(body=body):
            yield body
        case State(items=items):
            yield from items
        case _:
            assert_never(node)


def with_operands(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return a node whose operands are changed; options and lambdas stay as they are."""
    match node:
        case Operation(operator, left, right, place):
            return Operation(operator, change(left), change(right), place)
        case Negative(operator, operand, place):
            return Negative(operator, change(operand), place)
        case Choose(condition, then, otherwise, place):
            return Choose(change(condition), change(then), change(otherwise), place)
        case Invoke(name, arguments, options, place):
            return Invoke(name, tuple(change(argument) for argument in arguments), options, place)
        case State(items, place, entry):
            return State(tuple(change(item) for item in items), place, entry)
        case _:
            return node
