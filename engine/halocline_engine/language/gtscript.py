"""GT4Py's stencil language as text: `parse` reads it with Python's parser and executes nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from halocline_engine.errors import LimitError, NameRuleError, ProgramError, SyntaxRuleError
from halocline_engine.language.definitions import read_definition
from halocline_engine.language.limits import LIMITS, Limits, check_text, check_tree, not_python
from halocline_engine.language.source import START, Place, fault, locate
from halocline_engine.language.syntax import Binding, Broken, Definition, Name, Syntax, Term
from halocline_engine.language.terms import Reader

__all__ = ["parse", "read_type_text"]

_MODULES = (
    "gt4py",
    "halocline",
    "numpy",
    "typing",
    "typing_extensions",
    "__future__",
    "__gtscript__",
)

#: What modules of GT4Py and NumPy are called inside the language.
_PREFIXES = {
    "gt4py": "gt4py",
    "gt4py.cartesian": "gt4py.cartesian",
    "gt4py.cartesian.gtscript": "",
    "gt4py.gtscript": "",
    "halocline.gtscript": "",
    "ndsl.dsl.gt4py": "",
    "numpy": "np",
}


#: Names that the language had once.
_RENAMED = {"THIS_K": "K"}


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
    """Read a type that stands alone, like `Field[IJ, np.float64]`."""
    check_text(text, limits)
    match _tree(text).body:
        case [ast.Expr(value)]:
            return Reader(tuple(text.split("\n")), _aliases(ast.Module([], []))).term(value)
        case _:
            raise fault(SyntaxRuleError, START, "types", "This is not a type.", "Write one type.")


def _parse(text: str, limits: Limits) -> Syntax:
    try:
        check_text(text, limits)
    except SyntaxRuleError as error:
        if error.rule == "python":
            _tree(text)  # where tokens are wrong, the parser says it better
        raise
    tree = _tree(text)
    check_tree(tree, limits)
    return _module(tree, text, limits)


def _tree(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        place = Place(max(error.lineno or 1, 1), max(error.offset or 1, 1))
        raise not_python(error.msg, place) from error
    except (RecursionError, MemoryError) as error:
        message = "The program is nested too deeply for Python's parser."
        hint = "Use temporaries for parts of it."
        raise fault(LimitError, START, "limits", message, hint) from error
    except ValueError as error:
        raise not_python(str(error), START) from error


def _module(tree: ast.Module, text: str, limits: Limits) -> Syntax:
    lines = tuple(text.split("\n"))
    reader = Reader(lines, _aliases(tree))
    found: dict[str, Definition] = {}
    for node in tree.body:
        for definition in _top(node, reader):
            if definition.name in found:
                message = f"The name '{definition.name}' is defined twice."
                hint = f"Its first definition is on line {found[definition.name].place.line}."
                raise fault(NameRuleError, definition.place, "names", message, hint)
            found[definition.name] = definition
    return Syntax(text, limits, tuple(found.values()), frozenset(_foreign(tree)))


def _foreign(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a text imports from modules which are not read."""
    for node in tree.body:
        match node:
            case ast.Import(names):
                for alias in names:
                    if not _is_known(alias.name):
                        yield alias.asname or alias.name.partition(".")[0]
            case ast.ImportFrom(module, names):
                if not _is_known(module or ""):
                    yield from (alias.asname or alias.name for alias in names)
            case _:
                pass


def _is_known(module: str) -> bool:
    return module in _PREFIXES or module.partition(".")[0] in _MODULES


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Return what imported names stand for, `gtscript` and `numpy` also without an import."""
    aliases = {"gtscript": "", "numpy": "np", "THIS_K": "K"}
    for node in tree.body:
        match node:
            case ast.Import(names):
                for alias in names:
                    if alias.asname and _is_known(alias.name):
                        aliases[alias.asname] = _PREFIXES.get(alias.name, alias.name)
            case ast.ImportFrom(module, names):
                for alias in names:
                    aliases |= _imported(module or "", alias)
            case _:
                pass
    return aliases


def _imported(module: str, alias: ast.alias) -> dict[str, str]:
    """Return what one name of a `from ... import` stands for."""
    prefix = _PREFIXES.get(module)
    full = f"{module}.{alias.name}"
    if full in _PREFIXES:
        return {alias.asname or alias.name: _PREFIXES[full]}
    if prefix is None or alias.name == "*":
        return {}
    name = f"{prefix}.{alias.name}" if prefix else _RENAMED.get(alias.name, alias.name)
    return {alias.asname or alias.name: name}


def _top(node: ast.stmt, reader: Reader) -> Iterator[Definition]:
    """Yield what one statement of the module defines."""
    match node:
        case ast.Import() | ast.ImportFrom():
            return
        case ast.FunctionDef():
            yield read_definition(node, reader)
        case ast.ClassDef(name, body=body):
            if _is_enumeration(node):
                place = reader.place(node)
                yield Binding(name, Name("int", place), place)
            for inner in body:
                if isinstance(inner, ast.Assign | ast.AnnAssign):
                    yield from _binding(inner, f"{name}.", reader)
        case _:
            yield from _binding(node, "", reader)


def _is_enumeration(node: ast.ClassDef) -> bool:
    """Say whether a class is one of whole numbers by name, which is a type as well."""
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
    bases += [base.attr for base in node.bases if isinstance(base, ast.Attribute)]
    return "IntEnum" in bases


def _binding(node: ast.stmt, prefix: str, reader: Reader) -> Iterator[Definition]:
    place = reader.place(node)
    match node:
        case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(
            ast.Name(name), value=ast.expr() as value
        ):
            if name == "__all__":
                return
            try:
                yield Binding(prefix + name, reader.term(value), place)
            except ProgramError as error:
                yield Broken(prefix + name, False, False, error, place)
        case ast.With() | ast.Return() | ast.AugAssign():
            message = "This statement cannot stand at the top of a program: nothing is executed."
            hint = "Only imports, types, constants, functions and stencils may stand there."
            raise fault(SyntaxRuleError, place, "module", message, hint)
        case _:
            return  # A module does that when it is executed, which a program is not.
