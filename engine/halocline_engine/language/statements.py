"""Statements: bodies of intervals and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from halocline_engine.errors import SyntaxRuleError
from halocline_engine.language.faults import Faults
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import (
    Apply,
    Area,
    Branch,
    Condition,
    Demand,
    Loop,
    Region,
    Side,
    Step,
    Store,
    Term,
)
from halocline_engine.language.terms import Reader

__all__ = [
    "is_docstring",
    "is_ignored",
    "read_choices",
    "read_condition",
    "read_region",
    "read_steps",
    "with_names",
]

_REGION = "Write 'with horizontal(region[I[0], :]):' inside an interval."

_OTHERS: dict[type[ast.stmt], tuple[str, str]] = {
    ast.For: (
        "'for'",
        "Write a vertical loop as 'with computation(FORWARD)', or repeat the lines.",
    ),
    ast.Pass: ("'pass'", "Remove the empty block."),
    ast.Assert: ("'assert'", "Write 'compile_assert(condition)' for constants."),
    ast.Break: ("'break'", "Make what ends the loop a part of its condition."),
    ast.Continue: ("'continue'", "Choose with 'if' what a round of the loop does."),
    ast.Return: ("'return'", "A stencil gives its results by assigning to its fields."),
    ast.Import: ("'import'", "Remove it, or move it to the top of the text."),
    ast.ImportFrom: ("'import'", "Move it to the top of the definition."),
    ast.FunctionDef: ("A nested 'def'", "Move it to the top of the text."),
    ast.Delete: ("'del'", "Remove it."),
    ast.Try: ("'try'", "Remove it."),
    ast.Raise: ("'raise'", "Remove it."),
}


def read_steps(nodes: Sequence[ast.stmt], reader: Reader) -> tuple[Step, ...]:
    """Return the statements of a body, without docstrings and imports."""
    faults, steps = Faults(), list[Step]()
    for node in nodes:
        if not is_ignored(node):
            with faults.collecting():
                steps.append(_step(node, reader))
    faults.raise_found()
    return tuple(steps)


def read_condition(node: ast.If, reader: Reader) -> Term:
    """Return what an `if` looks at."""
    static = _is_call(node.test, "__INLINED", reader)
    return (reader.static() if static else reader).term(node.test)


def is_ignored(node: ast.stmt) -> bool:
    """Say whether a statement is a docstring, or an import of externals or of the language."""
    if not isinstance(node, ast.ImportFrom):
        return is_docstring(node)
    module = node.module or ""
    known = module in ("__externals__", "__gtscript__")
    return known or module.split(".", maxsplit=1)[0] == "gt4py"


def is_docstring(node: ast.stmt) -> bool:
    """Say whether a statement is only a string."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)


def with_names(node: ast.With, reader: Reader) -> tuple[str, ...]:
    """Return the names of what is called in a `with`, "" for what is no call."""
    calls = [item.context_expr for item in node.items]
    return tuple(
        reader.dotted(call.func)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute)
        else ""
        for call in calls
    )


def _step(node: ast.stmt, reader: Reader) -> Step:
    place = reader.place(node)
    match node:
        case ast.Assign():
            return _assign(node, reader)
        case ast.AnnAssign():
            return _annotated(node, reader)
        case ast.AugAssign(target, operator, value):
            spelling = reader.operator(operator, place)
            targets = (_target(target, reader),)
            return Store(targets, (reader.term(value),), place, spelling)
        case ast.If(_, body, orelse):
            then, otherwise = read_steps(body, reader), read_steps(orelse, reader)
            return Branch(read_condition(node, reader), then, otherwise, place)
        case ast.Expr(value):
            return _expression(value, place, reader)
        case ast.With():
            return _region(node, reader)
        case ast.While(test, body, orelse):
            if orelse:
                message = "A 'while' has no 'else'."
                hint = "Move what stands in it behind the loop."
                raise fault(SyntaxRuleError, reader.place(orelse[0]), "loops", message, hint)
            return Loop(reader.term(test), read_steps(body, reader), place)
        case _:
            thing, hint = _OTHERS.get(
                type(node),
                ("This statement", "Assign, or choose with 'if': nothing else can stand here."),
            )
            raise fault(SyntaxRuleError, place, "statements", f"{thing} cannot stand here.", hint)


def _assign(node: ast.Assign, reader: Reader) -> Store:
    place = reader.place(node)
    if len(node.targets) > 1:
        raise fault(
            SyntaxRuleError,
            place,
            "assignments",
            "An assignment has one target, but this one is a chain.",
            "Write one assignment for each target.",
        )
    target = node.targets[0]
    targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    if len(values) not in (1, len(targets)) or not targets:
        message = f"{len(values)} values are assigned to {len(targets)} targets."
        raise fault(SyntaxRuleError, place, "assignments", message, "Give each target one value.")
    return Store(
        tuple(_target(each, reader) for each in targets),
        tuple(reader.term(value) for value in values),
        place,
    )


def _annotated(node: ast.AnnAssign, reader: Reader) -> Store:
    place = reader.place(node)
    if node.value is None:
        message = "A typed temporary must be given a value where it is declared."
        raise fault(SyntaxRuleError, place, "temporaries", message, "Write 'name: type = value'.")
    targets, values = (_target(node.target, reader),), (reader.term(node.value),)
    return Store(targets, values, place, annotation=reader.term(node.annotation))


def _target(node: ast.expr, reader: Reader) -> Term:
    base = node
    while isinstance(base, ast.Subscript):
        base = base.value
    if isinstance(base, ast.Attribute) and base is not node:
        message = f"'{ast.unparse(base)}[...]' can be read, but not assigned to."
        hint = "Write 'q[0, 0, 0][1] = value' for a component; a 'GlobalTable' is read only."
        raise fault(SyntaxRuleError, reader.place(node), "assignments", message, hint)
    if isinstance(node, ast.Name | ast.Subscript):
        return reader.term(node)
    place = reader.place(node)
    message = "Only a field or a temporary can be assigned to."
    hint = "Write the name of one before the '='."
    raise fault(SyntaxRuleError, place, "assignments", message, hint)


def _expression(value: ast.expr, place: Place, reader: Reader) -> Demand:
    message = "An expression alone has no effect."
    hint = "Assign it to a field or a temporary."
    if not isinstance(value, ast.Call):
        raise fault(SyntaxRuleError, place, "statements", message, hint)
    is_assertion = _is_call(value, "compile_assert", reader)
    call = (reader.static() if is_assertion else reader).call(value)
    if not is_assertion:
        message = f"The call of '{call.function}' alone has no effect."
        raise fault(SyntaxRuleError, place, "statements", message, hint)
    if len(call.arguments) != 1 or call.keywords:
        message = f"'compile_assert' takes one condition, but got {len(call.arguments)} arguments."
        raise fault(SyntaxRuleError, place, "calls", message, "Write 'compile_assert(condition)'.")
    return Demand(call.arguments[0], place)


def read_choices(
    body: Sequence[ast.stmt], reader: Reader, conditions: tuple[Condition, ...] = ()
) -> Iterator[tuple[ast.stmt, tuple[Condition, ...]]]:
    """Yield the statements of a body and of its choices, each with the conditions that it has."""
    for node in body:
        if isinstance(node, ast.If) and _is_call(node.test, "__INLINED", reader):
            call = read_condition(node, reader)
            assert isinstance(call, Apply)
            yield from read_choices(node.body, reader, (*conditions, (call, True)))
            yield from read_choices(node.orelse, reader, (*conditions, (call, False)))
        elif not is_ignored(node):
            yield node, conditions


def _is_call(node: ast.expr, name: str, reader: Reader) -> bool:
    """Say whether something is called that has a name of the language."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return False
    return reader.dotted(node.func) == name


def _region(node: ast.With, reader: Reader) -> Region:
    if with_names(node, reader) != ("horizontal",):
        raise _bad_with(node, reader)
    return read_region(node, node.items[0].context_expr, reader)


def read_region(node: ast.With, call: ast.expr, reader: Reader) -> Region:
    """Return the body of a `with` in the regions of its call of `horizontal`."""
    place = reader.place(call)
    if not isinstance(call, ast.Call) or not call.args or call.keywords:
        raise fault(SyntaxRuleError, place, "regions", "'horizontal' takes regions.", _REGION)
    areas = tuple(_area(one, reader) for one in call.args)
    for inner in (inner for statement in node.body for inner in ast.walk(statement)):
        if isinstance(inner, ast.With):
            message = "Regions cannot be nested."
            hint = "Write both bounds in one region."
            raise fault(SyntaxRuleError, reader.place(inner), "regions", message, hint)
    body = read_steps(node.body, reader)
    if not body:
        message = "This region has no statement."
        raise fault(SyntaxRuleError, reader.place(node), "regions", message, "Remove it.")
    return Region(areas, body, reader.place(node))


def _area(node: ast.expr, reader: Reader) -> Area:
    place = reader.place(node)
    match node:
        case ast.Subscript(ast.Name() | ast.Attribute() as base, ast.Tuple([i, j])):
            if reader.dotted(base) == "region":
                return Area(_side(i, reader), _side(j, reader), place)
        case _:
            pass
    message = "'horizontal' takes regions with a part of I and one of J."
    raise fault(SyntaxRuleError, place, "regions", message, _REGION)


def _side(node: ast.expr, reader: Reader) -> Side:
    place = reader.place(node)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        message = "The points of a region are a slice of 'region', not of an axis."
        hint = "Write for example 'region[I[0] : I[0] + 3, :]'."
        raise fault(SyntaxRuleError, place, "regions", message, hint)
    if not isinstance(node, ast.Slice):
        return Side(reader.term(node), None, True, place)
    if node.step is not None:
        message = "The points of a region follow each other: it takes no step."
        raise fault(SyntaxRuleError, place, "regions", message, _REGION)
    low, high = (None if each is None else reader.term(each) for each in (node.lower, node.upper))
    return Side(low, high, False, place)


def _bad_with(node: ast.With, reader: Reader) -> SyntaxRuleError:
    place, names = reader.place(node), with_names(node, reader)
    if "horizontal" in names:
        message = "'horizontal' stands alone in its 'with'."
        return fault(SyntaxRuleError, place, "regions", message, _REGION)
    if "interval" in names or "computation" in names:
        message = "'with computation' and 'with interval' cannot be nested inside a body."
        hint = "Begin a new 'with computation(...), interval(...)' after it."
        return fault(SyntaxRuleError, place, "computations", message, hint)
    message = "This 'with' cannot stand here."
    hint = _REGION if "region" in ast.unparse(node.items[0]) else "Remove it."
    return fault(SyntaxRuleError, place, "statements", message, hint)
