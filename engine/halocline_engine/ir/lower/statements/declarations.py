"""Types of temporaries that a text declares where it assigns them."""

from __future__ import annotations

from halocline_engine.errors import TypeRuleError
from halocline_engine.ir.lower.annotations import FieldType, LookupType, TableType, read_type
from halocline_engine.ir.lower.symbols import Symbols
from halocline_engine.ir.lower.terms import Terms
from halocline_engine.ir.nodes import Components
from halocline_engine.ir.types import Axis
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import Term

__all__ = ["declare"]

_ALL = (Axis.I, Axis.J, Axis.K)
_FLAT = (Axis.I, Axis.J)


def declare(name: str, annotation: Term, place: Place, terms: Terms) -> None:
    """Make a temporary of a type; it may be declared again with the same one."""
    symbols = terms.symbols
    if name in symbols.fields and name not in symbols.scratch:
        message = f"'{name}' is a parameter, so its type cannot be declared here."
        hint = "Declare the type of a temporary at its first assignment."
        raise fault(TypeRuleError, place, "temporaries", message, hint)
    kind = read_type(annotation, terms.names, temporary=True)
    if isinstance(kind, TableType | LookupType):
        message = f"'{name}' is a temporary, and only a parameter can be a table."
        hint = "Make it a parameter of the stencil."
        raise fault(TypeRuleError, annotation.place, "tables", message, hint)
    kind = kind if isinstance(kind, FieldType) else FieldType(kind, _ALL)
    if kind.shape:
        _declare_components(name, kind, place, terms.symbols)
        return
    if kind.axes not in (_ALL, _FLAT):
        message = f"A temporary has all axes, or I and J, but '{name}' has other ones."
        hint = "Make it a parameter of the stencil, or use a temporary with all axes."
        raise fault(TypeRuleError, annotation.place, "temporaries", message, hint)
    dtype = symbols.temporaries.get(name)
    known = symbols.fields.get(name) if dtype is None else FieldType(dtype, _ALL)
    if known is not None and known != kind:
        message = f"'{name}' is {_kind(known)} already, and cannot be {_kind(kind)} here."
        hint = "Declare the type of a temporary at its first assignment."
        raise fault(TypeRuleError, place, "temporaries", message, hint)
    if kind.axes == _ALL:
        symbols.temporaries[name] = kind.dtype
    else:
        symbols.fields[name] = kind
        symbols.scratch.add(name)


def _declare_components(name: str, kind: FieldType, place: Place, symbols: Symbols) -> None:
    """Make a temporary with data dimensions."""
    known = symbols.components.get(name)
    made = Components(name, kind.dtype, kind.axes, kind.shape)
    taken = known is None and name in symbols.temporaries
    if kind.axes != _ALL or taken or known not in (None, made):
        message = f"'{name}' cannot be a temporary with data dimensions here."
        hint = "Declare it once, with all axes: 'name: Field[(np.float64, (3,))] = 0'."
        raise fault(TypeRuleError, place, "temporaries", message, hint)
    symbols.components[name] = made
    symbols.temporaries[name] = kind.dtype


def _kind(kind: FieldType) -> str:
    """Return a type as a message names it."""
    return kind.dtype.value if kind.axes == _ALL else f"Field[IJ, {kind.dtype.value}]"
