"""Strongly connected groups of a graph, in an order that follows its edges.

Tarjan's algorithm, without recursion: a program may have thousands of statements in a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

__all__ = ["knots"]


def knots(size: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the strongly connected groups of 0 to `size` - 1, each before those that depend on it.

    Of those that may come next, the one with the least number does.

    >>> knots(4, [(3, 1), (1, 3), (1, 0)])
    [[1, 3], [0], [2]]
    """
    below: list[list[int]] = [[] for _ in range(size)]
    for a, b in sorted(edges):
        below[a].append(b)
    groups = sorted(sorted(group) for group in _connected(below))
    home = {n: number for number, group in enumerate(groups) for n in group}
    pairs = {(home[a], home[b]) for a in range(size) for b in below[a] if home[a] != home[b]}
    return [groups[number] for number in _ordered(len(groups), pairs)]


def _connected(below: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the groups whose members all reach each other."""
    found: dict[int, int] = {}
    least: dict[int, int] = {}
    open_: list[int] = []
    is_open: set[int] = set()
    for root in range(len(below)):
        pending = [] if root in found else [(root, iter(below[root]))]
        while pending:
            node, rest = pending[-1]
            if node not in found:
                found[node] = least[node] = len(found)
                open_.append(node)
                is_open.add(node)
            for other in rest:
                if other not in found:
                    pending.append((other, iter(below[other])))
                    break
                if other in is_open:
                    least[node] = min(least[node], found[other])
            else:
                pending.pop()
                if pending:
                    least[pending[-1][0]] = min(least[pending[-1][0]], least[node])
                if least[node] == found[node]:
                    group = [open_.pop()]
                    while group[-1] != node:
                        group.append(open_.pop())
                    is_open.difference_update(group)
                    yield group


def _ordered(size: int, pairs: set[tuple[int, int]]) -> Iterator[int]:
    """Yield numbers in an order that follows the pairs, the least possible one first."""
    after: list[list[int]] = [[] for _ in range(size)]
    waits = [0] * size
    for a, b in pairs:
        after[a].append(b)
        waits[b] += 1
    ready = [n for n in range(size) if not waits[n]]
    heapify(ready)
    while ready:
        number = heappop(ready)
        yield number
        for other in after[number]:
            waits[other] -= 1
            if not waits[other]:
                heappush(ready, other)
