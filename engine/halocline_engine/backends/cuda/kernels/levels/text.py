"""The body of kernels whose threads lie along K: a thread has a level of one or more columns.

For arrays that are contiguous along K. A thread loads what it needs of all its columns before
anything else, so that many loads are under way. Then values that other levels need go to shared
memory, round by round, with a barrier behind each, and last the results are computed. See
`schedule.levels.exchange` for what goes where, `tile` for how many levels and columns a block has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from halocline_engine.backends.cuda.kernels.levels.selects import (
    Head,
    Select,
    commons,
    merged,
    select_text,
    selects,
)
from halocline_engine.backends.cuda.kernels.levels.tile import parts_of, plan_of, shared_offsets
from halocline_engine.backends.cuda.kernels.levels.values import Values
from halocline_engine.backends.cuda.model.entries import Entry, Stride, Variant
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import indent, signed
from halocline_engine.backends.cuda.text.statements import HERE, Scope
from halocline_engine.errors import InternalError
from halocline_engine.ir.extent import Range
from halocline_engine.ir.nodes import Offset, Read
from halocline_engine.ir.types import DType
from halocline_engine.schedule.levels.exchange import LevelPlan, Load, Node, Rows
from halocline_engine.schedule.levels.terms import Ref
from halocline_engine.schedule.nodes import Schedule

__all__ = ["levels_text"]


def levels_text(
    entry: Entry, schedule: Schedule, variant: Variant, scope: Scope, tile: Tile
) -> list[str]:
    """Return the body of a kernel whose threads lie along K."""
    plan = plan_of(entry, schedule, variant, tile)
    if plan is None:
        raise InternalError("A kernel has no levels that threads could share.")
    return _Code(plan, scope, tile, parts_of(plan, tile)).lines()


@dataclass(frozen=True, slots=True)
class _Code:
    """A plan, the names of its arrays, the share of a block, and how many blocks a column has."""

    plan: LevelPlan
    scope: Scope
    tile: Tile
    parts: int

    def lines(self) -> list[str]:
        lines = [*self._place(), *self._places_in_shared_memory(), *self._loads()]
        for number in range(self.plan.rounds):
            lines += self._round(number)
        return [*lines, *self._results()]

    def _place(self) -> Iterator[str]:
        """Yield which level and which columns the thread has."""
        tile, plan = self.tile, self.plan
        near, far = ("i", "j") if tile.along == 1 else ("j", "i")
        group, level = "(int)blockIdx.x", "(int)threadIdx.x"
        if plan.nodes:
            yield f"const int t = (int)threadIdx.y * {tile.block[0]} + (int)threadIdx.x;"
        if self.parts > 1:
            own = plan.own
            yield f"const int group = (int)blockIdx.x / {self.parts};"
            yield f"const int part = (int)blockIdx.x - group * {self.parts};"
            yield f"const int k0 = part * {tile.depth}{signed(own[0])};"
            yield f"const int k1 = min(k0 + {tile.depth}, {own[1]});"
            yield f"const int k = k0 + {level}{signed(plan.window[0])};"
            group = "group"
        else:
            yield f"const int k = {level}{signed(plan.levels[0])};"
        columns = tile.block[1] * tile.rows
        yield f"const int first = {group} * {columns} + (int)threadIdx.y;"
        yield f"const int last = n{near} - 1;"
        yield f"const int {far} = row + (int)blockIdx.y;"

    def _places_in_shared_memory(self) -> Iterator[str]:
        if not self.plan.nodes:
            return
        yield "extern __shared__ __align__(16) unsigned char shared[];"
        starts = shared_offsets(self.plan, self.tile)
        for number, node in enumerate(self.plan.nodes):
            kind = self._type(node)
            where = f"shared + {starts[node.slot]}"
            yield f"{kind}* const s{number} = reinterpret_cast<{kind}*>({where}) + t;"
            yield f"{kind} r{number}[{self.tile.rows}];"

    def _loads(self) -> list[str]:
        """Return the loads: all that many levels need, then what few do."""
        lines: list[str] = []
        groups: dict[Range | None, list[tuple[int, Load]]] = {None: []}
        for number, load in enumerate(self.plan.loads):
            kind = TYPES[self.scope.dtypes[self._read(load).name]]
            size = f"[{self.tile.rows}]" if self._is_wide(load) else ""
            lines.append(f"{kind} x{number}{size};")
            groups.setdefault(None if load.early else load.levels, []).append((number, load))
        for span, loads in groups.items():
            own = self._loads_of(loads)
            lines += own if span is None else [f"if ({_between(span)}) {{", *indent(own), "}"]
        return lines

    def _loads_of(self, loads: Sequence[tuple[int, Load]]) -> list[str]:
        """Return loads: first of what all columns have in common, then column by column."""
        lines = [f"const index_t h{n} = {self._height(load)};" for n, load in loads]
        for number, load in loads:
            if not self._is_wide(load):
                array = self.scope.arrays[self._read(load).name]
                lines.append(f"x{number} = {array}[h{number}];")
        wide = [(number, self._read(load)) for number, load in loads if self._is_wide(load)]
        body = [f"x{n}[q] = {self._at(read.name, read.offset, f'h{n}')};" for n, read in wide]
        return [*lines, *self._columns(body, [read.name for _, read in wide])]

    def _round(self, number: int) -> list[str]:
        """Return what fills places, with a barrier behind, and before if places change hands."""
        nodes = [(m, n) for m, n in enumerate(self.plan.nodes) if n.round == number]
        taken = self._is_taken_over([node for _, node in nodes])
        lines: list[str] = []
        for m, node in nodes:
            values = self._values()
            body = [*values.lines([(node.term, 0)], own=node)]
            body.append(f"r{m}[q] = {values.last()};")
            if not taken:
                body.append(f"s{m}[q * {self.tile.threads}] = r{m}[q];")
            lines += self._where(node, self._columns(body, ()))
        if taken:
            lines.append("__syncthreads();")
            for m, node in nodes:
                store = [f"s{m}[q * {self.tile.threads}] = r{m}[q];"]
                lines += self._where(node, self._columns(store, ()))
        return [*lines, "__syncthreads();"]

    def _is_taken_over(self, nodes: Sequence[Node]) -> bool:
        """Return whether a place is filled that threads may still read in the same round."""
        earlier = [node for node in self.plan.nodes if node.round < nodes[0].round]
        return any(
            old.slot == new.slot and old.last >= new.round for new in nodes for old in earlier
        )

    def _results(self) -> list[str]:
        """Return what computes and stores the results of a level."""
        merged = self._united()
        if merged is not None:
            return merged
        lines: list[str] = []
        for number, rows in enumerate(self.plan.rows):
            values = self._values()
            body = values.lines([ref for _, ref in rows.results])
            names = [name for name, _ in rows.results]
            code = self._columns([*body, *self._stores(names, values.results)], names)
            test = self._test(rows.levels, (0, 0))
            start = "if" if number == 0 else "} else if"
            lines += [f"{start} ({test}) {{", *indent(code)] if test else code
        return [*lines, "}"] if lines[0].startswith("if (") else lines

    def _united(self) -> list[str] | None:
        """Return the same where sections differ only below what all of them compute."""
        rows = sorted(self.plan.rows, key=lambda each: each.levels)
        names = [name for name, _ in rows[0].results]
        beside = all(one.levels[1] == two.levels[0] for one, two in pairwise(rows))
        if len(rows) == 1 or not beside or any([n for n, _ in r.results] != names for r in rows):
            return None
        trees = [merged(self.plan, refs) for refs in zip(*map(_refs, rows), strict=True)]
        if not all(isinstance(tree, Head) for tree in trees):
            return None
        known: dict[Select | Ref, str] = {}
        body = self._chosen(rows, dict.fromkeys(c for tree in trees for c in selects(tree)), known)
        shared = list(dict.fromkeys(ref for tree in trees for ref in commons(tree)))
        values = self._values()
        body += values.lines(shared)
        known |= dict(zip(shared, values.results, strict=True))
        texts = [select_text(tree, self.plan, known, dict(self.scope.scalars)) for tree in trees]
        code = self._columns([*body, *self._stores(names, texts)], names)
        test = self._test(self.plan.own, (0, 0))
        return [f"if ({test}) {{", *indent(code), "}"] if test else code

    def _chosen(
        self, rows: Sequence[Rows], found: Iterable[Select], known: dict[Select | Ref, str]
    ) -> list[str]:
        """Return what gives each choice its value; `known` is told what they are called."""
        each = list(found)
        lines: list[str] = []
        for number, choice in enumerate(each):
            known[choice] = f"c{number}"
            kind = TYPES[self.plan.terms[choice.refs[0][0]].node.dtype]
            lines.append(f"{kind} c{number};")
        longest = max(range(len(rows)), key=lambda n: rows[n].levels[1] - rows[n].levels[0])
        order = [*(n for n in range(len(rows)) if n != longest), longest]
        for place, number in enumerate(order):
            values = self._values()
            body = values.lines([choice.refs[number] for choice in each])
            body += [f"c{n} = {text};" for n, text in enumerate(values.results)]
            start = "if" if place == 0 else "} else if"
            test = f"{start} ({_between(rows[number].levels)}) {{"
            lines += [test if number != longest else "} else {", *indent(body)]
        return [*lines, "}"]

    def _stores(self, names: Sequence[str], values: Sequence[str]) -> list[str]:
        """Return the stores of a column, if there is one."""
        stores: list[str] = []
        for name, value in zip(names, values, strict=True):
            place = self._at(name, HERE, self._level(name, "k", 0))
            bare = self.scope.dtypes[name] is DType.BOOL or name not in self.scope.fields
            stores.append(f"{place} = {value};" if bare else f"__stcs(&{place}, {value});")
        inside = f"if (first + q * {self.tile.block[1]} <= last)"
        if len(stores) == 1:
            return [f"{inside} {stores[0]}"]
        return [f"{inside} {{", *indent(stores), "}"]

    def _values(self) -> Values:
        return Values(self.plan, self.scope, self._at_hand, self._loaded)

    def _at_hand(self, ref: Ref) -> str | None:
        """Return what the thread has in the column `q`: filled by itself, by others, or loaded."""
        number, shift = ref
        if self.plan.node_of(ref) is not None:
            place = next(n for n, node in enumerate(self.plan.nodes) if node.term == number)
            if shift == 0:
                return f"r{place}[q]"
            return f"s{place}[q * {self.tile.threads}{signed(shift)}]"
        if isinstance(self.plan.terms[number].node, Read):
            return self._loaded(ref)
        return None

    def _loaded(self, ref: Ref) -> str:
        places = enumerate(self.plan.loads)
        number = next(n for n, load in places if (load.term, load.shift) == ref)
        return f"x{number}[q]" if self.plan.terms[ref[0]].wide else f"x{number}"

    def _where(self, node: Node, lines: list[str]) -> list[str]:
        tests = [self._test(span, node.window) for span in node.levels]
        if not all(tests):
            return lines
        test = tests[0] if len(tests) == 1 else " || ".join(f"({each})" for each in tests)
        return [f"if ({test}) {{", *indent(lines), "}"]

    def _test(self, span: Range, window: Range) -> str:
        """Return what says that a thread's level is in a range, and near enough to the block's."""
        reach, tests = self.plan.levels, list[str]()
        if self.parts > 1:
            own = self.plan.own
            reach = own[0] + window[0], own[1] + window[1]
            tests.append(f"k >= k0{signed(window[0])} && k < k1{signed(window[1])}")
        if span[0] > reach[0]:
            tests.append(f"k >= {span[0]}")
        if span[1] < reach[1]:
            tests.append(f"k < {span[1]}")
        return " && ".join(tests)

    def _columns(self, body: list[str], names: Iterable[str]) -> list[str]:
        """Return statements for each of the thread's columns; `names` are the arrays they touch."""
        if not body:
            return []
        near = "ij"[self.tile.along - 1]
        kinds = dict(sorted(self.scope.kinds[name] for name in names))
        column = f"min(first + q * {self.tile.block[1]}, last)"
        lines = [f"[[maybe_unused]] const int {near} = {column};"] if kinds else []
        for number, kind in kinds.items():
            terms = [
                f"(index_t){axis}" if stride is Stride.ONE else f"(index_t){axis} * s{number}{axis}"
                for axis, stride in zip("ij", kind, strict=False)
                if stride is not Stride.NONE
            ]
            lines.append(f"const index_t o{number} = {' + '.join(terms) or '0'};")
        head = f"for (int q = 0; q < {self.tile.rows}; ++q) {{"
        return ["#pragma unroll", head, *indent([*lines, *body]), "}"]

    def _at(self, name: str, offset: Offset, level: str) -> str:
        """Return an element of the column at hand, at a horizontal offset."""
        number, kind = self.scope.kinds[name]
        text = f"o{number} + {level}"
        for axis, stride, steps in zip("ij", kind, offset, strict=False):
            if steps and stride is not Stride.NONE:
                factor = "" if stride is Stride.ONE else f" * s{number}{axis}"
                text += f"{signed(steps)}{factor}"
        return f"{self.scope.arrays[name]}[{text}]"

    def _height(self, load: Load) -> str:
        """Return the offset along K of what a thread loads, at most that of the ends."""
        if not load.early:
            return self._level(self._read(load).name, "k", load.shift)
        low, high = load.levels
        own, alone = self.plan.levels, self.parts == 1
        level = "k"
        if not alone or low > own[0]:
            level = f"max({level}, {low})"
        if not alone or high < own[1]:
            level = f"min({level}, {high - 1})"
        return self._level(self._read(load).name, level, load.shift)

    def _level(self, name: str, level: str, shift: int) -> str:
        number, kind = self.scope.kinds[name]
        moved = f"{level}{signed(shift)}"
        match kind[2]:
            case Stride.NONE:
                return "0"
            case Stride.ONE:
                return moved
            case Stride.ANY:
                return f"(index_t)({moved}) * s{number}k"

    def _is_wide(self, load: Load) -> bool:
        return self.plan.terms[load.term].wide

    def _read(self, load: Load) -> Read:
        node = self.plan.terms[load.term].node
        if not isinstance(node, Read):
            raise InternalError("A load is not a read.")
        return node

    def _type(self, node: Node) -> str:
        return TYPES[self.plan.terms[node.term].node.dtype]


def _refs(rows: Rows) -> tuple[Ref, ...]:
    return tuple(ref for _, ref in rows.results)


def _between(span: Range) -> str:
    if span[1] - span[0] == 1:
        return f"k == {span[0]}"
    return f"k >= {span[0]} && k < {span[1]}"
