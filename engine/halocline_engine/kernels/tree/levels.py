"""The third layout: a cell's branches, packed level by level.

A branch is a run of nodes without a fork; its level is how many forks lie between it and the leaf
that is farthest in branches, so all children of a branch are on lower levels, and the root's branch
alone is on the last one. Branches of a level are sorted by descending length and interleaved, the
end away from the root first::

    index(node k from the root's side of branch j) = start + j + count * (length of j - 1 - k)

with `start` and `count` those of the level. So the branches of a level are eliminated side by side,
row by row, and then those of the next one. Padding stands where a branch is shorter than the first
of its level.

What a branch gives its parent is kept by itself, and the parent takes it from its children in
descending order of their nodes, which is the order of the other layouts: no atomic additions, the
same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from halocline_engine.kernels.tree.storage import Index, Values

__all__ = ["Levels", "by_levels"]


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """One cell's branches; they are numbered level by level.

    For levels: where each starts in the arrays, how many branches it has, and the first of them.
    For branches: lengths, and the place in the arrays of the node that it hangs on (the root's
    branch: of the root itself), and its children: `children[children_from[b]:children_from[b+1]]`
    in descending order of their nodes. `positions` is where each node is.
    """

    starts: Index
    counts: Index
    first: Index
    lengths: Index
    parent_nodes: Index
    children_from: Index
    children: Index
    positions: Index
    total: int

    @property
    def branches(self) -> int:
        """Number of branches."""
        return len(self.lengths)

    def pack(self, values: Values, padding: float = 0) -> Values:
        """Return the values of a cell's nodes in this layout."""
        packed = np.full(self.total, padding, values.dtype)
        packed[self.positions] = values
        return packed

    def unpack(self, packed: Values) -> Values:
        """Return packed values in the order of the nodes."""
        return packed[self.positions]


def by_levels(parents: Index) -> Levels:
    """Return the layout of a cell; `parents` are local, parents first, the root its own.

    >>> by_levels(np.array([0, 0, 1, 1, 2])).counts.tolist()
    [2, 1]
    """
    nodes = _branches(parents)
    head = [run[0] for run in nodes]
    owner = np.empty(len(parents), np.int64)
    for branch, run in enumerate(nodes):
        owner[run] = branch
    parent_branch = [int(owner[parents[node]]) for node in head]
    height = [0] * len(nodes)
    for branch in range(len(nodes) - 1, 0, -1):
        height[parent_branch[branch]] = max(height[parent_branch[branch]], height[branch] + 1)
    order = sorted(range(len(nodes)), key=lambda b: (height[b], -len(nodes[b]), b))
    rank = {branch: at for at, branch in enumerate(order)}
    lengths = np.array([len(nodes[b]) for b in order], np.int64)
    counts = np.bincount(np.array(height, np.int64)).astype(np.int64)
    first = np.cumsum(counts) - counts
    sizes = counts * lengths[first]
    starts = np.cumsum(sizes) - sizes
    positions = np.empty(len(parents), np.int64)
    for at, branch in enumerate(order):
        level = height[branch]
        run = nodes[branch]
        behind = len(run) - 1 - np.arange(len(run))
        positions[run] = starts[level] + at - first[level] + counts[level] * behind
    hang = np.array([positions[parents[head[b]]] for b in order], np.int64)
    children: list[list[int]] = [[] for _ in nodes]
    for branch in range(len(nodes) - 1, 0, -1):
        children[rank[parent_branch[branch]]].append(rank[branch])
    ends = np.cumsum([0, *(len(found) for found in children)]).astype(np.int64)
    return Levels(
        starts=starts,
        counts=counts,
        first=first,
        lengths=lengths,
        parent_nodes=hang,
        children_from=ends,
        children=np.array([b for found in children for b in found], np.int64),
        positions=positions,
        total=int(sizes.sum()),
    )


def _branches(parents: Index) -> list[list[int]]:
    """Return the nodes of each branch from the root's side, branches by their first node."""
    children = np.bincount(parents[1:], minlength=len(parents))
    runs: list[list[int]] = [[0]]
    member = {0: 0}
    for node in range(1, len(parents)):
        parent = int(parents[node])
        if children[parent] == 1:
            member[node] = member[parent]
            runs[member[node]].append(node)
        else:
            member[node] = len(runs)
            runs.append([node])
    return runs
