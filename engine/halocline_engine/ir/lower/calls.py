"""Calls in a text: functions of it, and conditions that are decided while it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from halocline_engine.errors import NameRuleError, SyntaxRuleError
from halocline_engine.ir.functions import FUNCTIONS
from halocline_engine.ir.lower.naming.elsewhere import hint_of_call
from halocline_engine.ir.lower.naming.fold import CASTS, Value
from halocline_engine.ir.lower.naming.names import Names, nearest, starred
from halocline_engine.ir.lower.naming.scope import REDUCTIONS, Scope
from halocline_engine.language.source import fault, no_return
from halocline_engine.language.syntax import Apply, Demand, Function, Prefix, Term

__all__ = [
    "check_demand",
    "check_one_result",
    "check_targets",
    "condition_of",
    "count_of",
    "function_of",
    "is_of_module",
]

_BUILTINS = frozenset({*FUNCTIONS, "mod", *CASTS, *REDUCTIONS})


def function_of(call: Apply, names: Names, scope: Scope) -> Function | None:
    """Return the function of the text that is called, or None for one of the language."""
    name, place = call.function, call.place
    if name.split(".")[0] in scope.renames and name not in _BUILTINS:
        message = f"'{name}' is not a function."
        hint = hint_of_call(name, of_field=True)
        hint = hint or "Write '[...]' for an offset, '*' for a product."
        raise fault(SyntaxRuleError, place, "calls", message, hint)
    function = names.function(name, scope.imports, place)
    if function is not None:
        if function.name in scope.trail:
            message = f"The function '{function.name}' calls itself."
            hint = "Functions are inlined, so they cannot be recursive."
            raise fault(SyntaxRuleError, place, "functions", message, hint)
        return function
    if name == "__INLINED":
        message = "'__INLINED' can only be the whole condition of an 'if'."
        raise fault(SyntaxRuleError, place, "calls", message, "Write 'if __INLINED(condition):'.")
    if name not in names.casts and (name not in _BUILTINS or name.startswith("np.")):
        raise _unknown_function(call, names, scope)
    if call.keywords:
        message = f"'{name}' takes no keyword arguments, but got '{call.keywords[0].name}'."
        hint = "Give its arguments by position."
        raise fault(SyntaxRuleError, call.keywords[0].place, "calls", message, hint)
    return None


def is_of_module(call: Apply, names: Names, scope: Scope) -> bool:
    """Whether a call needs a function of a module that was not passed."""
    name = call.function
    if name.partition(".")[0] in scope.renames or not names.is_of_module(name):
        return False
    is_known = name in names.casts or name in _BUILTINS
    return not is_known and names.function(name, scope.imports, call.place) is None


def check_targets(call: Apply, function: Function, targets: int) -> None:
    """Raise unless a function returns as many values as there are targets."""
    if len(function.results) != targets:
        message = (
            f"The function '{function.name}' returns {count_of(len(function.results), 'value')}, "
            f"but is assigned to {count_of(targets, 'target')}."
        )
        hint = "Write as many targets as the function returns values."
        raise fault(SyntaxRuleError, call.place, "functions", message, hint)


def check_one_result(call: Apply, function: Function) -> None:
    """Raise unless a function returns one value, as an expression needs."""
    if len(function.results) != 1:
        message = (
            f"The function '{function.name}' returns {len(function.results)} values, but an "
            "expression needs one."
        )
        hint = "Assign its results to temporaries before: 'a, b = function(...)'."
        raise fault(SyntaxRuleError, call.place, "functions", message, hint)


def _unknown_function(call: Apply, names: Names, scope: Scope) -> NameRuleError:
    name, place = call.function, call.place
    message = f"The function '{name}' is unknown."
    bare = name.rsplit(".", maxsplit=1)[-1]
    hint = f"Write '{bare}(...)'." if bare in _BUILTINS else hint_of_call(name)
    hint = (
        hint or nearest(bare, [*_BUILTINS, *names.all(), *scope.imports]) or starred(names.foreign)
    )
    return fault(
        NameRuleError, place, "names", message, hint or "Put its definition into the text."
    )


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count_of(1, "value"), count_of(2, "value")
    ('1 value', '2 values')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def check_demand(demand: Demand, trail: Sequence[str], constant: Callable[[Term], Value]) -> None:
    """Check an assertion, or that constants lead to the `return` of the last function called."""
    place, result = demand.condition.place, demand.result
    if result is None:
        if not constant(demand.condition):
            message = "The condition of 'compile_assert' is false."
            hint = "Change the constants or externals that it compares."
            raise fault(SyntaxRuleError, place, "assertions", message, hint)
        return
    name = trail[-1]
    try:
        chosen = constant(_decided(demand.condition))
    except SyntaxRuleError as error:
        raise (no_return(name, result) if error.rule == "constants" else error) from None
    if not chosen:
        message = f"The function '{name}' returns nothing: its constants choose another branch."
        hint = "Change the constants or externals that are compared here."
        raise fault(SyntaxRuleError, place, "functions", message, hint)


def _decided(condition: Term) -> Term:
    """Return the condition of a branch without `__INLINED`, which changes nothing there."""
    match condition:
        case Prefix("not", operand, place):
            return Prefix("not", _decided(operand), place)
        case Apply("__INLINED"):
            return condition_of(condition)
        case _:
            return condition


def condition_of(call: Apply) -> Term:
    """Return the condition that `__INLINED` is called with."""
    if len(call.arguments) != 1 or call.keywords:
        message = f"'__INLINED' takes one condition, but got {len(call.arguments)} arguments."
        hint = "Write 'if __INLINED(condition):'."
        raise fault(SyntaxRuleError, call.place, "calls", message, hint)
    return call.arguments[0]
