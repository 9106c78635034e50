"""Loads under conditions that are known before their levels are computed.

Where a condition depends only on what is loaded early, what its branch reads is loaded for all
levels of a round at once, under the same condition: a column waits once a round, and nothing is
loaded for a branch that is not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from halocline_engine.backends.cuda.kernels.columns.early_loads import Hint, load
from halocline_engine.backends.cuda.kernels.columns.passes import LevelVariables
from halocline_engine.backends.cuda.text.expressions import expression_text
from halocline_engine.backends.cuda.text.fragments import indent
from halocline_engine.backends.cuda.text.statements import HERE
from halocline_engine.ir.nodes import Assign, Expr, If, Read, Statement
from halocline_engine.ir.walk import (
    Access,
    accesses_of,
    bodies_of,
    head,
    reads,
    reads_of,
    rewrite,
    targets_of,
    walk,
)

__all__ = ["ConditionalText", "Conditions", "Test", "conditions_of"]

#: Conditions that all have the value that stands beside them.
Test: TypeAlias = tuple[tuple[Expr, bool], ...]
#: The most nodes of a condition, which is evaluated twice.
_NODES = 32


@dataclass(frozen=True, slots=True)
class Conditions:
    """The tests of a section, and the elements that a level loads where one of some tests holds.

    Of the names in `changed`, which only such levels assign, these have their own element.
    """

    tests: tuple[Test, ...] = ()
    loads: Mapping[Access, tuple[int, ...]] = field(default_factory=dict[Access, tuple[int, ...]])
    changed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Branch:
    """Statements under a test, all of which are reached where it holds.

    They read `reads`; in `inner` are branches whose tests are known, and `hidden` is what stands
    under other conditions. They assign `targets`, but for what inner branches assign.
    """

    test: Test
    reads: frozenset[Access]
    hidden: frozenset[Access]
    targets: frozenset[str]
    inner: tuple[_Branch, ...]


def conditions_of(
    body: Sequence[Statement],
    early: Set[Access],
    at_hand: Set[Access],
    registers: Set[str],
    may_load: Callable[[Read], bool],
) -> Conditions:
    """Return what levels with a body load under conditions.

    The elements in `early` are loaded anyway, and those `at_hand` may stand in conditions.
    """
    targets = frozenset(targets_of(body))
    fixed = frozenset(access for access in at_hand if access[0] not in targets)
    whole = _Reader(fixed, frozenset(registers)).branch((), body, {})
    wanted = dict.fromkeys(
        (read.name, read.offset)
        for read in reads(body)
        if (read.name, read.offset) not in early and may_load(read)
    )
    found = {
        access: tests
        for access in wanted
        if (tests := tuple(_tests(whole, access))) and _is_covered(whole, access)
    }
    changed = frozenset(name for name, _ in found) & targets
    open_names = frozenset(
        name
        for name in changed
        if (name, HERE) not in found
        or not _is_covered(whole, (name, HERE), name)
        or any(access not in found for access in accesses_of(body) if access[0] == name)
    )
    found = {access: tests for access, tests in found.items() if access[0] not in open_names}
    every = tuple(dict.fromkeys(test for tests in found.values() for test in tests))
    loads = {access: tuple(map(every.index, tests)) for access, tests in found.items()}
    return Conditions(every, loads, changed - open_names)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Finds the branches of a body whose conditions depend on elements in `fixed` alone."""

    fixed: frozenset[Access]
    registers: frozenset[str]

    def branch(self, test: Test, body: Sequence[Statement], values: Mapping[str, Expr]) -> _Branch:
        """Return the branch of a body; `values` are those of registers before it."""
        now = dict(values)
        found: set[Access] = set()
        hidden: set[Access] = set()
        targets: set[str] = set()
        inner: list[_Branch] = []
        for statement in body:
            found |= {(r.name, r.offset) for value in head(statement) for r in reads_of(value)}
            condition = self._known(statement.condition, now) if isinstance(statement, If) else None
            if isinstance(statement, If) and condition is not None:
                for value, part in ((True, statement.then), (False, statement.otherwise)):
                    inner.append(self.branch((*test, (condition, value)), part, now))
            else:
                hidden.update(a for part in bodies_of(statement) for a in accesses_of(part))
                targets.update(targets_of((statement,)))
            value = self._assigned(statement, now)
            now = {name: at for name, at in now.items() if name not in targets_of((statement,))}
            if isinstance(statement, Assign) and value is not None:
                now[statement.target] = value
        return _Branch(test, frozenset(found), frozenset(hidden), frozenset(targets), tuple(inner))

    def _assigned(self, statement: Statement, values: Mapping[str, Expr]) -> Expr | None:
        if isinstance(statement, Assign) and statement.target in self.registers:
            return self._known(statement.value, values)
        return None

    def _known(self, expr: Expr, values: Mapping[str, Expr]) -> Expr | None:
        """Return an expression of elements that are at hand, or None."""

        def resolved(node: Expr) -> Expr:
            if isinstance(node, Read) and node.name in self.registers:
                return values.get(node.name, node)
            return node

        new = rewrite(expr, resolved)
        nodes = list(walk(new))
        is_known = len(nodes) <= _NODES and all(
            node.level is None and (node.name, node.offset) in self.fixed
            for node in nodes
            if isinstance(node, Read)
        )
        return new if is_known else None


def _tests(branch: _Branch, access: Access) -> Iterator[Test]:
    """Yield the tests of the outermost branches that always read an element."""
    if branch.test and access in branch.reads:
        yield branch.test
    else:
        for inner in branch.inner:
            yield from _tests(inner, access)


def _is_covered(branch: _Branch, access: Access, target: str = "") -> bool:
    """Return whether nothing reads an element, or assigns a name, where it is not loaded."""
    if branch.test and access in branch.reads:
        return True
    if access in branch.reads | branch.hidden or target in branch.targets:
        return False
    return all(_is_covered(inner, access, target) for inner in branch.inner)


@dataclass(frozen=True, slots=True)
class ConditionalText(LevelVariables):
    """Writes the loads of a section under conditions, for rounds of `ahead` levels.

    Variables are numbered from `first` on. In `at_hand` are the places of elements that stand in
    conditions, with `{}` for where the queues of a round begin. Of what a level may change, the
    next one reads the element at `step`: it uses what the level had, or loads it where it had none.
    """

    conditions: Conditions
    first: int
    step: int
    ahead: int
    at_hand: Mapping[Access, str]
    hints: Mapping[str, Hint]

    def queues(self) -> list[str]:
        """Return the variables of a section."""
        tests = (f"bool t{self.first + n}[{self.ahead}];" for n in range(len(self._tests)))
        queues = (
            f"{self._type(access[0])} {self._queue(access)}[{self.ahead}];"
            for access in self.conditions.loads
        )
        kept = (
            f"bool kept_{text} = false; {self._type(name)} last_{text} = 0;"
            for name, text in self._handed
        )
        return [*tests, *queues, *kept]

    def loads(self, place: int, number: int, test: str = "") -> list[str]:
        """Return the loads of so many levels, whose queues begin at a place."""
        if not self.conditions.loads or not number:
            return []
        names = {name for name, _ in self.conditions.loads}
        inner = [
            f"const int next = k {'+' if self.step < 0 else '-'} q;",
            "{",
            "  [[maybe_unused]] const int k = next;",
            *indent(self._offsets(names)),
            *(f"  t{self.first + n}[q] = {self._test(n, place)};" for n in range(len(self._tests))),
            *(f"  {self._load(access)}" for access in self.conditions.loads),
            *(f"  was_{text} = {self._holds((name, HERE))};" for name, text in self._handed),
            "}",
        ]
        level = [f"if ({test}) {{", *indent(inner), "}"] if test else inner
        return [
            "{",
            *(f"  bool was_{text} = kept_{text};" for _, text in self._handed),
            "  #pragma unroll",
            f"  for (int q = 0; q < {number}; ++q) {{",
            *indent(indent(level)),
            "  }",
            "}",
        ]

    def values(self) -> dict[Access, str]:
        """Return the places of the elements in level `q` of a round."""
        found = {access: f"{self._queue(access)}[q]" for access in self.conditions.loads}
        for name, text in self._handed:
            before = name, (0, 0, self.step)
            found[before] = f"(kept_{text} ? last_{text} : {found[before]})"
        return found

    def handed_on(self) -> list[str]:
        """Return what a level hands on to the next one."""
        return [
            f"kept_{text} = {self._holds((name, HERE))}; last_{text} = here_{text};"
            for name, text in self._handed
        ]

    @property
    def _tests(self) -> tuple[Test, ...]:
        return self.conditions.tests

    @property
    def _handed(self) -> list[tuple[str, str]]:
        """The names of which a level may read the element of the level before, and their texts."""
        return [
            (name, text)
            for name, text in self.scope.arrays.items()
            if name in self.conditions.changed
            and (name, (0, 0, self.step)) in self.conditions.loads
        ]

    def _load(self, access: Access) -> str:
        name, offset = access
        holds = self._holds(access)
        if offset != HERE and name in self.conditions.changed:
            holds += f" && !was_{self.scope.arrays[name]}"
        place = load(self.scope, name, offset, self.hints[name])
        return f"{self._queue(access)}[q] = {holds} ? {place} : ({self._type(name)})0;"

    def _queue(self, access: Access) -> str:
        return f"c{self.first + list(self.conditions.loads).index(access)}"

    def _holds(self, access: Access) -> str:
        """Return whether a level loads an element."""
        numbers = self.conditions.loads[access]
        text = " || ".join(f"t{self.first + number}[q]" for number in numbers)
        return f"({text})" if len(numbers) > 1 else text

    def _test(self, number: int, place: int) -> str:
        def found(read: Read) -> str:
            return self.at_hand[read.name, read.offset].format(place)

        texts = (
            (expression_text(expr, found, self.scope.scalars.__getitem__), value)
            for expr, value in self._tests[number]
        )
        return " && ".join(text if value else f"!{text}" for text, value in texts)
