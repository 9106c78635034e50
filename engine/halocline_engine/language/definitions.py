"""Definitions: a `def` is a stencil where it holds a computation, and a function otherwise."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from halocline_engine.errors import NameRuleError, ProgramError, SyntaxRuleError
from halocline_engine.language.faults import Faults
from halocline_engine.language.imports import is_externals
from halocline_engine.language.source import fault, no_return
from halocline_engine.language.statements import (
    is_ignored,
    read_choices,
    read_condition,
    read_region,
    read_steps,
    with_names,
)
from halocline_engine.language.syntax import (
    Apply,
    Argument,
    Broken,
    Demand,
    Function,
    Import,
    Name,
    Prefix,
    Section,
    Stencil,
    Step,
    Sweep,
    Term,
)
from halocline_engine.language.terms import Reader

__all__ = ["read_definition"]

_FORM = "Write 'with computation(PARALLEL), interval(...):'."


def read_definition(node: ast.FunctionDef, reader: Reader) -> Stencil | Function | Broken:
    """Return what a `def` says; decorators are ignored."""
    stencil = _is_stencil(node, reader)
    annotations, reader = reader, reader.without(_own_names(node))
    try:
        arguments = tuple(_arguments(node.args, annotations))
        _check_twice(arguments)
        body, externals = _without_imports(node.body, reader)
        if stencil:
            return _stencil(node, arguments, externals, body, reader)
        return _function(node, arguments, externals, body, reader)
    except ProgramError as error:
        return Broken(node.name, True, stencil, error, reader.place(node))


def _own_names(node: ast.FunctionDef) -> frozenset[str]:
    """Return the parameters and what the body assigns to."""
    inner = (n for statement in node.body for n in ast.walk(statement))
    assigned = {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    arguments = {n.arg for n in ast.walk(node.args) if isinstance(n, ast.arg)}
    return frozenset(assigned | arguments)


def _is_stencil(node: ast.FunctionDef, reader: Reader) -> bool:
    for decorator in node.decorator_list:
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(call, ast.Name | ast.Attribute):
            name = call.id if isinstance(call, ast.Name) else call.attr
            if name in ("stencil", "lazy_stencil"):
                return True
    heads = {"computation", "interval"}
    return any(heads & set(with_names(one, reader)) for one in _withs(node.body))


def _withs(body: Sequence[ast.stmt]) -> Iterator[ast.With]:
    """Yield the `with` statements of a body and of its branches."""
    for node in body:
        if isinstance(node, ast.With):
            yield node
        elif isinstance(node, ast.If):
            yield from _withs([*node.body, *node.orelse])


def _arguments(node: ast.arguments, reader: Reader) -> Iterator[Argument]:
    for extra, stars in ((node.vararg, "*"), (node.kwarg, "**")):
        if extra is not None:
            message = f"The parameter '{stars}{extra.arg}' is not allowed."
            hint = "Name each parameter."
            raise fault(SyntaxRuleError, reader.place(extra), "parameters", message, hint)
    plain = [*node.posonlyargs, *node.args]
    missing: list[ast.expr | None] = [None] * (len(plain) - len(node.defaults))
    for argument, default in zip(plain, [*missing, *node.defaults], strict=True):
        yield _argument(argument, default, False, reader)
    for argument, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
        yield _argument(argument, default, True, reader)


def _argument(
    node: ast.arg, default: ast.expr | None, keyword_only: bool, reader: Reader
) -> Argument:
    return Argument(
        node.arg,
        None if node.annotation is None else reader.term(node.annotation),
        None if default is None else reader.term(default),
        keyword_only,
        reader.place(node),
    )


def _check_twice(arguments: Sequence[Argument]) -> None:
    seen: set[str] = set()
    for argument in arguments:
        if argument.name in seen:
            message = f"The parameter '{argument.name}' is given twice."
            raise fault(NameRuleError, argument.place, "names", message, "Rename one of them.")
        seen.add(argument.name)


def _without_imports(
    body: Sequence[ast.stmt], reader: Reader
) -> tuple[list[ast.stmt], tuple[Import, ...]]:
    """Return the body without imports and docstrings, and the externals imported anywhere in it."""
    inner = (node for statement in body for node in ast.walk(statement))
    imports = [n for n in inner if isinstance(n, ast.ImportFrom) and is_externals(n)]
    externals: list[Import] = []
    for alias in (alias for node in imports for alias in node.names):
        if alias.asname or alias.name == "*":
            message = "An external is imported by its own name."
            hint = "Write 'from __externals__ import name'."
            raise fault(SyntaxRuleError, reader.place(alias), "externals", message, hint)
        externals.append(Import(alias.name, reader.place(alias)))
    return [node for node in body if not is_ignored(node)], tuple(externals)


def _function(
    node: ast.FunctionDef,
    arguments: tuple[Argument, ...],
    externals: tuple[Import, ...],
    body: list[ast.stmt],
    reader: Reader,
) -> Function:
    place = reader.place(node)
    returns = _returns(body)
    if len(returns) != 1 or returns[0].value is None or not _is_last(returns[0], body):
        raise no_return(node.name, reader.place(returns[0]) if returns else place)
    (last,), value = returns, returns[0].value
    values = value.elts if isinstance(value, ast.Tuple) else [value]
    return Function(
        node.name,
        arguments,
        externals,
        _steps_to(last, body, reader),
        tuple(reader.term(one) for one in values),
        reader.place(last),
        place,
    )


def _returns(body: Sequence[ast.stmt]) -> list[ast.Return]:
    return [n for statement in body for n in ast.walk(statement) if isinstance(n, ast.Return)]


def _is_last(last: ast.Return, body: Sequence[ast.stmt]) -> bool:
    """Say whether a `return` ends a body, or a branch of an `if` that ends it."""
    end = body[-1] if body else None
    if isinstance(end, ast.If):
        return any(_is_last(last, branch) for branch in (end.body, end.orelse))
    return end is last


def _steps_to(last: ast.Return, body: Sequence[ast.stmt], reader: Reader) -> tuple[Step, ...]:
    """Return the statements up to a `return`, with what constants have to choose to get there."""
    *before, end = body
    steps = read_steps(before, reader)
    if not isinstance(end, ast.If):
        return steps
    condition, place = read_condition(end, reader), reader.place(end.test)
    inside, beside = end.body, end.orelse
    if not _is_last(last, inside):
        condition, inside, beside = Prefix("not", condition, place), beside, inside
    read_steps(beside, reader)
    demand = Demand(condition, place, reader.place(last))
    return (*steps, demand, *_steps_to(last, inside, reader))


def _stencil(
    node: ast.FunctionDef,
    arguments: tuple[Argument, ...],
    externals: tuple[Import, ...],
    body: list[ast.stmt],
    reader: Reader,
) -> Stencil:
    place = reader.place(node)
    if not body:
        message = f"The stencil '{node.name}' has no computation."
        raise fault(SyntaxRuleError, place, "computations", message, _FORM)
    faults, sweeps = Faults(), list[Sweep]()
    for statement, conditions in read_choices(body, reader):
        with faults.collecting():
            sweeps.append(replace(_sweep(statement, reader), conditions=conditions))
    faults.raise_found()
    return Stencil(node.name, arguments, externals, tuple(sweeps), place)


def _sweep(node: ast.stmt, reader: Reader) -> Sweep:
    place = reader.place(node)
    if isinstance(node, ast.AnnAssign):
        # Forward, since temporaries over I and J are assigned level by level only.
        everywhere = Apply("interval", (Name("...", place),), (), place)
        section = Section(everywhere, read_steps([node], reader), place)
        return Sweep(Name("FORWARD", place), (section,), place)
    if not isinstance(node, ast.With):
        message = "Only 'with computation(...)' blocks may stand in the body of a stencil."
        if isinstance(node, ast.Return):
            message = "A stencil returns nothing: it gives its results by assigning to its fields."
        hint = "Move this statement into a 'with computation(...), interval(...)' block."
        if isinstance(node, ast.Import | ast.ImportFrom):
            message = "A stencil imports names from '__externals__' only."
            hint = "Remove this import."
        if isinstance(node, ast.If):
            hint = "Write 'if __INLINED(condition):' to choose when the program is compiled."
        raise fault(SyntaxRuleError, place, "computations", message, hint)
    calls = sorted(_calls(node, reader), key=_rank)
    if not calls or calls[0].function != "computation":
        message = "A block of a stencil begins with 'computation', but this one does not."
        raise fault(SyntaxRuleError, place, "computations", message, _FORM)
    order = _order(calls[0])
    if len(calls) == 1:
        return Sweep(order, _sections(node, reader), place)
    region = None
    if calls[-1].function == "horizontal" and len(calls) == 3:
        area = next(
            i
            for i, n in zip(node.items, with_names(node, reader), strict=True)
            if n == calls[-1].function
        )
        region = read_region(node, area.context_expr, reader)
        calls.pop()
    interval = calls[-1]
    if len(calls) > 2 or interval.function != "interval":
        message = f"'{interval.function}' cannot stand in this 'with'."
        raise fault(SyntaxRuleError, interval.place, "computations", message, _FORM)
    body = _body(node, reader) if region is None else (region,)
    section = Section(interval, body, interval.place)
    return Sweep(order, (section,), place)


def _calls(node: ast.With, reader: Reader) -> list[Apply]:
    """Return what is called in a `with`."""
    calls: list[Apply] = []
    for item in node.items:
        call = item.context_expr
        if item.optional_vars is not None or not isinstance(call, ast.Call):
            message = "A 'with' takes 'computation(...)' and 'interval(...)' only."
            raise fault(SyntaxRuleError, reader.place(call), "computations", message, _FORM)
        if with_names(node, reader)[len(calls)] == "horizontal":
            calls.append(Apply("horizontal", (), (), reader.place(call)))
        else:
            calls.append(reader.call(call))
    return calls


def _rank(call: Apply) -> int:
    """Return where a call stands in a `with`, which may have them in any order."""
    known = ("computation", "interval", "horizontal")
    return known.index(call.function) if call.function in known else 1


def _order(call: Apply) -> Term:
    named = [one.value for one in call.keywords if one.name == "order"]
    if not call.arguments and len(named) == len(call.keywords) == 1:
        return named[0]
    if len(call.arguments) != 1 or call.keywords:
        message = f"'computation' takes one order, but got {len(call.arguments)} arguments."
        hint = "Write 'computation(PARALLEL)', 'computation(FORWARD)' or 'computation(BACKWARD)'."
        raise fault(SyntaxRuleError, call.place, "computations", message, hint)
    return call.arguments[0]


def _sections(node: ast.With, reader: Reader) -> tuple[Section, ...]:
    sections: list[Section] = []
    for statement, conditions in read_choices(node.body, reader):
        place = reader.place(statement)
        calls = _calls(statement, reader) if isinstance(statement, ast.With) else []
        if not isinstance(statement, ast.With) or [c.function for c in calls] != ["interval"]:
            message = (
                "A 'with computation(...)' without an interval holds 'with interval(...)' blocks "
                "only."
            )
            hint = "Move this statement into a 'with interval(...)' block."
            raise fault(SyntaxRuleError, place, "computations", message, hint)
        sections.append(Section(calls[0], _body(statement, reader), place, conditions))
    if not sections:
        message = "This computation has no interval."
        raise fault(SyntaxRuleError, reader.place(node), "computations", message, _FORM)
    return tuple(sections)


def _body(node: ast.With, reader: Reader) -> tuple[Step, ...]:
    body = read_steps(node.body, reader)
    if not body:
        message = "This block has no statement."
        raise fault(SyntaxRuleError, reader.place(node), "computations", message, "Remove it.")
    return body
