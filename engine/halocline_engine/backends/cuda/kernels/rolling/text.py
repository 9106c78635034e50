"""The body of kernels whose threads sweep up columns with a rolling window of levels.

For arrays that are contiguous along I. A thread has a few neighbouring columns and some levels. It
begins a few levels below, so that its window is full when its own levels begin. On the levels
between the ends, where all steps are alike, the elements of the next step are loaded before those
of this one are used. See `schedule.levels.rolling` for what is kept, and `tile` for the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from halocline_engine.backends.cuda.kernels.levels.values import Values
from halocline_engine.backends.cuda.kernels.rolling.tile import rolling_windows
from halocline_engine.backends.cuda.model.entries import Entry, Stride, Variant
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import indent, signed
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.errors import InternalError
from halocline_engine.ir.extent import Range
from halocline_engine.ir.nodes import Read
from halocline_engine.ir.types import DType
from halocline_engine.schedule.levels.exchange import Rows
from halocline_engine.schedule.levels.rolling import Ring, Rings
from halocline_engine.schedule.levels.terms import Ref
from halocline_engine.schedule.nodes import Schedule

__all__ = ["rolling_text"]

_VECTOR = 16


def rolling_text(
    entry: Entry, schedule: Schedule, variant: Variant, scope: Scope, tile: Tile
) -> list[str]:
    """Return the body of a kernel whose threads sweep up columns."""
    found = rolling_windows(entry, schedule, variant, tile.levels)
    if found is None:
        raise InternalError("A kernel has no levels that a thread could sweep up.")
    low, high = found.plan.own
    across = "(int)(blockIdx.x * blockDim.x + threadIdx.x)"
    lines = [
        f"const int i0 = {across}{f' * {tile.width}' if tile.width > 1 else ''};",
        "const int j = row + (int)(blockIdx.y * blockDim.y + threadIdx.y);",
        f"const int k0 = {low} + (int)blockIdx.z * {tile.depth};",
        f"const int k1 = min(k0 + {tile.depth}, {high});",
        "if (i0 >= ni || j >= nj) return;",
    ]
    whole = _RollingLoop(found, scope, tile.width, max(1, tile.ahead)).lines()
    if tile.width == 1:
        return [*lines, "const int i = i0;", *whole]
    one = _RollingLoop(found, scope, 1, 0).lines()
    return [
        *lines,
        f"if (i0 + {tile.width} <= ni) {{",
        "  const int i = i0;",
        *indent(whole),
        "} else {",
        "  for (int i = i0; i < ni; ++i) {",
        *indent(indent(one)),
        "  }",
        "}",
    ]


@dataclass(frozen=True, slots=True)
class _RollingLoop:
    """The code of a thread's columns, `width` of them, with loads of `ahead` levels under way.

    Where `ahead` is 0, each step loads its own.
    """

    rings: Rings
    scope: Scope
    width: int
    ahead: int

    def lines(self) -> list[str]:
        rings = self.rings
        low, high = rings.steady
        step = [
            *self._step_loads(),
            *self._nodes(always=False),
            *self._ends(),
            *self._ages(),
            *self._up(),
        ]
        begin = [*self._declared(), f"int k = k0{signed(rings.start)};", *self._offsets()]
        if not self.ahead:
            return [*begin, "for (; k < k1; ++k) {", *indent(step), "}"]
        return [
            *begin,
            f"const int first = min(max(k0, {low}), k1), stop = max(first, min({high}, k1));",
            "for (int half = 0;; ++half) {",
            "  const int end = half ? k1 : first;",
            "#pragma unroll 1",
            "  for (; k < end; ++k) {",
            *indent(indent(step)),
            "  }",
            "  if (half) break;",
            *indent(self._steady()),
            "}",
        ]

    def _steady(self) -> list[str]:
        """Return the loop over levels that are all alike; loads are a step ahead."""
        rings = self.rings
        rows = self.rings.plan.rows[rings.rows]
        last = self.ahead - 1
        body = [
            *self._taken(),
            f"const index_t more = min({self.ahead}, stop - 1 - k);",
            *self._loads(last, "more"),
            *self._nodes(always=True),
            *self._results(rows),
            *self._ages(),
            *self._up(),
        ]
        return [
            "if (k < stop) {",
            *indent(self._loads(0, "")),
            *(f"  {line}" for n in range(1, self.ahead) for line in self._later(n)),
            f"  #pragma unroll {self.ahead}",
            "  for (; k < stop; ++k) {",
            *indent(indent(body)),
            "  }",
            "}",
        ]

    def _declared(self) -> Iterator[str]:
        for term, ring in self._all():
            kind, size = self._type(term), self._size(term)
            names = [self._name(term, age) for age in range(ring.size)]
            if term in self.rings.streams:
                names += [self._next(term, n) for n in range(self.ahead)]
            yield f"{kind} {', '.join(f'{name}{size}' for name in names)};"

    def _all(self) -> list[tuple[int, Ring]]:
        return [*self.rings.streams.items(), *self.rings.nodes.items()]

    def _offsets(self) -> Iterator[str]:
        for number, kind in self._kinds():
            terms = [
                f"(index_t){axis}" if stride is Stride.ONE else f"(index_t){axis} * s{number}{axis}"
                for axis, stride in zip("ij", kind, strict=False)
                if stride is not Stride.NONE
            ]
            if kind[2] is not Stride.NONE:
                terms.append(f"(index_t)k * s{number}k")
            yield f"[[maybe_unused]] index_t o{number} = {' + '.join(terms) or '0'};"

    def _kinds(self) -> list[tuple[int, tuple[Stride, Stride, Stride]]]:
        names = {t.node.name for t in self.rings.plan.terms if isinstance(t.node, Read)}
        names |= {name for rows in self.rings.plan.rows for name, _ in rows.results}
        return sorted(dict(self.scope.kinds[name] for name in names).items())

    def _up(self) -> Iterator[str]:
        for number, kind in self._kinds():
            if kind[2] is not Stride.NONE:
                yield f"o{number} += s{number}k;"

    def _step_loads(self) -> Iterator[str]:
        """Yield the loads of one step, each where its element is needed at all."""
        for term, ring in self.rings.streams.items():
            own = self._load(term, self._newest(term), ring.newest, "")
            yield from (f"if ({self._test(ring)}) {{", *indent(list(own)), "}")

    def _loads(self, place: int, more: str) -> list[str]:
        """Return the loads of a later step into a place of the queue; `more` is how much later."""
        return [
            line
            for term, ring in self.rings.streams.items()
            for line in self._load(term, self._next(term, place), ring.newest, more)
        ]

    def _later(self, place: int) -> list[str]:
        more = f"const index_t more = min({place}, stop - 1 - k);"
        return ["{", *indent([more, *self._loads(place, "more")]), "}"]

    def _load(self, term: int, register: str, level: int, more: str) -> Iterator[str]:
        read = self._read(term)
        number, kind = self.scope.kinds[read.name]
        place, above = f"o{number}", more or str(level)
        if more and level:
            above = f"({more}{signed(level)})"
        if kind[2] is not Stride.NONE and above != "0":
            place += f" + {above} * s{number}k"
        return self._moved(register, f"{self.scope.arrays[read.name]}[{place}", term)

    def _moved(self, register: str, source: str, term: int) -> Iterator[str]:
        """Yield the loads of an element for each column; `source` lacks its last bracket."""
        if self.width == 1 or not self.rings.plan.terms[term].wide:
            size = "[0]" if self.rings.plan.terms[term].wide else ""
            yield f"{register}{size} = {source}];"
            return
        dtype = self.rings.plan.terms[term].node.dtype
        yield from _pieces("load", register, source, dtype, self.width)

    def _nodes(self, *, always: bool) -> Iterator[str]:
        """Yield the newest value of each node; under a test where not all steps have one."""
        for node in self.rings.plan.nodes:
            ring = self.rings.nodes.get(node.term)
            if ring is None:
                continue
            values = self._values(ring.newest)
            body = values.lines([(node.term, 0)], own=node)
            body.append(f"{self._newest(node.term)}[e] = {values.last()};")
            lines = self._columns(body)
            if always:
                yield from lines
            else:
                yield from (f"if ({self._test(ring)}) {{", *indent(lines), "}")

    def _ends(self) -> list[str]:
        """Return the results of a level, whichever section it is in."""
        lines: list[str] = []
        for number, rows in enumerate(self.rings.plan.rows):
            test = f"k >= {rows.levels[0]} && k < {rows.levels[1]}"
            lines.append(f"{'if' if number == 0 else '} else if'} ({test}) {{")
            lines += indent(self._results(rows))
        return ["if (k >= k0) {", *indent([*lines, "}"]), "}"]

    def _results(self, rows: Rows) -> list[str]:
        values = self._values(0)
        body = values.lines([ref for _, ref in rows.results])
        lines: list[str] = []
        stores: list[str] = []
        for n, ((name, _), value) in enumerate(zip(rows.results, values.results, strict=True)):
            dtype = self.scope.dtypes[name]
            lines.append(f"{TYPES[dtype]} y{n}[{self.width}];")
            body.append(f"y{n}[e] = {value};")
            number, _ = self.scope.kinds[name]
            place = f"{self.scope.arrays[name]}[o{number}"
            if self.width > 1:
                stores += _pieces("store", f"y{n}", place, dtype, self.width)
            else:
                stores.append(f"{place}] = y{n}[0];")
        return ["{", *indent([*lines, *self._columns(body), *stores]), "}"]

    def _taken(self) -> list[str]:
        """Return what makes elements that were under way the newest, and moves the queue up."""
        single: list[str] = []
        moves: list[str] = []
        for term in self.rings.streams:
            names = [self._newest(term), *(self._next(term, n) for n in range(self.ahead))]
            for to, source in pairwise(names):
                if self.rings.plan.terms[term].wide:
                    moves.append(f"{to}[e] = {source}[e];")
                else:
                    single.append(f"{to} = {source};")
        return [*single, *self._columns(moves)]

    def _ages(self) -> list[str]:
        """Return what makes each value one level older."""
        single: list[str] = []
        moves: list[str] = []
        for term, ring in self._all():
            wide = self.rings.plan.terms[term].wide
            for age in range(ring.size - 1, 0, -1):
                pair = self._name(term, age), self._name(term, age - 1)
                if wide:
                    moves.append(f"{pair[0]}[e] = {pair[1]}[e];")
                else:
                    single.append(f"{pair[0]} = {pair[1]};")
        return [*single, *self._columns(moves)]

    def _values(self, level: int) -> Values:
        """Return what computes values `level` levels above the step's."""

        def at_hand(ref: Ref) -> str | None:
            term, shift = ref
            if isinstance(self.rings.plan.terms[term].node, Read):
                return loaded(ref)
            age = self.rings.node((term, shift), level)
            return None if age is None else f"{self._name(term, age)}[e]"

        def loaded(ref: Ref) -> str:
            term = self.rings.plan.terms[ref[0]]
            age = self.rings.stream(ref, level)
            if age is not None:
                return f"{self._name(ref[0], age)}{'[e]' if term.wide else ''}"
            above = 0 if term.invariant else level + ref[1]
            return self._element(self._read(ref[0]), above)

        return Values(self.rings.plan, self.scope, at_hand, loaded)

    def _element(self, read: Read, level: int) -> str:
        """Return an element in memory, of the column e."""
        number, kind = self.scope.kinds[read.name]
        text = f"{self.scope.arrays[read.name]}[o{number}"
        if kind[0] is not Stride.NONE:
            text += " + e" if kind[0] is Stride.ONE else f" + e * s{number}i"
        if level and kind[2] is not Stride.NONE:
            text += f"{signed(level)} * s{number}k"
        return f"{text}]"

    def _columns(self, body: list[str]) -> list[str]:
        if not body:
            return []
        head = f"for (int e = 0; e < {self.width}; ++e) {{"
        return ["#pragma unroll", head, *indent(body), "}"]

    def _test(self, ring: Ring) -> str:
        """Return whether a step makes a value: it is needed, and there is one at its level."""
        spans = [_span(span, ring.newest) for span in ring.levels]
        inside = spans[0] if len(spans) == 1 else " || ".join(f"({each})" for each in spans)
        return f"k >= k0{signed(ring.start)} && ({inside})"

    def _read(self, term: int) -> Read:
        node = self.rings.plan.terms[term].node
        if not isinstance(node, Read):
            raise InternalError("What is loaded is not a read.")
        return node

    def _type(self, term: int) -> str:
        return TYPES[self.rings.plan.terms[term].node.dtype]

    def _size(self, term: int) -> str:
        return f"[{self.width}]" if self.rings.plan.terms[term].wide else ""

    def _name(self, term: int, age: int) -> str:
        return f"{'x' if term in self.rings.streams else 'r'}{term}_{age}"

    def _newest(self, term: int) -> str:
        return self._name(term, 0)

    def _next(self, term: int, place: int) -> str:
        return f"x{term}_in{place + 1}"


def _span(span: Range, above: int) -> str:
    return f"k >= {span[0] - above} && k < {span[1] - above}"


def _pieces(verb: str, register: str, place: str, dtype: DType, width: int) -> Iterator[str]:
    """Yield transfers of 16 bytes or what there is; `place` lacks its last bracket."""
    size = min(width, _VECTOR // dtype.itemsize)
    for start in range(0, width, size):
        there = f"{place}{signed(start)}]"
        here = f"{register}[{start}]"
        to, source = (here, there) if verb == "load" else (there, here)
        yield f"{verb}<{size}>(&{to}, &{source});" if size > 1 else f"{to} = {source};"
