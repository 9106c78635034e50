"""Names and staggering: a column program's text becomes items that say where they live."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from halocline_engine.errors import NameRuleError, ProgramError, SyntaxRuleError, TypeRuleError
from halocline_engine.ir.columns.calls import SIDES, listed, operator_of, unknown_function
from halocline_engine.ir.columns.folds import FOLDS, Folds
from halocline_engine.ir.columns.nodes import (
    Columns,
    Compute,
    Constant,
    End,
    Input,
    Item,
    Leaf,
    Result,
    Stencil,
)
from halocline_engine.ir.columns.table import CONDITIONS, OPERATORS, At, Operator
from halocline_engine.ir.functions import FUNCTIONS
from halocline_engine.ir.lower.naming.names import nearest
from halocline_engine.ir.nodes import COMPARISONS, LOGICAL
from halocline_engine.ir.types import DType
from halocline_engine.language.columns_syntax import (
    Act,
    Choose,
    ColumnSyntax,
    Invoke,
    Negative,
    Node,
    Number,
    Operation,
    Option,
    Rule,
    State,
    Variable,
)
from halocline_engine.language.source import Place, fault, locate

__all__ = ["Known", "check_columns"]

_TESTS = ("isnan", "isinf", "isfinite")


@dataclass(frozen=True, slots=True)
class Known:
    """A variable of the dataset: its type and where it lives."""

    dtype: DType
    at: At


def check_columns(
    syntax: ColumnSyntax, variables: Mapping[str, Known], scalars: Iterable[str], name: str
) -> Columns:
    """Return the program with every name found and every staggering known.

    `name` is what the value of a bare expression is called; names that begin with "_" are no
    results. Raises ProgramError, with line, column and excerpt.
    """
    defined = frozenset(output.name or name for output in syntax.outputs)
    checker = _Checker(variables, tuple(scalars), defined)
    try:
        results: list[Result] = []
        for output in syntax.outputs:
            value = checker.add(output.value)
            called = output.name or name
            checker.define(called, value, output.place)
            if not output.name.startswith("_"):
                results.append(Result(called, value, output.place))
        if not results:
            message = "The program has no result: every name begins with '_'."
            place = syntax.outputs[-1].place
            raise fault(SyntaxRuleError, place, "columns", message, "Name one without it.")
        columns = Columns(tuple(checker.items), tuple(results))
        for result in results:
            if columns.is_truth(result.value):
                message = f"'{result.name}' must be a number, but is a truth value."
                hint = "Write '1.0 if condition else 0.0'."
                raise fault(TypeRuleError, result.place, "types", message, hint)
    except (NameRuleError, SyntaxRuleError, TypeRuleError) as error:
        raise locate(error, syntax.text) from None
    return columns


@dataclass(slots=True)
class _Checker:
    """Collects items; equal ones are one."""

    variables: Mapping[str, Known]
    scalars: tuple[str, ...]
    defined: frozenset[str]
    items: list[Item] = field(default_factory=list[Item])
    numbers: dict[Item, int] = field(default_factory=dict[Item, int])
    names: dict[str, int] = field(default_factory=dict[str, int])
    local: dict[str, int] = field(default_factory=dict[str, int])

    def define(self, name: str, value: int, place: Place) -> None:
        """Let later lines use a name."""
        if name in self.variables or name in self.scalars:
            message = f"'{name}' is given by the program, but it exists already."
            raise fault(NameRuleError, place, "names", message, "Choose another name.")
        self.names[name] = value

    def item(self, item: Item) -> int:
        """Return the number of an item."""
        # True equals 1.0, so a constant is never looked up.
        if isinstance(item, Constant) or item not in self.numbers:
            self.items.append(item)
            self.numbers[item] = len(self.items) - 1
            return len(self.items) - 1
        return self.numbers[item]

    def at(self, number: int) -> At:
        """Return where an item lives."""
        return self.items[number].at

    def add(self, node: Node) -> int:
        """Return the number of a node's item."""
        match node:
            case Number(value):
                constant = value if isinstance(value, bool) else float(value)
                return self.item(Constant(constant))
            case Variable(name, place):
                return self._name(name, place)
            case Negative(operator, operand, place):
                return self._negative(operator, operand, place)
            case Operation():
                return self._operation(node)
            case Choose(condition, then, otherwise, place):
                mask = self.truth(condition)
                values = (self.number(then), self.number(otherwise))
                at = self._join((mask, *values), (condition, then, otherwise), "A choice")
                return self.item(Compute("select", "", (mask, *values), at, False, place))
            case Invoke():
                return self._invoke(node)
            case Act():
                return self._act(node)
            case Rule(place=place) | State(place=place):
                message = "A lambda or a tuple stands only in the options of a reduction."
                hint = "Write 'column_reduce(x, f=lambda acc, x: acc + x, init=0.0)'."
                raise fault(SyntaxRuleError, place, "columns", message, hint)
            case _:
                assert_never(node)

    def number(self, node: Node) -> int:
        """Return the item of a node that must be a number."""
        return self._kind(node, truth=False)

    def truth(self, node: Node) -> int:
        """Return the item of a node that must be a truth value."""
        return self._kind(node, truth=True)

    def _kind(self, node: Node, *, truth: bool) -> int:
        value = self.add(node)
        if Columns(tuple(self.items), ()).is_truth(value) is truth:
            return value
        if truth:
            message = "A condition is a truth value, but this is a number."
            raise fault(TypeRuleError, node.place, "types", message, "Compare it, like 'a != 0'.")
        message = "A number was expected here, but this is a truth value."
        hint = "Write '1.0 if condition else 0.0'."
        raise fault(TypeRuleError, node.place, "types", message, hint)

    def _name(self, name: str, place: Place) -> int:
        if name in self.local:
            return self.local[name]
        if name in self.names:
            return self.names[name]
        if name in self.scalars:
            return self.item(Input(name))
        if name in self.variables:
            known = self.variables[name]
            return self.item(Leaf(name, known.dtype, known.at))
        known = [*self.variables, *self.scalars, *self.names]
        raise _no_value(name, place, known, is_defined=name in self.defined)

    def _negative(self, operator: str, operand: Node, place: Place) -> int:
        truth = operator == "not"
        value = self._kind(operand, truth=truth)
        if operator == "+":
            return value
        return self.item(Compute("unary", operator, (value,), self.at(value), truth, place))

    def _operation(self, node: Operation) -> int:
        read = self.truth if node.operator in LOGICAL else self.number
        operands = (read(node.left), read(node.right))
        nodes = (node.left, node.right)
        at = self._join(operands, nodes, f"The operator '{node.operator}'")
        truth = node.operator in (*LOGICAL, *COMPARISONS)
        kind, name = ("call", "pow") if node.operator == "**" else ("binary", node.operator)
        return self.item(Compute(kind, name, operands, at, truth, node.place))

    def _join(self, values: Sequence[int], nodes: Sequence[Node], what: str) -> At:
        """Return where a combination lives; centres and faces do not mix."""
        found = At.FLAT
        for value, node in zip(values, nodes, strict=True):
            at = self.at(value)
            if at is At.FLAT or at is found:
                continue
            if found is not At.FLAT:
                message = f"{what} joins values on {found.value} with this one on {at.value}."
                hint = f"Move one of them first, for example with '{_MOVES[at]}'."
                raise fault(TypeRuleError, node.place, "staggering", message, hint)
            found = at
        return found

    def _invoke(self, node: Invoke) -> int:
        name, place = node.name, node.place
        if name in FOLDS:
            return Folds(self.items, self.item, self.add, self.local).fold(node)
        if name in OPERATORS:
            message = f"'{name}' is an operator: it is made first, and then applied."
            raise fault(SyntaxRuleError, place, "columns", message, _usage(name))
        if name in CONDITIONS:
            message = f"'{name}' is a boundary condition, which stands in an operator's brackets."
            raise fault(SyntaxRuleError, place, "columns", message, _usage(name))
        expected = 2 if name == "mod" else FUNCTIONS.get(name)
        if expected is None:
            raise unknown_function(node)
        if len(node.arguments) != expected or node.options:
            count = "one argument" if expected == 1 else "two arguments"
            message = f"The function '{name}' takes {count} and no options."
            hint = f"Write '{name}({', '.join('ab'[:expected])})'."
            raise fault(TypeRuleError, place, "calls", message, hint)
        operands = tuple(self.number(argument) for argument in node.arguments)
        at = self._join(operands, node.arguments, f"'{name}'")
        if name == "mod":
            return self.item(Compute("binary", "%", operands, at, False, place))
        return self.item(Compute("call", name, operands, at, name in _TESTS, place))

    def _act(self, node: Act) -> int:
        operator = operator_of(node)
        arguments = self._arguments(operator, node)
        ends: dict[str, End | None] = dict.fromkeys(SIDES)
        word = operator.words[0] if operator.words else ""
        for option in node.options:
            if option.name in SIDES:
                ends[option.name] = self._end(operator, option)
            else:
                word = _word(operator, option)
        at = operator.result or self.at(arguments[0])
        return self.item(
            Stencil(operator.name, arguments, ends["bottom"], ends["top"], word, at, node.place)
        )

    def _arguments(self, operator: Operator, node: Act) -> tuple[int, ...]:
        expected = operator.arguments
        if len(node.arguments) != len(expected):
            noun = "argument" if len(expected) == 1 else "arguments"
            message = f"'{operator.name}' takes {len(expected)} {noun}, but got"
            message = f"{message} {len(node.arguments)}."
            raise fault(TypeRuleError, node.place, "calls", message, _usage(operator.name))
        values = tuple(self.number(argument) for argument in node.arguments)
        own = next((self.at(v) for v in values if self.at(v) is not At.FLAT), At.CENTRE)
        for wanted, value, argument in zip(expected, values, node.arguments, strict=True):
            got = self.at(value)
            needed = wanted or own
            if got in (needed, At.FLAT):
                continue
            message = f"'{operator.name}' takes this argument on {needed.value}, but it is on"
            message = f"{message} {got.value}."
            if needed is At.FLAT:
                message = f"'{operator.name}' takes a number here, but this has levels."
            hint = _stagger_hint(operator, needed, got)
            raise fault(TypeRuleError, argument.place, "staggering", message, hint)
        if operator.result is None and self.at(values[0]) is At.FLAT:
            return (*self._spread(values, node),)
        return values

    def _spread(self, values: tuple[int, ...], node: Act) -> tuple[int, ...]:
        """Refuse an operator that could live anywhere with arguments that live nowhere."""
        if all(self.at(value) is At.FLAT for value in values):
            message = f"'{node.operator}' needs an argument with levels."
            raise fault(TypeRuleError, node.place, "staggering", message, _usage(node.operator))
        other = next(value for value in values if self.at(value) is not At.FLAT)
        zero = self.item(Constant(0.0))
        at = self.at(other)
        nothing = self.item(Compute("binary", "*", (zero, other), at, False, node.place))
        return tuple(
            value
            if self.at(value) is not At.FLAT
            else self.item(Compute("binary", "+", (value, nothing), at, False, node.place))
            for value in values
        )

    def _end(self, operator: Operator, option: Option) -> End:
        allowed = operator.bottom if option.name == "bottom" else operator.top
        given = option.value
        if not isinstance(given, Invoke) or given.name not in CONDITIONS:
            name = given.name if isinstance(given, Invoke | Variable) else ""
            message = f"The option '{option.name}' is a boundary condition."
            hint = nearest(name, CONDITIONS) or _choices(operator, option.name, allowed)
            if name in CONDITIONS:
                hint = f"Write '{name}({'0.0' * CONDITIONS[name]})'."
            elif name:
                message = f"'{name}' is not a boundary condition."
            raise fault(SyntaxRuleError, given.place, "boundary", message, hint)
        if given.name not in allowed:
            message = f"'{operator.name}' does not take '{given.name}' at the {option.name}."
            hint = _choices(operator, option.name, allowed)
            raise fault(TypeRuleError, given.place, "boundary", message, hint)
        expected = CONDITIONS[given.name]
        if len(given.arguments) != expected or given.options:
            noun = "one value" if expected else "no value"
            message = f"'{given.name}' takes {noun}, but got"
            message = f"{message} {len(given.arguments) + len(given.options)}."
            hint = f"Write '{given.name}({'0.0' * expected})'."
            raise fault(TypeRuleError, given.place, "boundary", message, hint)
        if not expected:
            return End(given.name)
        value = self.number(given.arguments[0])
        if self.at(value) is not At.FLAT:
            message = "A boundary value has no levels, but this one lives on"
            message = f"{message} {self.at(value).value}."
            hint = "Give a number, or a variable over the horizontal only."
            raise fault(TypeRuleError, given.arguments[0].place, "boundary", message, hint)
        return End(given.name, value)


_MOVES = {At.FACE: "InterpolateF2C()", At.CENTRE: "InterpolateC2F(...)", At.FLAT: ""}


def _stagger_hint(operator: Operator, needed: At, got: At) -> str:
    """Return the way out: the operator's twin, or an interpolation."""
    here, there = ("C2F", "F2C") if needed is At.CENTRE else ("F2C", "C2F")
    twin = operator.name.replace(here, there)
    if needed is At.FLAT or got is At.FLAT:
        return "Give a number, or a variable over the horizontal only."
    if len(operator.arguments) == 1 and twin != operator.name and twin in OPERATORS:
        return f"Use '{twin}', or '{_MOVES[got]}' on the argument."
    return f"Use '{_MOVES[got]}' on the argument."


def _choices(operator: Operator, side: str, allowed: Sequence[str]) -> str:
    if allowed:
        return f"It takes {listed(allowed)} there."
    other = operator.top if side == "bottom" else operator.bottom
    if other:
        return f"It needs none there; at the other end it takes {listed(other)}."
    return f"'{operator.name}' takes none: leave it out."


def _word(operator: Operator, option: Option) -> str:
    given = option.value
    word = given.name if isinstance(given, Variable) else ""
    if isinstance(given, Number) and not isinstance(given.value, bool):
        word = str(given.value)
    if word in operator.words:
        return word
    shown = f"'{word}'" if word else "something else"
    message = f"The option '{option.name}' is one of a few words, but this is {shown}."
    hint = nearest(word, operator.words) or f"It takes {listed(operator.words)}."
    raise fault(NameRuleError, given.place, "columns", message, hint)


def _no_value(name: str, place: Place, known: Sequence[str], *, is_defined: bool) -> ProgramError:
    """Return the error of a name that has no value where it is read."""
    if name in OPERATORS or name in FOLDS or name in CONDITIONS:
        message = f"'{name}' is not a value."
        return fault(SyntaxRuleError, place, "columns", message, _usage(name))
    if is_defined:
        message = f"'{name}' is read before the line that defines it."
        hint = f"Call the line's value otherwise, such as 'new_{name}', to read the variable."
        return fault(NameRuleError, place, "names", message, hint)
    message = f"'{name}' is neither a variable of the dataset, a scalar nor an earlier line."
    hint = nearest(name, known) or "Pass a number as scalars={...}, or add the variable."
    return fault(NameRuleError, place, "names", message, hint)


def _usage(name: str) -> str:
    """Return how an operator, a reduction or a boundary condition is written."""
    if name in CONDITIONS:
        value = "0.0" if CONDITIONS[name] else ""
        takes = next(o for o in OPERATORS.values() if name in (*o.bottom, *o.top))
        side = "bottom" if name in takes.bottom else "top"
        arguments = ", ".join("abc"[: len(takes.arguments)])
        return f"Write for example '{takes.name}({side}={name}({value}))({arguments})'."
    if name in FOLDS:
        return f"Write '{FOLDS[name]}'."
    operator = OPERATORS[name]
    return f"Write '{name}()({', '.join('abc'[: len(operator.arguments)])})'."
