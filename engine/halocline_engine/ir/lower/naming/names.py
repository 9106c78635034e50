"""Meaning of the names in a text: constants, externals, functions, types of the caller."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType
from typing import Any, cast

import numpy as np

from halocline_engine.errors import (
    ArgumentError,
    NameRuleError,
    ProgramError,
    SyntaxRuleError,
)
from halocline_engine.ir.lower.naming.aliases import ndsl_numbers
from halocline_engine.ir.lower.naming.elsewhere import hint_of_constant
from halocline_engine.ir.lower.naming.fold import CASTS, Value, dtype_name, fold
from halocline_engine.ir.lower.naming.given import given_type, given_types
from halocline_engine.ir.lower.naming.members import Level, axis_of, level_of, member_of
from halocline_engine.ir.types import Axis, DType
from halocline_engine.language.python.sources import check_external
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import (
    Binding,
    Broken,
    Definition,
    Function,
    Literal,
    Name,
    Pack,
    Stencil,
    Syntax,
    Term,
    Text,
)

__all__ = ["MissingExternal", "Names", "literal", "make_names", "nearest", "not_passed", "starred"]

#: Names longer than this are not compared: the time grows with the product of their lengths.
_LONGEST = 64
#: Where there are more names than this, none is suggested.
_MOST = 2_000
_KNOWN: Mapping[str, float] = {
    f"{module}.{name}": value
    for module in ("np", "math")
    for name, value in (("pi", math.pi), ("e", math.e))
}


class MissingExternal(ArgumentError):
    """The program imports an external, and no value was given for it."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one text, with what the caller gave for externals and types."""

    definitions: Mapping[str, Definition]
    externals: Mapping[str, object]
    dtypes: Mapping[str, DType]
    integer: DType
    floating: DType
    foreign: frozenset[str] = frozenset()
    casts: Mapping[str, str] = field(default_factory=lambda: CASTS)
    known: dict[str, Value] = field(default_factory=dict[str, "Value"])
    renamed: dict[object, str] = field(default_factory=dict[object, str])

    def unknown(
        self, name: str, place: Place, known: Iterable[str], otherwise: str
    ) -> NameRuleError:
        """Return the error for a name that nothing defines; `known` are other names it may be."""
        if self.is_of_module(name):
            return not_passed({name: place})
        message = f"The name '{name}' is unknown."
        hint = hint_of_constant(name) or nearest(name, [*known, *self.all()])
        hint = hint or starred(self.foreign) or otherwise
        return fault(NameRuleError, place, "names", message, hint)

    def constant(self, name: str, imports: frozenset[str], place: Place) -> Value | Level | None:
        """Return a constant or an axis index, or None where the name is neither.

        `imports` are the externals that the definition at hand imports. Raises where the name is
        a definition that is broken or no constant.
        """
        return self._constant(name, imports, place, ())

    def folded(self, term: Term) -> Value:
        """Return the value of an expression of constants of the text."""
        return fold(term, lambda inner: self._value(inner, ()), self.casts)

    def function(self, name: str, imports: frozenset[str], place: Place) -> Function | None:
        """Return a function of the text, or one that is given as an external, or None."""
        defined = self.definitions.get(name)
        if name in self.casts and name not in imports and isinstance(defined, Binding | None):
            return None
        if self._is_external(name, imports):
            given = _given(self.externals, name)
            target = _function_name(given, self.renamed)
            if target is None:
                message = f"The external '{name}' is called, but it is not a function."
                hint = "Give the name of a function of the text: {'function': name}."
                raise ArgumentError(message, hint=hint)
            name = target
            if name not in self.definitions:
                message = f"The external function '{name}' is not defined in the program's text."
                raise ArgumentError(message, hint="Put its definition into the text.")
        elif self.is_of_module(name):
            # The module is not read, but what the call names there may stand in this text.
            name = name.rpartition(".")[2]
        match self.definitions.get(name):
            case Function() as found:
                return found
            case Broken(error=error):
                raise copy(error)
            case Stencil():
                message = f"'{name}' is a stencil, and only functions can be called."
                hint = "Move the shared part into a function."
                raise fault(SyntaxRuleError, place, "calls", message, hint)
            case Binding():
                message = f"'{name}' is a constant, and only functions can be called."
                raise fault(SyntaxRuleError, place, "calls", message, "Write '*' for a product.")
            case None:
                return None

    def _is_external(self, name: str, imports: frozenset[str]) -> bool:
        """Whether a name is imported from the externals, or from elsewhere and given as one."""
        head = name.partition(".")[0]
        if head in imports or head not in self.externals:
            return head in imports
        own = head in self.definitions or name in _KNOWN
        return head in self.foreign or ("*" in self.foreign and not own)

    def all(self) -> list[str]:
        """Return the names that the text defines, for suggestions."""
        return list(self.definitions)

    def _constant(
        self, name: str, imports: frozenset[str], place: Place, trail: tuple[str, ...]
    ) -> Value | Level | None:
        if self._is_external(name, imports):
            return _constant_of(name, _given(self.externals, name))
        head = name.partition(".")[0]
        is_given = head in self.externals and head in self.definitions
        try:
            found = self._of_text(name, place, trail)
        except ProgramError:
            if not is_given:
                raise
            found = None
        if found is None and is_given:
            # What the text does not say is given, like what a function of its own would compute.
            return _constant_of(name, _given(self.externals, name))
        return found

    def _of_text(self, name: str, place: Place, trail: tuple[str, ...]) -> Value | Level | None:
        match self.definitions.get(name):
            case Binding(term=Text() | Pack()) | Broken() as found:
                message = f"The constant '{name}' cannot be used: it is not a number."
                hint = f"It is defined on line {found.place.line}; constants are numbers and bools."
                if isinstance(found, Broken) and (found.callable or found.error.rule == "names"):
                    raise copy(found.error)
                raise fault(SyntaxRuleError, place, "constants", message, hint)
            case Binding(term=term) if (level := level_of(term)) is not None:
                return level
            case Binding(term=term):
                if name in trail:
                    message = f"The constant '{name}' is defined in terms of itself."
                    raise fault(NameRuleError, place, "constants", message, "Give it a number.")
                return self._folded_as(name, term, trail)
            case Function() | Stencil() as found:
                kind = "function" if isinstance(found, Function) else "stencil"
                message = f"'{name}' is a {kind} and has no value."
                hint = f"Call it: '{name}(...)'." if isinstance(found, Function) else "Remove it."
                raise fault(SyntaxRuleError, place, "names", message, hint)
            case None:
                member = member_of(self.definitions, name, place)
                if member is None or name in trail:
                    return _KNOWN.get(name)
                return self._folded_as(name, member, trail)

    def _folded_as(self, name: str, term: Term, trail: tuple[str, ...]) -> Value:
        """Return the value of a constant, which is computed once."""
        if name not in self.known:
            value = fold(term, lambda inner: self._value(inner, (*trail, name)), self.casts)
            self.known[name] = value
        return self.known[name]

    def is_of_module(self, name: str) -> bool:
        """Whether a name is imported from a module that is not read."""
        return name.partition(".")[0] in self.foreign

    def is_brought(self, name: str) -> bool:
        """Whether a module that is not read may define a name."""
        return "*" in self.foreign or self.is_of_module(name)

    def type_of_module(self, name: str) -> Binding | DType | None:
        """Return a type that is an attribute of an external, as in `types.Tracers`, or None."""
        if "." not in name or not self._is_external(name, frozenset()):
            return None
        return given_type(name, _given(self.externals, name))

    def axis(self, name: str, imports: frozenset[str]) -> Axis | None:
        """Return the axis that an external is, as in `q[AXIS - 1]`, or None."""
        return axis_of(_given(self.externals, name)) if self._is_external(name, imports) else None

    def _value(self, name: Name, trail: tuple[str, ...]) -> Value:
        value = self._constant(name.name, frozenset(), name.place, trail)
        if value is None and self.is_brought(name.name):
            raise self.unknown(name.name, name.place, (), "")
        if value is None or isinstance(value, Level):
            message = f"The name '{name.name}' is not a constant of the text."
            hint = nearest(name.name, self.all()) or "Define it before, as a number."
            raise fault(NameRuleError, name.place, "constants", message, hint)
        return value


def make_names(
    syntax: Syntax,
    externals: Mapping[str, object],
    dtypes: Mapping[str, object],
    literal_int: int,
    literal_float: int,
) -> Names:
    """Return the names of a text; the precisions of literals are 32 or 64 bits."""
    for argument, bits in (("literal_int", literal_int), ("literal_float", literal_float)):
        if bits not in (32, 64):
            raise ArgumentError(f"'{argument}' must be 32 or 64, but got {bits}.")
    own = {definition.name: definition for definition in syntax.definitions}
    brought = syntax.foreign if "*" not in syntax.foreign else externals.keys() - own.keys()
    imported = {name: externals[name] for name in externals.keys() & brought}
    fields, numbers = given_types(dtypes, imported)
    return Names(
        own | fields,
        externals,
        numbers,
        DType(f"int{literal_int}"),
        DType(f"float{literal_float}"),
        syntax.foreign,
        _casts(syntax, numbers),
    )


def _casts(syntax: Syntax, numbers: Mapping[str, DType]) -> Mapping[str, str]:
    """Return the calls that convert by what they convert to: names of types of numbers are some."""
    casts = {**ndsl_numbers(syntax.foreign), **CASTS}
    casts |= {name: dtype.value for name, dtype in numbers.items() if name not in CASTS}
    for definition in syntax.definitions:
        if isinstance(definition, Binding) and isinstance(definition.term, Name):
            known = casts.get(definition.term.name)
            if known is not None:
                casts[definition.name] = known
    return casts


def literal(value: Value, place: Place) -> Literal:
    """Return a constant as a literal that stands at a place."""
    plain = value.item() if isinstance(value, np.generic) else value
    return Literal(plain, place, dtype_name(value))


def not_passed(names: Mapping[str, Place]) -> NameRuleError:
    """Return the error for names of modules that a program needs, at the first one's place.

    >>> error = not_passed({"ppm.p1": Place(1, 1), "ppm.p2": Place(2, 1), "G": Place(3, 1)})
    >>> print(error.hint)
    Pass externals={'ppm': {'p1': ..., 'p2': ...}, 'G': ...} ('ppm' may be the module itself), or \
define them in the text.
    """
    given: dict[str, Any] = {}
    for name in names:
        inner = given
        *modules, last = name.split(".")
        for module in modules:
            if inner.get(module, ...) is ...:
                inner[module] = {}
            inner = inner[module]
        inner.setdefault(last, ...)
    first, place = next(iter(names.items()))
    modules = [f"'{name}'" for name, value in given.items() if value is not ...]
    itself = f" ({' and '.join(modules)} may be the module itself)" if modules else ""
    message = f"'{first}' is imported from a module, and modules are not read."
    hint = (
        f"Pass externals={str(given).replace('Ellipsis', '...')}{itself}, or define"
        f" {'it' if len(names) == 1 else 'them'} in the text."
    )
    return fault(NameRuleError, place, "names", message, hint)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the name that was probably meant, or ""; long names are not compared."""
    short = sorted({each for each in known if len(each) <= _LONGEST})
    if len(name) > _LONGEST or len(short) > _MOST:
        return ""
    close = difflib.get_close_matches(name, short, 1)
    return f"Did you mean '{close[0]}'?" if close else ""


def starred(foreign: frozenset[str]) -> str:
    """Return a hint where a module that is not read may bring names that the text does not list."""
    return "If an 'import *' brings it, pass its value in 'externals'." if "*" in foreign else ""


def _given(externals: Mapping[str, object], name: str) -> object:
    """Return what a caller gave for an external, or for an attribute of one."""
    head, *rest = name.split(".")
    if head not in externals:
        message = f"The program imports the external '{head}', but no value was given for it."
        hint = nearest(head, externals) or f"Pass externals={{'{head}': ...}}."
        raise MissingExternal(message, hint=hint)
    value = externals[head]
    check_external(head, value)
    for part in rest:
        if isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(part)
        elif part.startswith("_"):
            value = None
        else:
            value = _attribute(value, part)
        if value is None:
            message = f"The program reads '{name}', but the external '{head}' has no '{part}'."
            raise ArgumentError(message, hint="Pass an object or a mapping that has it.")
    return value


def _attribute(value: object, name: str) -> object:
    """Return an attribute of an external, or None where it has none that can be read."""
    try:
        return getattr(value, name, None)
    except Exception:  # it is code of the user
        return None


def _function_name(value: object, renamed: Mapping[object, str] | None = None) -> str | None:
    """Return the name of a function given as an external: {'function': name}, or a function."""
    if isinstance(value, Mapping):
        name = cast("Mapping[str, object]", value).get("function")
        return name if isinstance(name, str) else None
    if callable(value):
        function = inspect.unwrap(value)
        if renamed and isinstance(function, FunctionType) and function in renamed:
            return renamed[function]
        found = getattr(value, "__name__", None)
        return found if isinstance(found, str) else None
    return None


def _constant_of(name: str, given: object) -> Value | Level:
    """Return what an external is worth that is used as a number."""
    value = _as_constant(given)
    if value is None:
        kind = "a function" if _function_name(given) else f"of type '{type(given).__name__}'"
        message = f"The external '{name}' is used as a number, but it is {kind}."
        raise ArgumentError(message, hint="Give a number, a bool or an axis index.")
    if isinstance(value, float) and not math.isfinite(value):
        message = f"The external '{name}' must be finite, but it is {value}."
        raise ArgumentError(message, hint="Pass a finite number.")
    return value


def _as_constant(value: object) -> Value | Level | None:
    """Return what an external is worth, or None where it is no constant."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, np.ndarray):
        value = cast("object", value[()] if value.ndim == 0 else None)
    if isinstance(value, np.generic):
        scalar = cast("np.generic[Any]", value)
        return scalar if scalar.dtype.name in tuple(DType) else None
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        given = cast("Mapping[str, object]", value)
        axis, index, offset = given.get("axis"), given.get("index"), given.get("offset", 0)
    else:
        axis, index = _attribute(value, "axis"), _attribute(value, "index")
        axis, offset = getattr(axis, "name", axis), _attribute(value, "offset") or 0
    if axis in tuple(Axis) and isinstance(index, int) and isinstance(offset, int):
        return Level(Axis(axis), index, offset)
    return None
