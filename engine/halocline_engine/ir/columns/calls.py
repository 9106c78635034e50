"""Operators of column programs by name: what can be told of them without a dataset."""

from __future__ import annotations

from collections.abc import Sequence

from halocline_engine.errors import NameRuleError
from halocline_engine.ir.columns.table import OPERATORS, Operator
from halocline_engine.ir.lower.naming.names import nearest
from halocline_engine.language.columns_syntax import Act, ColumnSyntax, nodes_in
from halocline_engine.language.source import fault, locate

__all__ = ["SIDES", "check_operators", "listed", "operator_of"]

SIDES = ("bottom", "top")


def check_operators(syntax: ColumnSyntax) -> None:
    """Refuse operators, and options of them, that there are not. Raises ProgramError."""
    try:
        for node in nodes_in(syntax):
            if isinstance(node, Act):
                operator_of(node)
    except NameRuleError as error:
        raise locate(error, syntax.text) from None


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
