"""Expressions: Python's syntax tree becomes terms; what is no part of the language is refused."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from halocline_engine.errors import LimitError, SyntaxRuleError
from halocline_engine.language import syntax
from halocline_engine.language.imports import without_module
from halocline_engine.language.source import Place, fault

__all__ = ["COMPARISONS", "Reader"]

_ARITHMETIC: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
}

_OTHER_OPERATORS: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.FloorDiv: ("//", "Write 'floor(a / b)'."),
    ast.BitAnd: ("&", "For conditions write 'and'."),
    ast.BitOr: ("|", "For conditions write 'or'."),
    ast.BitXor: ("^", "For powers write '**', for conditions '!='."),
    ast.LShift: ("<<", "Multiply by a power of two."),
    ast.RShift: (">>", "Write 'floor(a / b)' with a power of two."),
}

#: Characters of an expression that a hint repeats.
_LONGEST_VALUE = 40
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)

COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}

_OTHERCOMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}

_THINGS: Mapping[type[ast.expr], str] = {
    ast.Await: "'await'",
    ast.Dict: "A dictionary",
    ast.DictComp: "A comprehension",
    ast.GeneratorExp: "A comprehension",
    ast.JoinedStr: "A formatted string",
    ast.Lambda: "A lambda",
    ast.List: "A list",
    ast.ListComp: "A comprehension",
    ast.NamedExpr: "':='",
    ast.Set: "A set",
    ast.SetComp: "A comprehension",
    ast.Slice: "A slice",
    ast.Starred: "'*'",
    ast.Tuple: "A tuple",
    ast.Yield: "'yield'",
    ast.YieldFrom: "'yield'",
}

#: How to write attributes that only names have.
_ATTRIBUTES = {"A": "Write 'q[0, 0, 0][n]'.", "T": "Assign it to a temporary before."}


@dataclass(frozen=True, slots=True)
class Reader:
    """Turns the nodes of one text into terms.

    `aliases` maps imported names to what they stand for, so that `gts.Field` reads `Field` after
    `import gt4py.cartesian.gtscript as gts`. What is decided when a program is compiled
    (`is_static`) may hold chains of comparisons and operators of bits as well.
    """

    lines: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    is_static: bool = False

    def place(self, node: ast.expr | ast.stmt | ast.arg | ast.alias | ast.keyword) -> Place:
        """Return where a node begins; Python's tree counts bytes, a place counts characters."""
        line = self.lines[node.lineno - 1] if node.lineno <= len(self.lines) else ""
        before = line.encode()[: node.col_offset].decode(errors="replace")
        return Place(node.lineno, len(before) + 1)

    def term(self, node: ast.expr) -> syntax.Term:
        """Return what an expression says."""
        match node:
            case ast.Constant():
                return _constant(node, self.place(node))
            case ast.Name() | ast.Attribute():
                return syntax.Name(self.dotted(node), self.place(node))
            case ast.UnaryOp():
                return self._prefix(node)
            case ast.BinOp():
                return self._infix(node)
            case ast.BoolOp(op, values):
                word = "and" if isinstance(op, ast.And) else "or"
                result = self.term(values[0])
                for value in values[1:]:
                    result = syntax.Infix(word, result, self.term(value), self.place(node))
                return result
            case ast.Compare():
                return self._comparison(node)
            case ast.IfExp(condition, then, otherwise):
                place = self.place(node)
                return syntax.Choice(
                    self.term(condition), self.term(then), self.term(otherwise), place
                )
            case ast.Subscript(base, index):
                return syntax.Subscript(self.term(base), self._indices(index), self.place(node))
            case ast.Call(func=ast.Attribute(value=base, attr="at")):
                return _at(node, base, self)
            case ast.Call():
                return self.call(node)
            case _:
                raise self._no_expression(node)

    def dotted(self, node: ast.expr) -> str:
        """Return a name like `q` or `grid.DX`, with imported names spelled out."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            if not isinstance(node.value, ast.Name | ast.Attribute):
                message = f"Only a name can have an attribute, not what is before '.{node.attr}'."
                hint = _ATTRIBUTES.get(node.attr, "Remove the attribute.")
                raise fault(SyntaxRuleError, self.place(node), "expressions", message, hint)
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            raise self._no_expression(node)
        head = self.aliases.get(node.id, node.id)
        return without_module(".".join(filter(None, [head, *reversed(parts)])) or node.id)

    def without(self, names: frozenset[str]) -> Reader:
        """Return a reader for a definition whose own names hide imported ones."""
        return replace(self, aliases={k: v for k, v in self.aliases.items() if k not in names})

    def static(self) -> Reader:
        """Return a reader for what is decided when a program is compiled."""
        return replace(self, is_static=True)

    def call(self, node: ast.Call) -> syntax.Apply:
        """Return a call of something by its name."""
        place = self.place(node)
        if not isinstance(node.func, ast.Name | ast.Attribute):
            message = "Only a name can be called."
            hint = "Write '*' for a product."
            raise fault(SyntaxRuleError, place, "calls", message, hint)
        keywords: list[syntax.Keyword] = []
        for keyword in node.keywords:
            if keyword.arg is None:
                raise fault(
                    SyntaxRuleError,
                    self.place(keyword),
                    "calls",
                    "'**' is not allowed in a call.",
                    "Name each argument.",
                )
            keywords.append(
                syntax.Keyword(keyword.arg, self.term(keyword.value), self.place(keyword))
            )
        arguments = tuple(self.term(argument) for argument in node.args)
        return syntax.Apply(self.dotted(node.func), arguments, tuple(keywords), place)

    def operator(self, kind: ast.operator, place: Place) -> str:
        """Return the spelling of an arithmetic operator of the language."""
        known = _ARITHMETIC.get(type(kind))
        if known is None and self.is_static and isinstance(kind, _BITS):
            return _OTHER_OPERATORS[type(kind)][0]
        if known is None:
            spelling, hint = _OTHER_OPERATORS[type(kind)]
            message = f"The operator '{spelling}' is not part of the language."
            raise fault(SyntaxRuleError, place, "operators", message, hint)
        return known

    def _prefix(self, node: ast.UnaryOp) -> syntax.Term:
        place = self.place(node)
        match node.op:
            case ast.USub():
                return syntax.Prefix("-", self.term(node.operand), place)
            case ast.UAdd():
                return syntax.Prefix("+", self.term(node.operand), place)
            case ast.Not():
                return syntax.Prefix("not", self.term(node.operand), place)
            case ast.Invert() if self.is_static:
                return syntax.Prefix("~", self.term(node.operand), place)
            case _:
                message = "The operator '~' is not part of the language."
                hint = "For conditions write 'not'."
                raise fault(SyntaxRuleError, place, "operators", message, hint)

    def _infix(self, node: ast.BinOp) -> syntax.Term:
        place = self.place(node)
        spelling = self.operator(node.op, place)
        return syntax.Infix(spelling, self.term(node.left), self.term(node.right), place)

    def _comparison(self, node: ast.Compare) -> syntax.Term:
        place = self.place(node)
        if len(node.ops) > 1 and self.is_static:
            return self.term(_pairs(node))
        if len(node.ops) > 1:
            raise fault(
                SyntaxRuleError,
                place,
                "comparisons",
                "A comparison has two operands, but this one is a chain.",
                "Write 'a < b and b < c'.",
            )
        kind = type(node.ops[0])
        _check_comparison(node, place, is_static=self.is_static)
        left, right = self.term(node.left), self.term(node.comparators[0])
        return syntax.Infix(COMPARISONS[kind], left, right, place)

    def _indices(self, node: ast.expr) -> tuple[syntax.Term, ...]:
        match node:
            case ast.Constant(value) if value is ...:
                return ()
            case ast.Tuple(items):
                return tuple(self._index(item) for item in items)
            case _:
                return (self._index(node),)

    def _index(self, node: ast.expr) -> syntax.Term:
        if isinstance(node, ast.Tuple):
            return syntax.Pack(tuple(self._index(item) for item in node.elts), self.place(node))
        if isinstance(node, ast.Slice):
            raise fault(
                SyntaxRuleError,
                self.place(node),
                "offsets",
                "A slice is not an offset.",
                "Write one constant offset for each axis, like 'q[1, 0, 0]'.",
            )
        return self.term(node)

    def _no_expression(self, node: ast.expr) -> SyntaxRuleError:
        thing = _THINGS.get(type(node), "This")
        message = f"{thing} is not an expression of the language."
        hint = "Write numbers, names, operators and calls."
        return fault(SyntaxRuleError, self.place(node), "expressions", message, hint)


def _constant(node: ast.Constant, place: Place) -> syntax.Term:
    value = node.value
    if value is None:
        return syntax.Name("None", place)
    if value is ...:
        return syntax.Name("...", place)
    if isinstance(value, str):
        return syntax.Text(value, place)
    if isinstance(value, bool | int | float):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            message = "An integer must fit into 64 bits."
            raise fault(LimitError, place, "numbers", message, "Write a float.")
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            message = "A number must be finite, but this one is larger than a float64 can be."
            raise fault(LimitError, place, "numbers", message, "Write a smaller number.")
        return syntax.Literal(value, place)
    kind = "Bytes are" if isinstance(value, bytes) else "A complex number is"
    message = f"{kind} not a value of the language."
    raise fault(SyntaxRuleError, place, "expressions", message, "Write a number.")


def _pairs(node: ast.Compare) -> ast.BoolOp:
    """Return a chain of comparisons as what it means: each of them."""
    operands = pairwise((node.left, *node.comparators))
    pairs = [
        ast.copy_location(ast.Compare(left, [op], [right]), left)
        for (left, right), op in zip(operands, node.ops, strict=True)
    ]
    return ast.copy_location(ast.BoolOp(ast.And(), [*pairs]), node)


def _at(node: ast.Call, base: ast.expr, reader: Reader) -> syntax.At:
    """Return what `q.at(K=level, ddim=[n])` says."""
    place, given = reader.place(node), {one.arg: one.value for one in node.keywords}
    level = given.pop("K", None)
    data = given.pop("ddim", None)
    if node.args or given or level is None or not isinstance(base, ast.Name):
        message = "'at' takes the level of a field by the name 'K'."
        raise fault(SyntaxRuleError, place, "levels", message, "Write 'q.at(K=0)'.")
    items = data.elts if isinstance(data, ast.List | ast.Tuple) else [data] if data else []
    indices = tuple(reader.term(item) for item in items)
    return syntax.At(reader.term(base), reader.term(level), indices, place)


def _check_comparison(node: ast.Compare, place: Place, *, is_static: bool) -> None:
    kind, missing = type(node.ops[0]), _test_of_missing(node)
    if kind not in COMPARISONS:
        message = f"The operator '{_OTHERCOMPARISONS[kind]}' is not part of the language."
        hint = missing or "Compare with '==', '!=', '<', '<=', '>' or '>='."
        raise fault(SyntaxRuleError, place, "operators", message, hint)
    if missing and not is_static:
        message = "A comparison does not find missing values, as NaN is equal to no number."
        raise fault(SyntaxRuleError, place, "comparisons", message, missing)


def _test_of_missing(node: ast.Compare) -> str:
    """Return how a comparison with NaN or None is written, or "" for any other one."""
    sides = (node.left, node.comparators[0])
    missing = [_is_missing(side) for side in sides]
    if missing not in ([True, False], [False, True]):
        return ""
    value = ast.unparse(sides[missing.index(False)])
    negated = "not " * isinstance(node.ops[0], ast.NotEq | ast.IsNot)
    return f"Write '{negated}isnan({value if len(value) <= _LONGEST_VALUE else 'x'})'."


def _is_missing(node: ast.expr) -> bool:
    """Whether an expression is None or NaN, as Python and NumPy write it."""
    match node:
        case ast.Constant(value=None):
            return True
        case ast.Attribute(value=ast.Name(), attr="nan" | "NaN" | "NAN") | ast.Name(id="nan"):
            return True
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return text.lower() == "nan"
        case _:
            return False
