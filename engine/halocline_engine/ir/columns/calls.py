"""Operators of column programs by name: what can be told of them without a dataset."""

from __future__ import annotations

from collections.abc import Sequence

from halocline_engine.errors import NameRuleError
from halocline_engine.ir.columns.folds import FOLDS
from halocline_engine.ir.columns.table import CONDITIONS, OPERATORS, Operator
from halocline_engine.ir.functions import FUNCTIONS
from halocline_engine.ir.lower.naming.names import nearest
from halocline_engine.language.columns_syntax import Act, ColumnSyntax, Invoke, nodes_in
from halocline_engine.language.source import fault, locate

__all__ = ["SIDES", "check_operators", "listed", "operator_of", "unknown_function"]

SIDES = ("bottom", "top")
#: Names of xgcm and xarray.
_OF_OTHERS = {
    **dict.fromkeys(
        ("diff", "derivative", "differentiate", "gradient", "grad"),
        "GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(x)",
    ),
    **dict.fromkeys(
        ("interp", "interpolate"), "InterpolateC2F(bottom=Extrapolate(), top=Extrapolate())(x)"
    ),
    **dict.fromkeys(("sum", "integrate", "integral"), FOLDS["column_integral_definite"]),
    **dict.fromkeys(("cumsum", "cumint"), FOLDS["column_integral_indefinite"]),
}
#: Names that may be called.
_NAMED = (*FUNCTIONS, *FOLDS, *OPERATORS, "mod")
_KNOWN = (*_NAMED, *CONDITIONS)


def check_operators(syntax: ColumnSyntax) -> None:
    """Refuse functions, operators and options of these that there are not.

    Raises ProgramError.
    """
    try:
        for node in nodes_in(syntax):
            match node:
                case Act():
                    operator_of(node)
                case Invoke(name=name) if name not in _KNOWN:
                    raise unknown_function(node)
                case _:
                    pass
    except NameRuleError as error:
        raise locate(error, syntax.text) from None


def unknown_function(node: Invoke) -> NameRuleError:
    """Return the error for a call of what is no function and no operator."""
    message = f"'{node.name}' is neither a function nor an operator."
    operator = _OF_OTHERS.get(node.name)
    hint = f"Write '{operator}'." if operator else nearest(node.name, _NAMED)
    hint = hint or "Functions are those of the stencil language, such as 'exp' and 'max'."
    return fault(NameRuleError, node.place, "names", message, hint)


def operator_of(node: Act) -> Operator:
    """Return the operator of a node, whose options it has."""
    operator = OPERATORS.get(node.operator)
    if operator is None:
        message = f"'{node.operator}' is not an operator."
        hint = nearest(node.operator, OPERATORS) or "Operators are such as 'GradientC2F'."
        raise fault(NameRuleError, node.place, "names", message, hint)
    known = [*SIDES, operator.option] if operator.option else SIDES
    for option in node.options:
        if option.name not in known:
            message = f"'{operator.name}' has no option '{option.name}'."
            hint = nearest(option.name, known) or f"It takes {listed(known)}."
            raise fault(NameRuleError, option.place, "columns", message, hint)
    return operator


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them."""
    *others, last = [f"'{name}'" for name in names]
    return f"{', '.join(others)} and {last}" if others else last
