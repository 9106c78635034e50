"""Functions are put in the place of their calls, and constants in the place of their names.

After this, a body holds only assignments of one value to one target and branches, and names in it
are those of fields, scalars and temporaries. As in GT4Py, a parameter stands for the caller's name
unless the function assigns it with `=`: so `x *= 2` changes the caller's variable. Any other
argument becomes a temporary, and tuple assignment is sequential. Temporaries of a function are
called `function.n.local`, which no text can spell; `n` counts calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from halocline_engine.errors import LimitError, NameRuleError, SyntaxRuleError
from halocline_engine.ir.lower.calls import (
    check_demand,
    check_one_result,
    check_targets,
    condition_of,
    count_of,
    function_of,
    is_of_module,
)
from halocline_engine.ir.lower.naming.elsewhere import (
    hint_of_attribute,
    hint_of_indices,
)
from halocline_engine.ir.lower.naming.fold import Value, fold
from halocline_engine.ir.lower.naming.members import Level
from halocline_engine.ir.lower.naming.names import Names, literal, nearest
from halocline_engine.ir.lower.naming.scope import (
    AXES,
    CONSTANTS,
    Scope,
    assigned,
    augmented,
    check_imports,
    subscripted,
)
from halocline_engine.ir.lower.regions import inside
from halocline_engine.language.limits import Limits
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import (
    Apply,
    Argument,
    At,
    Branch,
    Choice,
    Condition,
    Demand,
    Function,
    Infix,
    Inside,
    Keyword,
    Literal,
    Loop,
    Name,
    Pack,
    Prefix,
    Region,
    Step,
    Store,
    Subscript,
    Term,
    Text,
    with_operands,
)

__all__ = ["Inliner"]


class Inliner:
    """Inlines the calls of one stencil; it counts them, and what they become."""

    def __init__(self, names: Names, limits: Limits) -> None:
        self._names = names
        self._limits = limits
        self._calls = 0
        self._statements = 0
        self._terms = 0
        self._depth = 0
        self._dead = False
        self.not_passed: dict[str, Place] = {}

    def body(self, steps: Iterable[Step], scope: Scope) -> tuple[Step, ...]:
        """Return statements with all calls inlined, in order."""
        out: list[Step] = []
        for step in steps:
            self._step(step, scope, out)
        return tuple(out)

    def constant(self, term: Term, scope: Scope) -> Value | Level | None:
        """Return the value of a compile-time constant; None stands for `None`."""
        if isinstance(term, Name):
            if term.name == "None":
                return None
            if term.name not in scope.renames and term.name not in AXES:
                found = self._names.constant(term.name, scope.imports, term.place)
                if isinstance(found, Level):
                    return found
        return self._fold(term, scope)

    def holds(self, conditions: Iterable[Condition], scope: Scope) -> bool:
        """Say whether all calls of `__INLINED` are what they must be."""
        return all(bool(self._fold(condition_of(call), scope)) is want for call, want in conditions)

    def _step(self, step: Step, scope: Scope, out: list[Step]) -> None:
        match step:
            case Store():
                self._store(step, scope, out)
            case Demand() if self._dead:
                pass
            case Demand():
                check_demand(step, scope.trail, partial(self._fold, scope=scope))
            case Branch(Apply("__INLINED") as call):
                self._inlined(step, call, scope, out)
            case Branch(condition, then, otherwise, place):
                mask = self._term(condition, scope, None)
                inner = self._held((then, otherwise), scope, place)
                for branch in _left(Branch(mask, inner[0], inner[1], place)):
                    self._append(branch, out)
            case Loop(condition, body, place):
                mask = self._term(condition, scope, None)
                self._append(Loop(mask, self._held((body,), scope, place)[0], place), out)
            case Region(areas, held):
                for area in areas:
                    condition = inside(area, partial(self.constant, scope=scope))
                    self._step(Branch(condition, held, (), step.place), scope, out)
            case _:
                assert_never(step)

    def _held(
        self, bodies: tuple[tuple[Step, ...], ...], scope: Scope, place: Place
    ) -> list[tuple[Step, ...]]:
        """Return what a statement holds, with all calls inlined."""
        self._depth += 1
        if self._depth > self._limits.depth:
            raise _too_much("nested conditions", self._limits.depth, place)
        inner = [self.body(body, scope) for body in bodies]
        self._depth -= 1
        return inner

    def _inlined(self, step: Branch, call: Apply, scope: Scope, out: list[Step]) -> None:
        """Keep one branch; the other one is looked through for unknown names only."""
        chosen = self.holds(((call, True),), scope)
        for branch, kept in ((step.then, chosen), (step.otherwise, not chosen)):
            was_dead, self._dead = self._dead, self._dead or not kept
            body = self.body(branch, scope)
            self._dead = was_dead
            if kept:
                out.extend(body)

    def _fold(self, term: Term, scope: Scope) -> Value:
        return fold(self._term(term, scope, None), _no_constant, self._names.casts)

    def _store(self, step: Store, scope: Scope, out: list[Step]) -> None:
        targets = tuple(self._target(target, scope, out) for target in step.targets)
        value = step.values[0]
        if step.operator:
            value = Infix(step.operator, step.targets[0], value, step.place)
        elif len(step.values) == 1 and isinstance(value, Apply):
            if is_of_module(value, self._names, scope):
                number = self._without_function(value, scope, out)
                for target in targets:
                    self._append(Store((target,), (number,), step.place), out)
                return
            function = function_of(value, self._names, scope)
            if function is not None:
                self._assign_call(step, targets, function, scope, out)
                return
        if len(targets) > 1 and len(step.values) == 1:
            message = f"One value is assigned to {len(targets)} targets."
            hint = "Give each target one value, or call a function that returns as many."
            raise fault(SyntaxRuleError, step.place, "assignments", message, hint)
        values = step.values if len(targets) > 1 else (value,)
        for target, each in zip(targets, values, strict=True):
            inlined = self._term(each, scope, out)
            self._append(Store((target,), (inlined,), step.place, annotation=step.annotation), out)

    def _assign_call(
        self,
        step: Store,
        targets: tuple[Term, ...],
        function: Function,
        scope: Scope,
        out: list[Step],
    ) -> None:
        call = step.values[0]
        assert isinstance(call, Apply)
        check_targets(call, function, len(targets))
        inner = self._enter(call, function, scope, out)
        for target, result in zip(targets, function.results, strict=True):
            value = self._term(result, inner, out)
            self._append(Store((target,), (value,), step.place, annotation=step.annotation), out)

    def _target(self, target: Term, scope: Scope, out: list[Step]) -> Term:
        match target:
            case Name(name, place) if name in scope.renames:
                renamed = scope.renames[name]
                return replace(renamed, place=place)
            case Subscript(base, indices, place):
                if scope.trail:
                    message = "A function cannot change its arguments, only its own temporaries."
                    hint = "Return the value, and assign it where the function is called."
                    raise fault(SyntaxRuleError, place, "functions", message, hint)
                shifts = self._shifts(base, indices, scope, out)
                return Subscript(self._target(base, scope, out), shifts, place)
            case _:
                message = "Only a field or a temporary can be assigned to."
                hint = "Write the name of one before the '='."
                raise fault(SyntaxRuleError, target.place, "assignments", message, hint)

    def _term(self, term: Term, scope: Scope, out: list[Step] | None) -> Term:
        """Return a term without constants and calls; without `out`, a call is an error."""
        self._terms += 1
        if self._terms > self._limits.terms:
            raise _too_much("terms", self._limits.terms, term.place)
        match term:
            case Literal() | Text() | Inside():
                return term
            case Name():
                return self._name(term, scope)
            case Prefix() | Infix() | Choice():
                return with_operands(term, lambda part: self._term(part, scope, out))
            case Subscript(base, indices, place):
                shifts = self._shifts(base, indices, scope, out)
                return Subscript(self._term(base, scope, out), shifts, place)
            case Pack(items, place):
                return Pack(tuple(self._term(item, scope, None) for item in items), place)
            case Apply():
                return self._apply(term, scope, out)
            case At(base, level, data, place):
                parts = [self._term(one, scope, out) for one in (base, level, *data)]
                return At(parts[0], parts[1], tuple(parts[2:]), place)
            case _:
                assert_never(term)

    def _shifts(
        self, base: Term, indices: Iterable[Term], scope: Scope, out: list[Step] | None
    ) -> tuple[Term, ...]:
        try:
            return tuple(self._term(index, scope, out) for index in indices)
        except NameRuleError as error:
            error.hint = hint_of_indices(base, indices) or error.hint
            raise

    def _name(self, term: Name, scope: Scope) -> Term:
        name, place = term.name, term.place
        head, *rest = name.split(".")
        if head in scope.renames:
            renamed = replace(scope.renames[head], place=place)
            return _attribute(renamed, rest, place)
        axis = self._names.axis(name, scope.imports)
        if axis is not None:
            return Name(AXES[axis.value], place)
        found = self._names.constant(name, scope.imports, place)
        if isinstance(found, Level):
            raise _is_place(name, place)
        if found is not None:
            return literal(found, place)
        if name in AXES:
            return Name(AXES[name], place)
        if name in CONSTANTS:
            return term
        if self._names.is_of_module(name):
            return self._without_module(name, place)
        known = [*scope.renames, *scope.imports]
        otherwise = "Assign it first, define it, or make it a parameter."
        raise self._names.unknown(name, place, known, otherwise)

    def _apply(self, call: Apply, scope: Scope, out: list[Step] | None) -> Term:
        if is_of_module(call, self._names, scope):
            return self._without_function(call, scope, out)
        function = function_of(call, self._names, scope)
        if function is None:
            arguments = tuple(self._term(argument, scope, out) for argument in call.arguments)
            return Apply(call.function, arguments, (), call.place)
        if out is None:
            message = f"The function '{function.name}' cannot be called here."
            hint = "Assign its result to a temporary before, and use that."
            raise fault(SyntaxRuleError, call.place, "calls", message, hint)
        check_one_result(call, function)
        inner = self._enter(call, function, scope, out)
        value = self._term(function.results[0], inner, out)
        if isinstance(value, Name) and value.name.startswith(inner.prefix):
            return value
        result = Name(f"{inner.prefix}return", call.place)
        self._append(Store((result,), (value,), call.place), out)
        return result

    def _without_module(self, name: str, place: Place) -> Literal:
        """Return a number in the place of a name whose module was not passed, and note the name.

        A branch that is left out needs none.
        """
        if not self._dead:
            self.not_passed.setdefault(name, place)
        return Literal(0.0, place)

    def _without_function(self, call: Apply, scope: Scope, out: list[Step] | None) -> Literal:
        """Return a number in the place of a call whose module was not passed."""
        number = self._without_module(call.function, call.place)
        for argument in call.arguments:
            self._term(argument, scope, out)
        return number

    def _enter(self, call: Apply, function: Function, scope: Scope, out: list[Step]) -> Scope:
        """Append a function's body, and return the scope in which its results are read."""
        given = self._bind(call, function, scope, out)
        self._calls += 1
        prefix = f"{function.name}.{self._calls}."
        changed = augmented(function)
        own = {name: place for name, place in assigned(function.body) if name not in changed}
        parameters = {argument.name: argument.place for argument in function.arguments}
        check_imports(parameters | own, function.externals)
        moved = frozenset(subscripted(function))
        renames: dict[str, Term] = {name: Name(prefix + name, place) for name, place in own.items()}
        for name, value in given.items():
            alias = isinstance(value, Name) and value.name not in (*AXES.values(), *CONSTANTS)
            constant = isinstance(value, Literal) and name not in moved | changed
            if name not in own and (alias or constant):
                renames[name] = value
                continue
            renames[name] = Name(prefix + name, parameters[name])
            self._append(Store((renames[name],), (value,), call.place), out)
        inner = Scope(
            renames,
            frozenset(each.name for each in function.externals),
            (*scope.trail, function.name),
            prefix,
        )
        for step in function.body:
            self._step(step, inner, out)
        return inner

    def _bind(
        self, call: Apply, function: Function, scope: Scope, out: list[Step]
    ) -> dict[str, Term]:
        """Return the value of each parameter, in the order of the function's text."""
        positional = [a for a in function.arguments if not a.keyword_only]
        if len(call.arguments) > len(positional):
            most = count_of(len(positional), "positional argument")
            message = f"The function '{function.name}' takes {most}, but got {len(call.arguments)}."
            parameters = ", ".join(argument.name for argument in positional)
            hint = f"Write '{function.name}({parameters})'."
            raise fault(SyntaxRuleError, call.place, "calls", message, hint)
        given: dict[str, Term] = {}
        for argument, value in zip(positional, call.arguments, strict=False):
            given[argument.name] = self._term(value, scope, out)
        for keyword in call.keywords:
            _check_keyword(keyword, given, function)
            given[keyword.name] = self._term(keyword.value, scope, out)
        return {a.name: self._given(a, given, call, function) for a in function.arguments}

    def _given(
        self, argument: Argument, given: Mapping[str, Term], call: Apply, function: Function
    ) -> Term:
        if argument.name in given:
            return given[argument.name]
        if argument.default is None:
            message = f"The call of '{function.name}' gives no value for '{argument.name}'."
            hint = f"Add the argument, or give '{argument.name}' a default."
            raise fault(SyntaxRuleError, call.place, "calls", message, hint)
        outside = Scope({}, frozenset())
        return self._term(argument.default, outside, None)

    def _append(self, step: Step, out: list[Step]) -> None:
        self._statements += 1
        if self._statements > self._limits.statements:
            raise _too_much("statements", self._limits.statements, step.place)
        out.append(step)


def _is_place(name: str, place: Place) -> SyntaxRuleError:
    message = f"The external '{name}' is an axis index, which has no value here."
    hint = "An axis index can stand in 'interval(...)' only."
    return fault(SyntaxRuleError, place, "externals", message, hint)


def _left(branch: Branch) -> Iterator[Branch]:
    """Yield a branch, of which compile-time choices and assertions may have left nothing."""
    if branch.then:
        yield branch
    elif branch.otherwise:
        mask = Prefix("not", branch.condition, branch.place)
        yield Branch(mask, branch.otherwise, (), branch.place)


def _no_constant(name: Name) -> Value:
    """Raise the error for a name in a constant that is none."""
    message = f"'{name.name.strip('<>')}' is not a compile-time constant."
    hint = "Use numbers, constants of the text and externals."
    raise fault(SyntaxRuleError, name.place, "constants", message, hint)


def _attribute(field: Term, names: Sequence[str], place: Place) -> Term:
    """Return a field, or what an attribute of it means."""
    match names:
        case []:
            return field
        case ["A"]:
            return Subscript(field, (), place)
        case ["T"]:
            return Apply(".T", (field,), (), place)
        case _:
            message = f"A field has no attribute '{names[0]}'."
            hint = hint_of_attribute(names[0]) or "Write 'q.A[n]' for a component."
            raise fault(SyntaxRuleError, place, "expressions", message, hint)


def _check_keyword(keyword: Keyword, given: Mapping[str, Term], function: Function) -> None:
    names = [argument.name for argument in function.arguments]
    if keyword.name not in names:
        message = f"The function '{function.name}' has no parameter '{keyword.name}'."
        hint = nearest(keyword.name, names) or f"Its parameters are {', '.join(names)}."
        raise fault(NameRuleError, keyword.place, "calls", message, hint)
    if keyword.name in given:
        message = f"The call of '{function.name}' gives '{keyword.name}' twice."
        raise fault(SyntaxRuleError, keyword.place, "calls", message, "Remove one of them.")


def _too_much(what: str, most: int, place: Place) -> LimitError:
    message = f"The program has more than {most} {what} after its functions are inlined."
    return fault(LimitError, place, "limits", message, "Split it into several programs.")
