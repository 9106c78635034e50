"""From text to meaning: a stencil is chosen, its functions are inlined, and everything is typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

from halocline_engine.errors import (
    ArgumentError,
    LimitError,
    NameRuleError,
    ProgramError,
    SyntaxRuleError,
)
from halocline_engine.ir.lower.elements.tables import check_gathers
from halocline_engine.ir.lower.inline import Inliner
from halocline_engine.ir.lower.intervals import bounds_of, check_order, read_interval
from halocline_engine.ir.lower.naming.elsewhere import hint_without_stencil
from halocline_engine.ir.lower.naming.names import (
    MissingExternal,
    Names,
    make_names,
    nearest,
    not_passed,
)
from halocline_engine.ir.lower.naming.scope import Scope, stencil_scope
from halocline_engine.ir.lower.statements.body import Body
from halocline_engine.ir.lower.statements.turns import USUAL_LEVELS, limit_turns
from halocline_engine.ir.lower.symbols import LOOPS, Symbols, check_arrays, make_symbols
from halocline_engine.ir.lower.terms import Terms
from halocline_engine.ir.lower.unread import Unread, calls
from halocline_engine.ir.nodes import (
    Block,
    Computation,
    Field,
    If,
    Program,
    Scratch,
    Statement,
    Temporary,
)
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.language.python.sources import nested_externals
from halocline_engine.language.source import START, fault, locate
from halocline_engine.language.syntax import Branch, Broken, Function, Name, Stencil, Sweep, Syntax
from halocline_engine.program_warning import ProgramWarning

__all__ = ["lower"]


def lower(
    syntax: Syntax,
    *,
    name: str | None = None,
    externals: Mapping[str, object] | None = None,
    dtypes: Mapping[str, object] | None = None,
    literal_int: int = 64,
    literal_float: int = 64,
    renamed: Mapping[object, str] | None = None,
) -> tuple[Program, tuple[ProgramWarning, ...]]:
    """Return the meaning of one stencil of a text, typed and checked, and warnings of its types.

    `name` chooses the stencil where the text holds several. `externals` gives the values that the
    text imports from `__externals__`: numbers, bools, NumPy scalars, axis indices (GT4Py's, or
    `{"axis": "K", "index": -2, "offset": 0}`), functions of the text (`{"function": name}`), and
    mappings or objects whose attributes are such values. `dtypes` gives the types that annotations
    name (`Field["T"]`). `literal_int` and `literal_float` are the bits of numbers in the text.
    `renamed` are functions that the text has under another name than their own.

    Raises ProgramError, with line, column and excerpt, where the text breaks a rule, and
    ArgumentError where an argument does not fit the text.
    """
    names = make_names(
        syntax, nested_externals(externals or {}), dtypes or {}, literal_int, literal_float
    )
    names.renamed.update(renamed or {})
    try:
        stencil = _choose(syntax, name)
    except ProgramError as error:
        raise locate(error, syntax.text) from None
    try:
        return _lower(stencil, names, syntax)
    except MissingExternal as error:
        missing = [*dict.fromkeys(_missing(stencil, names))]
        if len(missing) < 2:
            raise ArgumentError(error.message, hint=error.hint) from None
        listed = ", ".join(f"'{one}'" for one in missing)
        shown = ", ".join(f"'{one}': ..." for one in missing)
        message = f"The program imports the externals {listed}, but no values were given for them."
        raise ArgumentError(message, hint=f"Pass externals={{{shown}}}.") from None
    except ProgramError as error:
        raise locate(error, syntax.text) from None
    except RecursionError as error:
        message = "The program is nested too deeply after its functions are inlined."
        hint = "Use temporaries for parts of it."
        raise fault(LimitError, START, "limits", message, hint) from error


def _missing(stencil: Stencil, names: Names) -> Iterator[str]:
    """Yield the externals without a value that a stencil and the functions it calls import."""
    seen: list[Stencil | Function] = [stencil]
    for definition in seen:
        yield from (one.name for one in definition.externals if one.name not in names.externals)
        for called in calls(definition):
            found = names.definitions.get(called.rpartition(".")[2])
            if isinstance(found, Function) and found not in seen:
                seen.append(found)


def _choose(syntax: Syntax, name: str | None) -> Stencil:
    """Return the stencil that is asked for, or the only one."""
    stencils = {
        definition.name: definition
        for definition in syntax.definitions
        if isinstance(definition, Stencil)
        or (isinstance(definition, Broken) and definition.stencil)
    }
    listed = ", ".join(f"'{each}'" for each in stencils)
    if not stencils:
        places = [d.place for d in syntax.definitions if isinstance(d, Function | Broken)]
        message = "The text holds no stencil: no 'def' has a 'with computation(...)' block."
        hint = hint_without_stencil(syntax.text)
        where = places[-1] if places else START
        raise fault(SyntaxRuleError, where, "computations", message, hint)
    if name is None and len(stencils) > 1:
        message = f"The text holds {len(stencils)} stencils, so one must be chosen: {listed}."
        raise ArgumentError(message, hint="Pass its name as 'stencil_name'.")
    if name is not None and name not in stencils:
        message = f"The text holds no stencil '{name}'; it has {listed}."
        hint = nearest(name, stencils) or "Name one that the text holds, or leave it out."
        raise ArgumentError(message, hint=hint)
    chosen = stencils[name] if name is not None else next(iter(stencils.values()))
    if isinstance(chosen, Broken):
        raise copy(chosen.error)
    return chosen


def _lower(
    stencil: Stencil, names: Names, syntax: Syntax
) -> tuple[Program, tuple[ProgramWarning, ...]]:
    inliner = Inliner(names, syntax.limits)
    symbols = make_symbols(stencil, names, inliner, syntax.limits)
    scope = stencil_scope(stencil)
    arguments = frozenset(argument.name for argument in stencil.arguments)
    faults, computations = Unread(arguments=arguments), list[Computation]()
    for sweep in stencil.sweeps:
        with faults.collecting():
            kept = _kept(sweep, inliner, scope)
            if kept.sections:
                computations.append(_computation(kept, names, symbols, inliner, scope, faults))
    if inliner.not_passed:
        # Numbers stand in the place of these names, so that errors of types may follow from them.
        error = not_passed(inliner.not_passed)
        error.others = tuple(one for one in faults.found if isinstance(one, NameRuleError))
        raise error
    faults.raise_found()
    check_gathers(symbols)
    fields = [
        Field(field, kind.dtype, kind.axes, field in symbols.read, field in symbols.written)
        for field, kind in symbols.fields.items()
    ]
    gathers = tuple(gather for gather, _ in symbols.gathers.values())
    for gather in gathers:
        kind = symbols.fields[gather.field]
        fields.append(Field(gather.name, kind.dtype, kind.axes, read=True, written=False))
    check_arrays(len(fields), stencil, syntax.limits)
    scratch = [Scratch(name) for name in sorted(symbols.scratch)]
    if symbols.loops:
        within = 0 if symbols.endless else USUAL_LEVELS
        scratch.append(Scratch(LOOPS, tuple(symbols.loops), within))
    wide = any(field.dtype is DType.FLOAT64 for field in fields)
    warnings = tuple(w for w in symbols.warnings if wide or w.rule != "float32")
    program = Program(
        stencil.name,
        tuple(argument.name for argument in stencil.arguments),
        tuple(fields),
        tuple(symbols.scalars.values()),
        tuple(
            Temporary(each, dtype)
            for each, dtype in symbols.temporaries.items()
            if each not in symbols.components
        ),
        tuple(computations),
        tuple(symbols.tables.values()),
        gathers,
        tuple(symbols.positions.values()),
        tuple(scratch),
        tuple(symbols.level_limits.values()),
        tuple(one for one in symbols.components.values() if one.name not in symbols.temporaries),
        tuple(symbols.lookups.values()),
    )
    return program, warnings


def _kept(sweep: Sweep, inliner: Inliner, scope: Scope) -> Sweep:
    """Return a computation with the intervals that its conditions leave."""
    there = inliner.holds(sweep.conditions, scope)
    sections = (one for one in sweep.sections if there and inliner.holds(one.conditions, scope))
    return replace(sweep, sections=tuple(sections))


def _computation(
    sweep: Sweep,
    names: Names,
    symbols: Symbols,
    inliner: Inliner,
    scope: Scope,
    faults: Unread,
) -> Computation:
    order = _order(sweep)
    own = (*symbols.fields, *symbols.scalars, *symbols.components)
    arrays = {**symbols.fields, **symbols.components}
    deep = {name for name, array in arrays.items() if Axis.K in array.axes}
    found = [read_interval(one.interval, inliner, scope, own, deep) for one in sweep.sections]
    fixed = [
        (interval, section.place)
        for section, (interval, test) in zip(sweep.sections, found, strict=True)
        if test is None
    ]
    check_order(fixed, order)
    blocks: list[Block] = []
    for section, (interval, test) in zip(sweep.sections, found, strict=True):
        body = Body(Terms(names, symbols, interval), order)
        steps = section.body
        if test is not None:
            steps = (Branch(test, section.body, (), section.place),)
        statements: list[Statement] = []
        before = symbols.written.copy()
        symbols.written.clear()
        for step in steps:
            with faults.of(step):
                statements += body.statements(inliner.body((step,), scope))
        statements = list(limit_turns(statements, symbols))
        changed = {name.partition(".")[0] for name in symbols.written}
        if test is not None and changed.isdisjoint(bounds_of(section.interval)):
            statements = list(_apart(statements))
        symbols.written |= before
        blocks.append(Block(interval, tuple(statements)))
    return Computation(order, tuple(blocks))


def _apart(tested: Sequence[Statement]) -> Iterator[Statement]:
    """Yield the statements that stand in a test with a test each.

    Each has an extent of its own then, as in any other interval.
    """
    for one in tested:
        if isinstance(one, If):
            yield from (If(one.condition, (inner,), (), inner.location) for inner in one.then)
        else:
            yield one


def _order(sweep: Sweep) -> Order:
    term = sweep.order
    if isinstance(term, Name) and term.name in tuple(Order):
        return Order(term.name)
    got = f"'{term.name}'" if isinstance(term, Name) else "something else"
    message = f"The order of a computation is PARALLEL, FORWARD or BACKWARD, but got {got}."
    hint = nearest(term.name, tuple(Order)) if isinstance(term, Name) else ""
    hint = hint or "Write 'computation(PARALLEL)', for example."
    raise fault(SyntaxRuleError, term.place, "computations", message, hint)
