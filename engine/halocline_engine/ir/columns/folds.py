"""Integrals, reductions and scans of columns: their text becomes folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from halocline_engine.errors import NameRuleError, ProgramError, SyntaxRuleError, TypeRuleError
from halocline_engine.ir.columns.nodes import Compute, Constant, Element, Fold, Item, Slot, Weight
from halocline_engine.ir.columns.table import At
from halocline_engine.ir.lower.naming.names import nearest
from halocline_engine.language.columns_syntax import (
    Invoke,
    Node,
    Number,
    Option,
    Rule,
    State,
    Variable,
    with_operands,
)
from halocline_engine.language.source import Place, fault

__all__ = ["FOLDS", "Folds"]

_REDUCE = "column_reduce"
_ACCUMULATE = "column_accumulate"
_DEFINITE = "column_integral_definite"
_INDEFINITE = "column_integral_indefinite"

#: How each is written.
FOLDS = {
    _DEFINITE: f"{_DEFINITE}(x)",
    _INDEFINITE: f"{_INDEFINITE}(x, init=0.0)",
    _REDUCE: f"{_REDUCE}(x, f=lambda acc, x: acc + x, init=0.0)",
    _ACCUMULATE: f"{_ACCUMULATE}(x, f=lambda acc, x: acc + x, init=0.0)",
}

_OPTIONS = {
    _DEFINITE: (),
    _INDEFINITE: ("init", "reverse"),
    _REDUCE: ("f", "init", "transform", "reverse"),
    _ACCUMULATE: ("f", "init", "transform", "reverse", "to"),
}
_PLACES = {"Centres": At.CENTRE, "Faces": At.FACE}


@dataclass(frozen=True, slots=True)
class Folds:
    """Adds folds to the items of a checker; `local` holds the parameters of the lambda inside."""

    items: list[Item]
    item: Callable[[Item], int]
    add: Callable[[Node], int]
    local: dict[str, int]

    def fold(self, node: Invoke) -> int:
        """Return the item of an integral, a reduction or a scan."""
        if self.local:
            message = "A reduction cannot stand inside the lambda of another one."
            hint = "Give it a name on a line before."
            raise fault(SyntaxRuleError, node.place, "columns", message, hint)
        options = self._options(node)
        arguments, source = self._arguments(node)
        if node.name in (_DEFINITE, _INDEFINITE):
            return self._integral(node, arguments, source, options)
        for needed in ("f", "init"):
            if needed not in options:
                message = f"'{node.name}' needs the option '{needed}'."
                raise self._fault(node, node.place, message)
        reverse = _flag(options.get("reverse"))
        start = self._start(options["init"].value)
        step = self._rule(node, options["f"], len(start), len(arguments), source)
        finish = self._finish(node, options.get("transform"), len(start))
        total = node.name == _REDUCE
        at = At.FLAT if total else _target(options.get("to"), source)
        return self.item(
            Fold(arguments, start, step, finish, reverse, total, source, at, node.place)
        )

    def _fault(self, node: Invoke, place: Place, message: str) -> ProgramError:
        return fault(TypeRuleError, place, "columns", message, f"Write '{FOLDS[node.name]}'.")

    def _options(self, node: Invoke) -> dict[str, Option]:
        known = _OPTIONS[node.name]
        for option in node.options:
            if option.name not in known:
                message = f"'{node.name}' has no option '{option.name}'."
                hint = nearest(option.name, known) or f"Write '{FOLDS[node.name]}'."
                raise fault(NameRuleError, option.place, "columns", message, hint)
        return {option.name: option for option in node.options}

    def _arguments(self, node: Invoke) -> tuple[tuple[int, ...], At]:
        single = node.name in (_DEFINITE, _INDEFINITE)
        if not node.arguments or (single and len(node.arguments) != 1):
            count = "one argument" if single else "at least one argument"
            message = f"'{node.name}' takes {count}, but got {len(node.arguments)}."
            raise self._fault(node, node.place, message)
        values = tuple(self.add(argument) for argument in node.arguments)
        found = {self.items[value].at for value in values} - {At.FLAT}
        if len(found) == 2:
            message = f"'{node.name}' takes arguments on centres or on faces, but not on both."
            hint = "Move one of them first, for example with 'InterpolateF2C()(...)'."
            raise fault(TypeRuleError, node.place, "staggering", message, hint)
        return values, next(iter(found), At.CENTRE)

    def _integral(
        self, node: Invoke, arguments: tuple[int, ...], source: At, options: dict[str, Option]
    ) -> int:
        """Return the fold of `x * J`; the indefinite one begins with `init` on the first face."""
        total = node.name == _DEFINITE
        if not total and source is At.FACE:
            message = f"'{node.name}' takes its argument on centres, but this is on faces."
            hint = "Use 'InterpolateF2C()' on the argument."
            raise fault(TypeRuleError, node.arguments[0].place, "staggering", message, hint)
        start = (self.item(Constant(0.0)),)
        if "init" in options:
            start = self._start(options["init"].value)
        number = len(self.items)
        slot, element = self.item(Slot(number, 0)), self.item(Element(number, 0))
        weight = self.item(Weight(source))
        part = self.item(Compute("binary", "*", (element, weight), source, False, node.place))
        step = self.item(Compute("binary", "+", (slot, part), source, False, node.place))
        reverse = _flag(options.get("reverse"))
        at = At.FLAT if total else At.FACE
        return self.item(
            Fold(arguments, start, (step,), slot, reverse, total, source, at, node.place)
        )

    def _start(self, node: Node) -> tuple[int, ...]:
        """Return the first state: values without a level."""
        parts = node.items if isinstance(node, State) and not node.entry else (node,)
        values = tuple(self.add(part) for part in parts)
        for value, part in zip(values, parts, strict=True):
            if self.items[value].at is not At.FLAT:
                message = "The first value of a reduction has no levels, but this one has."
                hint = "Give a number, or a variable over the horizontal only."
                raise fault(TypeRuleError, part.place, "staggering", message, hint)
        return values

    def _rule(
        self, node: Invoke, option: Option, states: int, elements: int, source: At
    ) -> tuple[int, ...]:
        rule = option.value
        if not isinstance(rule, Rule) or len(rule.parameters) != 1 + elements:
            count = "two parameters" if elements == 1 else f"{1 + elements} parameters"
            message = f"The option 'f' of '{node.name}' is a lambda with {count} here."
            raise self._fault(node, rule.place, message)
        number = len(self.items)
        names = {
            name: self.item(Element(number, at)) for at, name in enumerate(rule.parameters[1:])
        }
        parts = self._body(rule, number, states, names)
        self._check_places(rule, parts, source)
        if len(parts) != states:
            message = f"The lambda gives {len(parts)} values, but the state of '{node.name}' has"
            message = f"{message} {states}."
            raise self._fault(node, rule.body.place, message)
        return parts

    def _finish(self, node: Invoke, option: Option | None, states: int) -> int:
        """Return what the transform makes of a state; without one, its first part."""
        number = len(self.items)
        if option is None:
            return self.item(Slot(number, 0))
        rule = option.value
        if not isinstance(rule, Rule) or len(rule.parameters) != 1:
            message = f"The option 'transform' of '{node.name}' is a lambda with one parameter."
            raise self._fault(node, rule.place, message)
        parts = self._body(rule, number, states, {})
        self._check_places(rule, parts, At.FLAT)
        if len(parts) != 1:
            message = f"The transform of '{node.name}' gives one value, but this gives"
            message = f"{message} {len(parts)}."
            raise self._fault(node, rule.body.place, message)
        return parts[0]

    def _check_places(self, rule: Rule, parts: tuple[int, ...], source: At) -> None:
        """Refuse other variables in a lambda that do not live where its argument does."""
        for part in parts:
            at = self.items[part].at
            if at not in (At.FLAT, source):
                where = "have no level" if source is At.FLAT else f"live on {source.value}"
                message = f"What this lambda uses must {where}, but something lives on {at.value}."
                hint = "Pass it as an argument beside the first one."
                raise fault(TypeRuleError, rule.body.place, "staggering", message, hint)

    def _body(self, rule: Rule, number: int, states: int, names: dict[str, int]) -> tuple[int, ...]:
        slots = [self.item(Slot(number, at)) for at in range(states)]
        state = rule.parameters[0]
        body = _with_entries(rule.body, state, states)
        self.local.update(names)
        self.local.update({f"{state}[{at}]": slot for at, slot in enumerate(slots)})
        if states == 1:
            self.local[state] = slots[0]
        try:
            parts = body.items if isinstance(body, State) and not body.entry else (body,)
            return tuple(self.add(part) for part in parts)
        finally:
            self.local.clear()


def _with_entries(node: Node, state: str, states: int) -> Node:
    """Return a body where `acc[1]` has become a name, wherever operands may stand."""

    def inside(part: Node) -> Node:
        return _with_entries(part, state, states)

    match node:
        case State((Variable(name), Number(int() as at)), place, True) if (
            name == state and not isinstance(at, bool) and 0 <= at < states
        ):
            return Variable(f"{state}[{at}]", place)
        case State(place=place, entry=True):
            message = (
                f"Only the state can be indexed, from '{state}[0]' to '{state}[{states - 1}]'."
            )
            hint = "Give 'init' as many values as the state has."
            raise fault(SyntaxRuleError, place, "columns", message, hint)
        case _:
            return with_operands(node, inside)


def _flag(option: Option | None) -> bool:
    if option is None:
        return False
    if isinstance(option.value, Number) and isinstance(option.value.value, bool):
        return option.value.value
    message = f"The option '{option.name}' is 'True' or 'False'."
    raise fault(TypeRuleError, option.value.place, "columns", message, "Leave it out for 'False'.")


def _target(option: Option | None, source: At) -> At:
    if option is None:
        return source
    name = option.value.name if isinstance(option.value, Variable) else ""
    if name in _PLACES:
        return _PLACES[name]
    message = "The option 'to' is 'Centres' or 'Faces'."
    hint = nearest(name, _PLACES) or "Leave it out to stay where the argument is."
    raise fault(NameRuleError, option.value.place, "columns", message, hint)
