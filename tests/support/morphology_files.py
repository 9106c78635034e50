"""Morphologies as SWC files in the forms that tools write, beside areas found by plain loops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Rng = np.random.Generator
SOMA = 1


@dataclass(frozen=True)
class DrawnNode:
    """A node: type, place, radius and index of the parent, -1 at a root."""

    kind: int
    place: tuple[float, float, float]
    radius: float
    parent: int


@dataclass(frozen=True)
class DrawnCell:
    """A file's content, and its nodes in the order of its lines."""

    content: bytes
    nodes: list[DrawnNode]
    form: str

    def areas(self) -> list[float]:
        """Return the membrane of each node: cones between nodes, and a sphere for one point."""
        areas = [0.0] * len(self.nodes)
        alone = {n for n, node in enumerate(self.nodes) if node.kind == SOMA}
        for n, node in enumerate(self.nodes):
            if node.parent < 0:
                continue
            above = self.nodes[node.parent]
            length = max(math.dist(node.place, above.place), 1e-3)
            if (node.kind == SOMA) == (above.kind == SOMA):
                slant = math.hypot(node.radius - above.radius, length)
                side = math.pi * (node.radius + above.radius) * slant
                areas[n] += side / 2
                areas[node.parent] += side / 2
                alone -= {n, node.parent}
            else:
                thin = node.parent if node.kind == SOMA else n
                areas[thin] += 2 * math.pi * self.nodes[thin].radius * length
        for n in alone:
            areas[n] += 4 * math.pi * self.nodes[n].radius ** 2
        return areas

    def conductances(self, resistivity: float) -> list[float]:
        """Return those of the axoplasm to the parent, in microsiemens."""
        found: list[float] = []
        for node in self.nodes:
            above = self.nodes[node.parent] if node.parent >= 0 else node
            length = max(math.dist(node.place, above.place), 1e-3)
            radii = {(SOMA, False): (node.radius,) * 2, (0, True): (above.radius,) * 2}
            mixed = (SOMA if above.kind == SOMA else 0, node.kind == SOMA)
            one, other = radii.get(mixed, (node.radius, above.radius))
            value = math.pi * one * other / (1e-2 * resistivity * length)
            found.append(value if node.parent >= 0 else 0.0)
        return found


def draw_cell(rng: Rng) -> DrawnCell:
    """Draw a cell with a soma of some form, its neurites, and the text that tells of it."""
    nodes, form = _soma(rng)
    tips = [0] * int(rng.integers(0, 4))
    for _ in range(int(rng.integers(0, 25))):
        if not tips:
            break
        at = int(rng.choice(tips))
        start = np.array(nodes[at].place)
        step = rng.normal(0, 10, 3)
        x, y, z = np.round(start + step, 3).tolist()
        kind = int(rng.choice([2, 3, 4, 5, 0, 7, 128, 255, 257, 1025, 70000]))
        radius = round(float(rng.uniform(0, 2)), 3)
        nodes.append(DrawnNode(kind, (x, y, z), radius, at))
        tips.append(len(nodes) - 1)
    if rng.random() < 0.2:
        nodes, form = _rooted_elsewhere(rng, nodes), f"{form}, another root"
    order = np.arange(len(nodes))
    if rng.random() < 0.5:
        rng.shuffle(order)
    back = np.argsort(order).tolist()
    nodes = [nodes[n] for n in order.tolist()]
    nodes = [
        DrawnNode(n.kind, n.place, n.radius, back[n.parent] if n.parent >= 0 else -1) for n in nodes
    ]
    return DrawnCell(_content(rng, nodes), nodes, form)


def _soma(rng: Rng) -> tuple[list[DrawnNode], str]:
    x, y, z = np.round(rng.uniform(-50, 50, 3), 3).tolist()
    r = round(float(rng.uniform(2, 12)), 3)
    first = DrawnNode(SOMA, (x, y, z), r, -1)
    match int(rng.integers(6)):
        case 0:
            return [first], "one point"
        case 1:  # NeuroMorpho.Org
            ends = [DrawnNode(SOMA, (x, y + way * r, z), r, 0) for way in (-1, 1)]
            return [first, *ends], "three points"
        case 2:  # the same along another axis
            ends = [DrawnNode(SOMA, (x + way * r, y, z), r, 0) for way in (1, -1)]
            return [first, *ends], "three points along x"
        case 3:
            return [first, DrawnNode(SOMA, (x, y, z + 2 * r), r, 0)], "a cylinder"
        case 4:
            stack = [first]
            for n in range(int(rng.integers(1, 5))):
                radius = round(float(rng.uniform(2, 12)), 3)
                stack.append(DrawnNode(SOMA, (x + 3.0 * (n + 1), y, z), radius, n))
            return stack, "a stack of cones"
        case _:
            return [DrawnNode(3, (x, y, z), 1.5, -1)], "no soma"


def _rooted_elsewhere(rng: Rng, nodes: list[DrawnNode]) -> list[DrawnNode]:
    """Return the tree with another node as its root."""
    way = [int(rng.integers(len(nodes)))]
    while nodes[way[-1]].parent >= 0:
        way.append(nodes[way[-1]].parent)
    parents = {way[0]: -1} | {above: below for below, above in pairwise(way)}
    return [
        DrawnNode(node.kind, node.place, node.radius, parents.get(n, node.parent))
        for n, node in enumerate(nodes)
    ]


def _content(rng: Rng, nodes: list[DrawnNode]) -> bytes:
    count = len(nodes)
    ids = [
        np.arange(1, count + 1),
        np.arange(count),
        rng.permutation(10 * count)[:count] + 1,
        720575940661139073 + np.arange(count),
    ][rng.integers(4)].tolist()
    gap = [" ", "  ", "\t", ",", ", ", " , "][rng.integers(6)]
    whole = ["{}", "{}.0", "+{}"][rng.integers(3)] if max(ids) < 2**53 else "{}"
    behind = ["", "", " ", "\t# comment", " #1 2 3"][rng.integers(5)]
    if "," not in gap and rng.random() < 0.2:
        behind = " 17 0.5 extra"
    lines = ["# tracé par X, µm", "", "# id,type,x,y,z,r,pid", "  # a\x85b\x0cc"]
    lines = lines[: int(rng.integers(5))]
    for name, node in zip(ids, nodes, strict=True):
        parent = str(ids[node.parent]) if node.parent >= 0 else "-1"
        values = [f"{value:{form}}" for value in (*node.place, node.radius) for form in [".9g"]]
        words = [whole.format(name), whole.format(node.kind), *values, parent]
        lines.append((" " if rng.random() < 0.1 else "") + gap.join(words) + behind)
        if rng.random() < 0.05:
            lines.append(["", "   ", "# between", "\t"][rng.integers(4)])
    text = ["\n", "\r\n", "\r"][rng.integers(3)].join(lines) + ["", "\n"][rng.integers(2)]
    encoding = ["utf-8", "utf-8-sig", "latin-1", "utf-16"][rng.integers(4)]
    return text.encode(encoding)
