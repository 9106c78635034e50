"""The body of FORWARD and BACKWARD kernels whose warps move their columns in chunks of levels.

A block is a warp. It brings the next chunk of each array to shared memory while its threads compute
the levels of one, a column each, and then brings what they wrote to memory. It does so for several
sets of columns, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from halocline_engine.backends.cuda.kernels.column_chunks.moves import (
    ChunkMoves,
    first_level,
    last_level,
)
from halocline_engine.backends.cuda.kernels.column_chunks.windows import (
    COLUMNS,
    PassWindows,
    windows_of,
)
from halocline_engine.backends.cuda.kernels.columns.flat_fields import (
    flat_fields,
    flat_loads,
    flat_stores,
    with_flat_fields,
)
from halocline_engine.backends.cuda.kernels.columns.passes import (
    Carry,
    LevelVariables,
    always_assigned,
)
from halocline_engine.backends.cuda.kernels.columns.placement import (
    placement_of,
    with_copies,
    with_copies_named,
)
from halocline_engine.backends.cuda.kernels.columns.text import stacked_places
from halocline_engine.backends.cuda.model.entries import Entry, Stride, Variant
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import bound, indent, section_body, signed
from halocline_engine.backends.cuda.text.statements import HERE, Scope, element
from halocline_engine.errors import InternalError
from halocline_engine.ir.nodes import Offset
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import assignments, reads, targets_of
from halocline_engine.schedule.nodes import Schedule, Section
from halocline_engine.schedule.storage.coverage import exposed

__all__ = ["chunks_text"]


def chunks_text(
    entry: Entry, schedule: Schedule, variant: Variant, scope: Scope, tile: Tile
) -> list[str]:
    """Return the body of a kernel, one pass after the other."""
    entry, schedule, variant = with_copies(entry, schedule, variant, tile)
    scope = with_copies_named(scope, entry)
    passes = windows_of(entry, schedule, variant, tile)
    if passes is None:
        raise InternalError(f"Kernel '{entry.name}' has no windows: expected a tile that fits.")
    placement = placement_of(entry.kernel, schedule, tile)
    flat = flat_fields(entry.kernel)
    stacked = dict.fromkeys(placement.close - placement.variables, COLUMNS)
    scope = replace(with_flat_fields(scope, flat), stacked=stacked)
    carried = {name for one in passes for carry in one.carried for name in carry.names}
    lines = [*_offsets(passes, scope, tile.chunk), *flat_loads(scope, flat)]
    lines += [
        f"{TYPES[scope.dtypes[name]]} before_{scope.arrays[name]} = 0;"
        for name in entry.arrays
        if name in carried
    ]
    for one in passes:
        moves = ChunkMoves(one, scope, tile.chunk)
        writer = _PassText(scope, entry, one, tile.chunk, placement.variables, moves)
        lines += ["{", *indent(writer.lines()), "}"]
    stores = flat_stores(scope, flat)
    # The last warp has threads without a column, which only loaded what another one has.
    lines += ["if (lane < own) {", *indent(stores), "}"] if stores else []
    places = stacked_places(placement, scope, tile, "lane")
    return _for_each_set(entry, variant, places, lines)


def _for_each_set(entry: Entry, variant: Variant, places: list[str], lines: list[str]) -> list[str]:
    """Return what a block does for each set of columns, between what it does once.

    Each thread has the point along I and J of its column; the last ones compute none.
    """
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    size = {"i": f"ni{signed(i_high - i_low)}", "j": f"nj{signed(j_high - j_low)}"}
    low = {"i": signed(i_low), "j": signed(j_low)}
    near, far = "ji" if variant.near else "ij"
    start, step = f"(int)blockIdx.x * {COLUMNS}", f"(int)gridDim.x * {COLUMNS}"
    return [
        "extern __shared__ __align__(16) unsigned char chip[];",
        "const int lane = (int)threadIdx.x;",
        *places,
        f"const int row_size = {size[near]}, total = row_size * ({size[far]});",
        f"for (int first = {start}; first < total; first += {step}) {{",
        f"  const int own = min({COLUMNS}, total - first);",
        "  const int column = first + min(lane, own - 1);",
        f"  [[maybe_unused]] const int {near} = column % row_size{low[near]};",
        f"  [[maybe_unused]] const int {far} = column / row_size{low[far]};",
        *indent(lines),
        "}",
    ]


def _offsets(passes: tuple[PassWindows, ...], scope: Scope, chunk: int) -> Iterator[str]:
    """Yield the offsets of the columns whose levels a thread moves, for each kind of array."""
    moved = {w.name for one in passes for w in one.windows if not w.own}
    for number, kind in sorted({scope.kinds[name] for name in moved}):
        terms = [
            f"(index_t){axis}" if stride is Stride.ONE else f"(index_t){axis} * s{number}{axis}"
            for axis, stride in zip("ij", kind, strict=False)
            if stride is not Stride.NONE
        ]
        yield f"index_t columns{number}[{chunk}];"
        yield f"find_columns(columns{number}, {' + '.join(terms) or '(index_t)0'});"


@dataclass(frozen=True, slots=True)
class _PassText(LevelVariables):
    """Writes one pass, between the moves of its chunks."""

    entry: Entry
    one: PassWindows
    chunk: int
    variables: frozenset[str]
    moves: ChunkMoves

    def lines(self) -> list[str]:
        """Return the pass: the first chunks, then chunk after chunk."""
        ends = [section.interval for section in self.one.one.sections]
        first, last = f"begin / {self.chunk}", f"(end - 1) / {self.chunk}"
        if self._forward:
            loop = f"for (int m = {first}; m <= {last}; ++m) {{"
        else:
            first, loop = last, f"for (int m = {last}; m >= {first}; --m) {{"
        return [
            f"const int begin = {first_level(ends)}, end = {last_level(ends)};",
            *self.moves.declarations(),
            f"[[maybe_unused]] const int initial = {first};",
            *self.moves.prologue(),
            loop,
            *indent(self.moves.loads()),
            "  copy_async_commit();",
            "  copy_async_wait<1>();",
            "  __syncwarp();",
            "  if (lane < own) {",
            *indent(indent(self._levels())),
            "  }",
            "  __syncwarp();",
            *indent(self.moves.stores()),
            "  __syncwarp();",
            "}",
            "copy_async_wait_all();",
            "__syncwarp();",
        ]

    @property
    def _forward(self) -> bool:
        return self.one.one.order is Order.FORWARD

    def _levels(self) -> list[str]:
        """Return the levels of a chunk, section after section."""
        lines: list[str] = []
        for section, carry in zip(self.one.one.sections, self.one.carried, strict=True):
            start, end = bound(section.interval.start), bound(section.interval.end)
            low, high = (
                f"max(m * {self.chunk}, {start})",
                f"min(m * {self.chunk} + {self.chunk}, {end})",
            )
            loop = f"for (int k = {low}; k < {high}; ++k) {{"
            first = start
            if not self._forward:
                loop = f"for (int k = {high} - 1; k >= {low}; --k) {{"
                first = f"{end} - 1"
            lines += [loop, *indent(self._level(section, carry, first)), "}"]
        return lines

    def _level(self, section: Section, carry: Carry, first: str) -> list[str]:
        """Return one level: statements, what it stores and what it hands on."""
        always = always_assigned(section)
        kept = [n for n in self.entry.arrays if n in always and n not in self.scope.outputs]
        values = {
            (read.name, read.offset): place
            for read in reads(section.body)
            if (place := self._place(read.name, read.offset)) is not None
        }
        handed = [n for n in self.entry.arrays if n in carry.handed and n not in always]
        values |= {(name, HERE): self._here(name) for name in handed}
        values |= {access: self._before(access[0]) for access in carry.before}
        written = {assign.target for assign in assignments(section.body)}
        outputs = {n: place for n in written if (place := self._place(n, HERE)) is not None}
        outputs |= {**self.scope.outputs, **{name: self._here(name) for name in kept}}
        scope = replace(self.scope, values=values, outputs=outputs)
        return [
            *self._offsets(self._direct(section, carry)),
            *self._first_of(carry, first),
            *(self._declared(name, section, carry) for name in (*kept, *handed)),
            *section_body(section, scope),
            *(
                f"{self._element(n, HERE)} = {self._here(n)};"
                for n in kept
                if n not in self.variables
            ),
            *(
                f"{self._before(n)} = {self._here(n)};"
                for n in self.entry.arrays
                if n in carry.handed
            ),
        ]

    def _direct(self, section: Section, carry: Carry) -> set[str]:
        """Return the arrays of a section that are looked up in memory."""
        windows = {window.name for window in self.one.windows}
        names = {name for name, _ in carry.looked_up(section)} | set(targets_of(section.body))
        return names & set(self.entry.arrays) - windows - self.variables - self.scope.outputs.keys()

    def _first_of(self, carry: Carry, first: str) -> Iterator[str]:
        """Yield the loads of what the first level of a section needs of the level before."""
        step = self.one.one.step
        test = "k > 0" if step < 0 else "k + 1 < nk"
        for name in self.entry.arrays:
            if name in carry.loaded:
                within = "" if name in self.scope.fields else f" && {test}"
                place = self._element(name, (0, 0, step))
                yield f"if (k == {first}{within}) {self._before(name)} = {place};"

    def _declared(self, name: str, section: Section, carry: Carry) -> str:
        kind, here = self._type(name), self._here(name)
        if (name, HERE) in carry.before:
            return f"{kind} {here} = {self._before(name)};"
        if HERE in exposed(section, name):
            return f"{kind} {here} = {self._element(name, HERE)};"
        return f"[[maybe_unused]] {kind} {here};"

    def _place(self, name: str, offset: Offset) -> str | None:
        """Return an element in a window, or None where there is none for it."""
        for number, window in enumerate(self.one.windows):
            if window.name == name and window.across == offset[:2]:
                return f"l{number}[{self.moves.place(window, f'k{signed(offset[2])}')}]"
        return None

    def _element(self, name: str, offset: Offset) -> str:
        return self._place(name, offset) or element(self.scope, name, offset)
