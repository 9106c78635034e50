"""Long bodies of loops, and many loops, as functions of their own.

Numba's time grows with the length of a function squared. A body is cut between statements, and
within them where one alone is too long. Each part takes what it reads, and returns what it assigns
and others read. Nothing else changes: the same operations run in the same order.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from halocline_engine.language.parsing import parsed

__all__ = ["outlined"]

#: Nodes of Python's syntax tree in a function that is left whole, and in a part of a longer one;
#: what a loop takes beside its own nodes, in nodes.
_WHOLE, _PART, _LOOP = 24_000, 4_000, 100


def outlined(text: str, prefix: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of a function, with parts before it where it is long, and their names."""
    if len(text) * 5 < _WHOLE:  # a character weighs 5 nodes at most: those of loops are long
        return text, ()
    tree = parsed(text)
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    if _weight(function) <= _WHOLE:
        return text, ()
    arguments = {argument.arg for argument in function.args.args}
    cut = _Cut(prefix, arguments | _stored([function]))
    function.body = cut.body(function.body, arguments, frozenset())
    texts = [ast.unparse(part) for part in (*cut.parts, function)]
    return "\n\n\n".join(texts) + "\n", tuple(part.name for part in cut.parts)


@dataclass(slots=True)
class _Cut:
    """The parts of a function so far; `own` are its variables."""

    prefix: str
    own: set[str]
    parts: list[ast.FunctionDef] = field(default_factory=list[ast.FunctionDef])

    def body(self, body: Sequence[ast.stmt], known: Set[str], wanted: Set[str]) -> list[ast.stmt]:
        """Return a body that calls parts in the place of runs of statements.

        `known` are the variables that surely were assigned before it, and `wanted` those that
        others may read as it leaves them. A part returns these alone, so one that is known may
        have no value: then nothing reads it before it is assigned again.
        """
        out: list[ast.stmt] = []
        runs = [*_runs(body)]
        for run, read in zip(runs, _read_after(runs, wanted), strict=True):
            if len(run) == 1 and _weight(run[0]) > _PART:
                self._within(run[0], known, read)
                out += run
            else:
                out += self._moved(run, known, read)
            known = known | _definite(run)
        return out

    def _within(self, statement: ast.stmt, known: Set[str], wanted: Set[str]) -> None:
        """Cut the bodies of one long statement."""
        match statement:
            case ast.For():
                known = known | _stored([statement.target])
                wanted = wanted | _early(statement.body)
                statement.body = self.body(statement.body, known, wanted)
            case ast.While():
                wanted = wanted | _early(statement.body) | _loaded([statement.test])
                statement.body = self.body(statement.body, known, wanted)
            case ast.If():
                statement.body = self.body(statement.body, known, wanted)
                statement.orelse = self.body(statement.orelse, known, wanted)
            case _:
                pass

    def _moved(self, run: list[ast.stmt], known: Set[str], wanted: Set[str]) -> list[ast.stmt]:
        """Return the call of a part that runs some statements, or themselves where they are few."""
        early, sure = _early(run) & self.own, _definite(run)
        shared = _stored(run) & wanted
        few = sum(map(_weight, run)) < _PART // 4
        # Memory of a function is gone as it returns.
        few = few or "room" in _loaded(run)
        if few or not early <= known or not shared <= sure | known:
            return run
        results, given = sorted(shared), sorted(early | (shared - sure))
        name = f"{self.prefix}{len(self.parts)}"
        values = ast.Tuple([ast.Name(one, ast.Load()) for one in results], ast.Load())
        ending: list[ast.stmt] = [ast.Return(values)] if results else []
        arguments = ast.arguments([], [ast.arg(one) for one in given], None, [], [], None, [])
        part = ast.FunctionDef(name, arguments, [*run, *ending], [])
        self.parts.append(ast.fix_missing_locations(part))
        call = ast.Call(ast.Name(name, ast.Load()), [ast.Name(n, ast.Load()) for n in given], [])
        targets = ast.Tuple([ast.Name(one, ast.Store()) for one in results], ast.Store())
        made = ast.Assign([targets], call) if results else ast.Expr(call)
        return [ast.fix_missing_locations(made)]


def _runs(body: Iterable[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Yield statements that make a part together; one that is longer than a part comes alone."""
    run: list[ast.stmt] = []
    total = 0
    for statement in body:
        weight = _weight(statement)
        if run and total + weight > _PART:
            yield run
            run, total = [], 0
        run.append(statement)
        total += weight
    if run:
        yield run


def _read_after(runs: Sequence[list[ast.stmt]], wanted: Set[str]) -> list[Set[str]]:
    """Return for each run the names that may be read as it leaves them, at last those `wanted`."""
    found: list[Set[str]] = []
    for run in reversed(runs):
        found.append(wanted)
        wanted = (wanted - _definite(run)) | _early(run)
    return found[::-1]


def _weight(node: ast.AST) -> int:
    return sum(1 + _LOOP * isinstance(one, ast.For | ast.While) for one in ast.walk(node))


def _named(nodes: Iterable[ast.AST], kind: type[ast.expr_context]) -> Iterator[str]:
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, kind):
                yield inner.id


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    return set(_named(nodes, ast.Store))


def _loaded(nodes: Iterable[ast.AST]) -> set[str]:
    return set(_named(nodes, ast.Load))


def _definite(body: Iterable[ast.stmt]) -> set[str]:
    """Return the names that a body assigns on every way through it."""
    found: set[str] = set()
    for statement in body:
        match statement:
            case ast.Assign() | ast.AugAssign():
                found |= _stored([statement])
            case ast.If():
                found |= _definite(statement.body) & _definite(statement.orelse)
            case _:
                pass
    return found


def _early(body: Iterable[ast.stmt]) -> set[str]:
    """Return the names that a body may read before it assigns them."""
    known: set[str] = set()
    found: set[str] = set()
    for statement in body:
        match statement:
            case ast.If():
                found |= _loaded([statement.test]) - known
                found |= (_early(statement.body) | _early(statement.orelse)) - known
            case ast.For() | ast.While():
                head = statement.iter if isinstance(statement, ast.For) else statement.test
                own = _stored([statement.target]) if isinstance(statement, ast.For) else set[str]()
                found |= _loaded([head]) - known
                found |= _early(statement.body) - known - own
            case _:
                found |= _loaded([statement]) - known
        known |= _definite([statement])
    return found
