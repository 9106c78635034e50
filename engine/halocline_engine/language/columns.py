"""Staggered column operators as text: `parse_columns` reads it and executes nothing.

A program is one expression, or lines `name = expression` that may use the names of earlier lines::

    flux = rho * GradientC2F(bottom=SetGradient(0.0), top=SetValue(warm))(theta)
    tendency = DivergenceF2C()(flux)
"""

from __future__ import annotations

import ast

from halocline_engine.errors import LimitError, NameRuleError, ProgramError, SyntaxRuleError
from halocline_engine.language import columns_syntax as syntax
from halocline_engine.language.limits import LIMITS, Limits, check_text, check_tree, python_tree
from halocline_engine.language.source import START, Place, fault, locate
from halocline_engine.language.statements import is_docstring
from halocline_engine.language.terms import COMPARISONS, Reader

__all__ = ["parse_columns"]


def parse_columns(text: str, *, limits: Limits = LIMITS) -> syntax.ColumnSyntax:
    """Read a column program; raises ProgramError, with line, column and excerpt."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        check_text(plain, limits)
        tree = python_tree(plain, "Give parts of it names.")
        check_tree(tree, limits)
        return syntax.ColumnSyntax(plain, _outputs(tree, _Nodes(Reader(tuple(plain.split("\n"))))))
    except ProgramError as error:
        raise locate(error, plain) from None


def _outputs(tree: ast.Module, nodes: _Nodes) -> tuple[syntax.Output, ...]:
    lines = [line for line in tree.body if not is_docstring(line)]
    if not lines:
        message = "The program is empty: it has no expression."
        hint = "Write for example 'DivergenceF2C()(flux)'."
        raise fault(SyntaxRuleError, START, "columns", message, hint)
    found: dict[str, syntax.Output] = {}
    for line in lines:
        output = _output(line, nodes, alone=len(lines) == 1)
        if output.name in found:
            message = f"The name '{output.name}' is given twice."
            hint = f"Line {found[output.name].place.line} gives it first; choose another name."
            raise fault(NameRuleError, output.place, "columns", message, hint)
        found[output.name] = output
    return tuple(found.values())


def _output(line: ast.stmt, nodes: _Nodes, *, alone: bool) -> syntax.Output:
    place = nodes.reader.place(line)
    match line:
        case ast.Expr(value):
            if alone:
                return syntax.Output("", nodes.node(value), place)
            message = "Of several lines each gives a name to its expression, but this one does not."
            raise fault(SyntaxRuleError, place, "columns", message, "Write 'name = expression'.")
        case ast.Assign([ast.Name(name)], value):
            return syntax.Output(name, nodes.node(value), place)
        case _:
            message = "A line of a column program is an expression or 'name = expression'."
            hint = "Nothing else is part of the language: nothing is executed."
            raise fault(SyntaxRuleError, place, "columns", message, hint)


class _Nodes:
    """Turns the nodes of Python's tree into those of a column program."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def node(self, node: ast.expr) -> syntax.Node:
        """Return what an expression says."""
        place = self.reader.place(node)
        match node:
            case ast.Constant(bool() | int() | float() as value):
                return self._number(value, place)
            case ast.Name(name):
                return syntax.Variable(name, place)
            case ast.UnaryOp(op, operand):
                return syntax.Negative(self._prefix(op, place), self.node(operand), place)
            case ast.BinOp(left, op, right):
                operator = self.reader.operator(op, place)
                return syntax.Operation(operator, self.node(left), self.node(right), place)
            case ast.BoolOp(op, values):
                word = "and" if isinstance(op, ast.And) else "or"
                result = self.node(values[0])
                for value in values[1:]:
                    result = syntax.Operation(word, result, self.node(value), place)
                return result
            case ast.Compare():
                return self._comparison(node, place)
            case ast.IfExp(condition, then, otherwise):
                return syntax.Choose(
                    self.node(condition), self.node(then), self.node(otherwise), place
                )
            case ast.Call():
                return self._call(node, place)
            case _:
                return self._of_rule(node, place)

    def _of_rule(self, node: ast.expr, place: Place) -> syntax.Node:
        """Return what stands in the options of reductions only."""
        match node:
            case ast.Lambda(args, body):
                plain = [*args.posonlyargs, *args.args]
                if args.vararg or args.kwarg or args.kwonlyargs or args.defaults or not plain:
                    message = "A lambda has plain parameters, one or more."
                    hint = "Write 'lambda acc, x: acc + x'."
                    raise fault(SyntaxRuleError, place, "columns", message, hint)
                return syntax.Rule(tuple(arg.arg for arg in plain), self.node(body), place)
            case ast.Tuple(items) if items:
                return syntax.State(tuple(self.node(item) for item in items), place)
            case ast.Subscript(base, index):
                return syntax.State((self.node(base), self.node(index)), place, entry=True)
            case _:
                message = "This is not an expression of a column program."
                hint = "Write numbers, names, '+ - * / **', comparisons and calls."
                raise fault(SyntaxRuleError, place, "columns", message, hint)

    def _number(self, value: bool | int | float, place: Place) -> syntax.Number:
        if not isinstance(value, bool) and abs(value) > 1.7976931348623157e308:
            message = "A number must be finite, but this one is larger than a float64 can be."
            raise fault(LimitError, place, "numbers", message, "Write a smaller number.")
        return syntax.Number(value, place)

    def _prefix(self, op: ast.unaryop, place: Place) -> str:
        match op:
            case ast.USub():
                return "-"
            case ast.UAdd():
                return "+"
            case ast.Not():
                return "not"
            case _:
                message = "The operator '~' is not part of the language."
                hint = "For conditions write 'not'."
                raise fault(SyntaxRuleError, place, "operators", message, hint)

    def _comparison(self, node: ast.Compare, place: Place) -> syntax.Node:
        operator = COMPARISONS.get(type(node.ops[0]))
        if len(node.ops) > 1 or operator is None:
            message = "A comparison is one of < <= > >= == != between two operands."
            raise fault(SyntaxRuleError, place, "columns", message, "Write 'a < b and b < c'.")
        return syntax.Operation(
            operator, self.node(node.left), self.node(node.comparators[0]), place
        )

    def _call(self, node: ast.Call, place: Place) -> syntax.Node:
        options = self._options(node)
        match node.func:
            case ast.Name(name):
                return syntax.Invoke(name, self._arguments(node), options, place)
            case ast.Call(ast.Name(name)) as operator:
                if options:
                    message = "An operator takes its boundary conditions where it is named."
                    hint = f"Write '{name}({options[0].name}=...)(...)'."
                    raise fault(SyntaxRuleError, options[0].place, "columns", message, hint)
                if operator.args:
                    message = f"The first brackets of '{name}' hold named options only."
                    hint = f"Write '{name}(bottom=...)(argument)'."
                    where = self.reader.place(operator.args[0])
                    raise fault(SyntaxRuleError, where, "columns", message, hint)
                return syntax.Act(name, self._options(operator), self._arguments(node), place)
            case _:
                message = "Only a name can be called."
                raise fault(SyntaxRuleError, place, "calls", message, "Write '*' for a product.")

    def _arguments(self, node: ast.Call) -> tuple[syntax.Node, ...]:
        return tuple(self.node(argument) for argument in node.args)

    def _options(self, node: ast.Call) -> tuple[syntax.Option, ...]:
        found: dict[str, syntax.Option] = {}
        for keyword in node.keywords:
            place = self.reader.place(keyword)
            if keyword.arg is None:
                message = "'**' is not allowed in a call."
                raise fault(SyntaxRuleError, place, "calls", message, "Name each option.")
            found[keyword.arg] = syntax.Option(keyword.arg, self.node(keyword.value), place)
        return tuple(found.values())
