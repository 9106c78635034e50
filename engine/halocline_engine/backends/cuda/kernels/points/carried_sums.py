"""Sums over levels, carried from level to level in place of their elements.

A point that adds up elements of the level below, then of its own, then of the one above, can add
those of a level as soon as they are loaded: to its own sum, which is complete then, and to those of
the points above, which wait for more. So a thread holds one level of elements and some sums for
each of its points, in place of all levels. Every sum has its terms in the order of the text, so it
has the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.ir.nodes import Assign, Binary, Expr, Read, Statement
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import assignments, reads_of, rewrite, walk
from halocline_engine.schedule.nodes import Section

__all__ = ["Carried", "carried", "sums_of", "with_sums"]

_SIGNS = ("+", "-")


@dataclass(frozen=True, slots=True)
class Carried:
    """A section that carries sums from level to level.

    `section` has the statements of a level, and behind them those that bring the sums on to the
    next one. All of them read at offset `top` along K what they add. `sums` are the names of the
    sums with their types. `starts` are the statements that make them for the first level: at each
    offset below `top`, from low to high, those that add elements from there.
    """

    section: Section
    sums: Mapping[str, DType]
    starts: tuple[tuple[int, tuple[Statement, ...]], ...]
    top: int


@dataclass(frozen=True, slots=True)
class _Chain:
    """A sum in an expression: terms with their signs by level, and what follows behind them.

    The sign of the first term says nothing.
    """

    node: Binary
    levels: Mapping[int, tuple[tuple[str, Expr], ...]]
    rest: tuple[tuple[str, Expr], ...]

    @property
    def span(self) -> tuple[int, int]:
        """The lowest and the highest level."""
        return min(self.levels), max(self.levels)


def carried(section: Section, entry: Entry) -> Carried | None:
    """Return the section with its sums carried, or None where it has no sum over levels.

    Sums count that are not inside an `If`, of floating-point terms from low to high levels: each
    term reads arrays that the section does not write, at one offset along K. All that are carried
    go from the lowest level of the first one to its highest.
    """
    chains = list(_chains(section, entry))
    if not chains:
        return None
    low, top = chains[0][1].span
    kept = [(n, chain) for n, chain in chains if chain.span == (low, top)]
    body, sums = list(section.body), dict[str, DType]()
    steps: dict[int, list[Statement]] = {level: [] for level in range(low, top)}
    for number, (place, chain) in enumerate(kept):
        names = {level: f"sum{number}_{level - low}" for level in range(low, top)}
        sums |= dict.fromkeys(names.values(), chain.node.dtype)
        body[place] = _using(body[place], chain, names[top - 1])
        for level, name in names.items():
            before = names.get(level - 1)
            steps[level].append(Assign(name, _step(chain, level, before)))
    raised = [statement for level in reversed(range(low, top)) for statement in steps[level]]
    starts = tuple(
        (level, tuple(s for below in reversed(range(low, level + 1)) for s in steps[below]))
        for level in range(low, top)
    )
    return Carried(replace(section, body=(*body, *raised)), sums, starts, top)


def sums_of(section: Section, entry: Entry, tile: Tile) -> Carried | None:
    """Return how a tile carries the sums of a section, or None where it does not."""
    if not tile.sums or tile.depth == 1 or tile.planes or len(entry.kernel.sections) > 1:
        return None
    return carried(section, entry)


def with_sums(tile: Tile, entry: Entry) -> Tile:
    """Return the tile, without sums where it carries none."""
    if tile.sums and sums_of(entry.kernel.sections[0], entry, tile) is None:
        return replace(tile, sums=False)
    return tile


def _using(statement: Statement, chain: _Chain, name: str) -> Statement:
    """Return an assignment that has a sum's lower levels in `name`."""
    assert isinstance(statement, Assign)
    dtype, top = chain.node.dtype, chain.span[1]
    whole = _added(Read(name, (0, 0, 0), dtype), (*chain.levels[top], *chain.rest), dtype)
    return replace(
        statement, value=rewrite(statement.value, lambda e: whole if e is chain.node else e)
    )


def _step(chain: _Chain, level: int, before: str | None) -> Expr:
    """Return a sum up to a level, out of the one up to the level below it."""
    dtype, top = chain.node.dtype, chain.span[1]
    terms = [(sign, _raised(term, top)) for sign, term in chain.levels.get(level, ())]
    if before is None:
        return _added(terms[0][1], terms[1:], dtype)
    return _added(Read(before, (0, 0, 0), dtype), terms, dtype)


def _added(first: Expr, terms: Sequence[tuple[str, Expr]], dtype: DType) -> Expr:
    for sign, term in terms:
        first = Binary(sign, first, term, dtype)
    return first


def _raised(term: Expr, level: int) -> Expr:
    """Return a term with its reads at another level."""

    def raised(expr: Expr) -> Expr:
        if not isinstance(expr, Read):
            return expr
        return replace(expr, offset=(*expr.offset[:2], level))

    return rewrite(term, raised)


def _chains(section: Section, entry: Entry) -> Iterator[tuple[int, _Chain]]:
    """Yield the first sum over levels of each assignment, with the number of its statement."""
    written = {assign.target for assign in assignments(section.body)}
    arrays = set(entry.arrays) - written
    for number, statement in enumerate(section.body):
        if isinstance(statement, Assign):
            sums = (node for node in walk(statement.value) if isinstance(node, Binary))
            found = (_chain(node, arrays) for node in sums)
            chain = next((chain for chain in found if chain is not None), None)
            if chain is not None:
                yield number, chain


def _chain(node: Binary, arrays: set[str]) -> _Chain | None:
    """Return the sum that a node is, if its terms begin with those of two levels or more."""
    terms = list(_terms(node)) if node.dtype.is_float else []
    levels: dict[int, list[tuple[str, Expr]]] = {}
    for number, (sign, term) in enumerate(terms):
        level = _level(term, arrays)
        if level is None or (levels and level < max(levels)):
            terms = terms[number:]
            break
        levels.setdefault(level, []).append((sign, term))
    else:
        terms = []
    if len(levels) < 2:
        return None
    return _Chain(node, {n: tuple(found) for n, found in levels.items()}, tuple(terms))


def _terms(node: Expr) -> Iterator[tuple[str, Expr]]:
    """Yield what is added up from left to right, each with its sign."""
    if isinstance(node, Binary) and node.operator in _SIGNS:
        yield from _terms(node.left)
        yield node.operator, node.right
    else:
        yield "+", node


def _level(term: Expr, arrays: set[str]) -> int | None:
    """Return the offset along K at which a term reads, if there is one and it reads arrays only."""
    reads = list(reads_of(term))
    levels = {read.offset[2] for read in reads}
    if len(levels) != 1 or any(read.name not in arrays for read in reads):
        return None
    return levels.pop()
