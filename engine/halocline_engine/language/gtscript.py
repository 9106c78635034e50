"""GT4Py's stencil language as text: `parse` reads it with Python's parser and executes nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from halocline_engine.errors import NameRuleError, ProgramError, SyntaxRuleError
from halocline_engine.language.definitions import read_definition
from halocline_engine.language.imports import foreign_names, imported_names
from halocline_engine.language.limits import LIMITS, Limits, check_text, check_tree, python_tree
from halocline_engine.language.source import START, fault, locate
from halocline_engine.language.syntax import (
    Binding,
    Broken,
    Definition,
    Function,
    Name,
    Pack,
    Stencil,
    Syntax,
    Term,
    Text,
)
from halocline_engine.language.terms import Reader

__all__ = ["parse", "read_type_text"]

_DEEP = "Use temporaries for parts of it."


def parse(text: str, *, limits: Limits = LIMITS) -> Syntax:
    """Read a program's text: imports, types, constants, functions and stencils.

    A definition that breaks a rule does not stop the others from being used; its error is raised
    where it is needed. Raises ProgramError, with line, column and excerpt.
    """
    try:
        return _parse(text.replace("\r\n", "\n").replace("\r", "\n"), limits)
    except ProgramError as error:
        raise locate(error, text) from None


def read_type_text(text: str, *, limits: Limits = LIMITS) -> Term:
    """Read a type that stands alone: `Field[IJ, np.float64]`, or `(np.float64, (3,))`."""
    check_text(text, limits)
    match python_tree(text, _DEEP).body:
        case [ast.Expr(value)]:
            reader = Reader(tuple(text.split("\n")), imported_names(ast.Module([], [])))
            return _value(value, reader)
        case _:
            raise fault(SyntaxRuleError, START, "types", "This is not a type.", "Write one type.")


def _parse(text: str, limits: Limits) -> Syntax:
    try:
        check_text(text, limits)
    except SyntaxRuleError as error:
        if error.rule == "python":
            python_tree(text, _DEEP)  # where tokens are wrong, the parser says it better
        raise
    tree = python_tree(text, _DEEP)
    check_tree(tree, limits)
    return _module(tree, text, limits)


def _module(tree: ast.Module, text: str, limits: Limits) -> Syntax:
    lines = tuple(text.split("\n"))
    reader = Reader(lines, imported_names(tree))
    found = _by_name(one for node in tree.body for one in _top(node, reader))
    if not any(_holds(definition, "stencil", Stencil) for definition in found.values()):
        # A test or a class of a model has its stencils inside.
        found = _by_name(one for node in tree.body for one in _inside(node, reader)) | found
    return Syntax(text, limits, tuple(found.values()), frozenset(foreign_names(tree)))


def _by_name(definitions: Iterable[Definition]) -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for definition in definitions:
        before = found.get(definition.name)
        found[definition.name] = definition if before is None else _twice(definition, before)
    return found


def _inside(node: ast.stmt, reader: Reader) -> Iterator[Definition]:
    """Yield what functions and classes of the module define inside, however deep."""
    match node:
        case ast.FunctionDef(body=body) | ast.ClassDef(body=body):
            for inner in body:
                if isinstance(inner, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign):
                    yield from _top(inner, reader)
                yield from _inside(inner, reader)
        case _:
            return


def _twice(definition: Definition, before: Definition) -> Broken:
    """Return what a name is that is defined twice: an error where it is used."""
    name, place = definition.name, definition.place
    message = f"The name '{name}' is defined twice."
    hint = f"Its first definition is on line {before.place.line}."
    both = (before, definition)
    return Broken(
        name,
        any(_holds(each, "callable", Function, Stencil) for each in both),
        any(_holds(each, "stencil", Stencil) for each in both),
        fault(NameRuleError, place, "names", message, hint),
        place,
    )


def _holds(definition: Definition, attribute: str, *kinds: type) -> bool:
    """Say whether a definition is of some kinds, or would be if it broke no rule."""
    return isinstance(definition, kinds) or bool(getattr(definition, attribute, False))


def _top(node: ast.stmt, reader: Reader, prefix: str = "") -> Iterator[Definition]:
    """Yield what one statement of the module, or of a class in it, defines."""
    match node:
        case ast.Import() | ast.ImportFrom():
            return
        case ast.FunctionDef():
            if not prefix:
                yield read_definition(node, reader)
        case ast.ClassDef(name, bases, body=body):
            place, full = reader.place(node), prefix + name
            named = [_base(base) for base in bases]
            if "IntEnum" in named or "enum.IntEnum" in named:
                yield Binding(full, Name("int", place), place)
            elif any(named):
                # What the class does not have itself, its first base has.
                yield Binding(full, Name(next(filter(None, named)), place), place)
            for inner in body:
                if isinstance(inner, ast.Assign | ast.AnnAssign | ast.ClassDef):
                    yield from _top(inner, reader, f"{full}.")
            yield from _of_objects(node, full, reader)
        case _:
            yield from _binding(node, prefix, reader)


def _of_objects(node: ast.ClassDef, name: str, reader: Reader) -> Iterator[Definition]:
    """Yield the fields of a class as `name().`, and `name().x` where code sets an attribute `x`."""
    place = reader.place(node)
    fields = [
        Text(one.target.id, place)
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]
    if fields:
        yield Binding(f"{name}().", Pack(tuple(fields), place), place)
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
    inner = [each for one in methods for each in ast.walk(one)]
    set_there = {
        each.attr
        for each in inner
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
    }
    for attribute in sorted(set_there):
        message = f"The attribute '{attribute}' of '{name}' is set by code, which is not executed."
        hint = "Give the object in 'externals', or make the attribute a constant of the class."
        error = fault(NameRuleError, place, "names", message, hint)
        yield Broken(f"{name}().{attribute}", False, False, error, place)


def _is_computed(item: ast.withitem) -> bool:
    """Whether a block belongs to a stencil; other blocks are the module's own."""
    match item.context_expr:
        case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name)):
            return name in ("computation", "interval", "horizontal")
        case _:
            return False


def _base(node: ast.expr) -> str:
    """Return the name of a class that another has as a base, "" for what is no name."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(ast.Name(module), name):
            return f"{module}.{name}"
        case _:
            return ""


def _binding(node: ast.stmt, prefix: str, reader: Reader) -> Iterator[Definition]:
    match node:
        case ast.Assign(targets, value):
            for target in targets:
                yield from _bound(target, value, prefix, reader)
        case ast.AnnAssign(target, value=ast.expr() as value):
            yield from _bound(target, value, prefix, reader)
        case ast.With(items=items) if not any(_is_computed(item) for item in items):
            return
        case ast.With() | ast.Return() | ast.AugAssign():
            message = "This statement cannot stand at the top of a program: nothing is executed."
            hint = "Only imports, types, constants, functions and stencils may stand there."
            raise fault(SyntaxRuleError, reader.place(node), "module", message, hint)
        case _:
            return  # A module does that when it is executed, which a program is not.


def _bound(target: ast.expr, value: ast.expr, prefix: str, reader: Reader) -> Iterator[Definition]:
    """Yield what an assignment gives names: `a = 1`, or `a, b = 1, 2`."""
    place = reader.place(target)
    match target, value:
        case ast.Name("__all__"), _:
            return
        case ast.Name(name), _:
            try:
                yield Binding(prefix + name, _value(value, reader), place)
            except ProgramError as error:
                yield Broken(prefix + name, False, False, error, place)
        case ast.Tuple(names), ast.Tuple(values) if len(names) == len(values):
            for inner, each in zip(names, values, strict=True):
                yield from _bound(inner, each, prefix, reader)
        case _:
            return


def _value(node: ast.expr, reader: Reader) -> Term:
    """Return what a constant says; the default of a dataclass's `field(...)` is its value."""
    match node:
        case ast.Tuple(items):
            return Pack(tuple(_value(item, reader) for item in items), reader.place(node))
        case ast.Call(ast.Name("field") | ast.Attribute(attr="field"), [], keywords):
            defaults = [one.value for one in keywords if one.arg == "default"]
            return reader.term(defaults[0] if defaults else node)
        case _:
            return reader.term(node)
