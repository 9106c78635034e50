"""The body of one section on a tile of points: loads, then all points, then stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from halocline_engine.backends.cuda.kernels.points.planes import Plane
from halocline_engine.backends.cuda.kernels.points.windows import Place, Window, chunks, windows
from halocline_engine.backends.cuda.model.entries import Entry, Kind, Stride
from halocline_engine.backends.cuda.model.intervals import is_single
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import indent, section_body, signed
from halocline_engine.backends.cuda.text.statements import Scope, element
from halocline_engine.ir.extent import Horizontal
from halocline_engine.ir.nodes import Binary, Call, Offset, Read, Select, Statement, While
from halocline_engine.ir.walk import (
    assignments,
    children,
    expressions,
    head,
    reads,
    statements,
    walk,
)
from halocline_engine.schedule.nodes import Section
from halocline_engine.schedule.rare import rare_reads
from halocline_engine.schedule.storage.coverage import assigns, exposed

__all__ = [
    "VECTOR",
    "TileBody",
    "has_branches",
    "has_loops",
    "loaded_offsets",
    "outputs",
    "slot",
    "tile_body",
    "unconditional",
]

#: The most bytes that one load or store moves.
VECTOR = 16
#: Functions without a branch.
_STRAIGHT = frozenset(("abs", "min", "max", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite"))


def loaded_offsets(section: Section, entry: Entry) -> dict[str, list[Offset]]:
    """Return where a section reads the arrays that it does not write, by array.

    Other sections may write them, on other levels. Reads at levels that only a run knows are not
    among them, nor those of narrow regions, which are loaded where they are used.
    """
    written = {assign.target for assign in assignments(section.body)}
    rare = rare_reads(section.body, entry.narrow)
    found: dict[str, dict[Offset, None]] = {}
    for read in reads(section.body):
        known = read.name in entry.arrays and read.name not in written
        if known and read.level is None and (read.name, read.offset) not in rare:
            found.setdefault(read.name, {})[read.offset] = None
    return {name: list(offsets) for name, offsets in found.items()}


def outputs(section: Section, entry: Entry) -> dict[str, bool]:
    """Return the arrays that are kept in registers until they are stored, after all points.

    The value says whether the old elements are needed. An array that is written at some points
    only, and never read, is not among them: its elements are stored where they are computed.
    """
    found: dict[str, bool] = {}
    for name in dict.fromkeys(a.target for a in assignments(section.body)):
        if name in entry.arrays:
            is_read = bool(exposed(section, name))
            if is_read or assigns(section.body, name):
                found[name] = is_read
    return found


def unconditional(body: Sequence[Statement]) -> Iterator[Read]:
    """Yield what every point reads, whatever its conditions are."""
    pending = [expr for statement in body for expr in head(statement)]
    while pending:
        match pending.pop():
            case Read() as read:
                yield read
            case Select(condition):
                pending.append(condition)
            case expr:
                pending.extend(children(expr))


def _perhaps_assigned(section: Section, entry: Entry) -> frozenset[str]:
    """Return the outputs that points may leave as they are: what is not assigned is not stored."""
    kept = outputs(section, entry)
    return frozenset(name for name in kept if not assigns(section.body, name))


def _kept(
    section: Section, entry: Entry, tile: Tile
) -> tuple[dict[str, list[Offset]], dict[str, bool]]:
    """Return what is loaded first, as `loaded_offsets` do, and the `outputs` that are kept.

    A thread of one point shares nothing: what conditions decide on stays under them.
    """
    loaded, kept = loaded_offsets(section, entry), outputs(section, entry)
    if tile.width * tile.rows * tile.depth > 1:
        return loaded, kept
    always = {(read.name, read.offset) for read in unconditional(section.body)}
    perhaps = _perhaps_assigned(section, entry)
    sure = {name: [one for one in found if (name, one) in always] for name, found in loaded.items()}
    return {name: found for name, found in sure.items() if found}, {
        name: is_read
        for name, is_read in kept.items()
        if name not in perhaps and (not is_read or (name, (0, 0, 0)) in always)
    }


def tile_body(body: TileBody, offsets: Sequence[str], *, alone: bool) -> list[str]:
    """Return the code of a section on a tile, for the level k or, in depth, from k to end.

    `offsets` declares the offset of the tile's first point for each stride kind; `alone` says that
    the kernel has no other section, and this one any number of levels.
    """
    tile = body.tile
    # Compilers would move loads to their first use, behind quotients, one wait after the other.
    computed = ["loads_before();"] * has_branches(body.section) + body.points()
    if tile.depth == 1:
        return [*offsets, *body.declarations(), *body.loads(), *computed, *body.stores()]
    moving = [line.removeprefix("const ") for line in offsets]
    level = [*body.loads(), *computed, *body.stores(), *body.moves(), *body.steps()]
    if not is_single(body.section.interval):
        # Compilers write out loops only where the other sections are not in their way: ptxas 13.0
        # ran such loops beyond their ends where it knew that they have few levels.
        level = [
            *([] if alone else ["#pragma unroll 1"]),
            "for (; k < end; ++k) {",
            *indent(level),
            "}",
        ]
    return [*moving, *body.declarations(), *body.first_loads(), *level]


def has_loops(entry: Entry) -> bool:
    """Whether points of a kernel take turns of loops."""
    bodies = (section.body for section in entry.kernel.sections)
    return any(isinstance(one, While) for body in bodies for one in statements(body))


def has_branches(section: Section) -> bool:
    """Whether compilers make branches of what a section computes: of quotients and functions."""
    return any(
        (isinstance(node, Binary) and node.operator in {"/", "%"})
        or (isinstance(node, Call) and node.function not in _STRAIGHT)
        for expr in expressions(section.body)
        for node in walk(expr)
    )


@dataclass(frozen=True, slots=True)
class TileBody:
    """A section with the windows of the arrays it loads and the outputs it keeps.

    `loaded` are the offsets at which every point finds an array in its windows. `perhaps` has the
    outputs that points may leave as they are. `planes` says which of the arrays a block keeps in
    shared memory, where the threads load from them at each level. `extent` is given for a tile that
    an edge of the domain cuts: nothing that lies outside is loaded from memory or stored.
    """

    section: Section
    scope: Scope
    tile: Tile
    loaded: Mapping[str, Sequence[Offset]]
    windows: Mapping[str, tuple[Window, ...]]
    outputs: Mapping[str, bool]
    perhaps: frozenset[str]
    planes: Mapping[str, Plane] = field(default_factory=dict[str, Plane])
    extent: Horizontal | None = None

    @staticmethod
    def of(
        section: Section,
        entry: Entry,
        scope: Scope,
        tile: Tile,
        planes: Mapping[str, Plane] | None = None,
        *,
        cut: bool = False,
    ) -> TileBody:
        """Return the body of a section on a tile, which an edge of the domain may `cut`."""
        planes = planes or {}
        loaded, kept = _kept(section, entry, tile)
        perhaps = _perhaps_assigned(section, entry) & kept.keys()
        found = {
            name: windows(
                offsets,
                scope.kinds[name][1],
                width=tile.width,
                rows=tile.rows,
                ring=tile.depth > 1,
            )
            for name, offsets in loaded.items()
        }
        extent = entry.kernel.extent if cut else None
        return TileBody(section, scope, tile, loaded, found, kept, perhaps, planes, extent)

    def declarations(self) -> Iterator[str]:
        """Yield the registers of windows and outputs."""
        for name, found in self.windows.items():
            for window in found:
                rows, columns = window.shape
                kind = TYPES[self.scope.dtypes[name]]
                yield f"{kind} {self._window(name, window.level)}[{rows}][{columns}];"
        for name in self.outputs:
            kind = TYPES[self.scope.dtypes[name]]
            yield f"{kind} {self._output(name)}[{self.tile.rows}][{self.tile.width}];"
            if name in self.perhaps:
                yield f"bool {self._assigned(name)}[{self.tile.rows}];"

    def first_loads(self) -> Iterator[str]:
        """Yield the loads of what the first level would have had from the level before it."""
        for name, found in self.windows.items():
            for window in found:
                yield from self._load(name, window, window.moved)

    def plane_loads(self) -> Iterator[str]:
        """Yield the loads of a level from shared memory."""
        for name in self.planes:
            for window in self.windows[name]:
                yield from self._load_from_plane(name, window)

    def loads(self) -> Iterator[str]:
        """Yield the loads of a level from memory."""
        for name, found in self.windows.items():
            for window in found:
                if name not in self.planes:
                    yield from self._load(name, window, window.loaded)
        for name, is_read in self.outputs.items():
            if is_read:
                yield from self._transfer(name, "load")
            if name in self.perhaps:
                yield from (f"{self._assigned(name)}[{r}] = false;" for r in range(self.tile.rows))

    def stores(self) -> Iterator[str]:
        """Yield the stores of a level."""
        for name in self.outputs:
            yield from self._transfer(name, "store")

    def moves(self) -> Iterator[str]:
        """Yield what hands elements to the window below, lowest windows first."""
        for name, found in self.windows.items():
            for low, high in pairwise(found):
                for place, size in chunks(low.moved, (self.tile.width,), aligned=False):
                    here = self._register(name, low, place)
                    yield f"move<{size}>(&{here}, &{self._register(name, high, place)});"

    def steps(self) -> Iterator[str]:
        """Yield the steps of the offsets to the next level."""
        body = self.section.body
        names = {*(read.name for read in reads(body)), *(a.target for a in assignments(body))}
        kinds = {self.scope.kinds[name] for name in names if name in self.scope.kinds}
        for number, kind in sorted(kinds):
            if kind[2] is not Stride.NONE:
                yield f"o{number} += s{number}k;"

    def points(self) -> list[str]:
        """Return the statements, for every point of the tile."""
        values = {
            (name, offset): self._value(name, window, offset)
            for name, found in self.windows.items()
            for offset in self.loaded[name]
            for window in found
            if _holds(window, self.scope.kinds[name][1], offset)
        }
        outputs = {name: f"{self._output(name)}[r][e]" for name in self.outputs}
        behind = {name: f"{self._assigned(name)}[r] = true;" for name in self.perhaps}
        scope = replace(self.scope, values=values, outputs=outputs, behind=behind)
        return [
            "#pragma unroll",
            f"for (int r = 0; r < {self.tile.rows}; ++r) {{",
            "  #pragma unroll",
            f"  for (int e = 0; e < {self.tile.width}; ++e) {{",
            *indent(indent(section_body(self.section, scope))),
            "  }",
            "}",
        ]

    def _value(self, name: str, window: Window, offset: Offset) -> str:
        """Return the register of what the point (e, r) reads."""
        kind, (row, column) = self.scope.kinds[name][1], window.first
        across = _index("e", offset[0] - column) if kind[0] is not Stride.NONE else "0"
        along = _index("r", offset[1] - row) if kind[1] is not Stride.NONE else "0"
        return f"{self._window(name, window.level)}[{along}][{across}]"

    def _register(self, name: str, window: Window, place: Place) -> str:
        row, column = window.first
        return f"{self._window(name, window.level)}[{place[0] - row}][{place[1] - column}]"

    def _load(self, name: str, window: Window, places: frozenset[Place]) -> Iterator[str]:
        """Yield the loads of places of a window."""
        for (row, column), size in chunks(places, self._at_once(name)):
            register = self._register(name, window, (row, column))
            source = element(self._at_first(), name, (column, row, window.level))
            line = _transfer("load", size, register, source)
            yield self._where_inside(name, (row, column), self.loaded[name]) + line

    def _load_from_plane(self, name: str, window: Window) -> Iterator[str]:
        plane, array = self.planes[name], self.scope.arrays[name]
        for place, size in chunks(window.loaded, self._sizes(name)):
            at = f"at_{array} + {plane.place(place)}"
            source = f"p_{array}[{slot(array, window.level)} + {at}]"
            yield _transfer("load", size, self._register(name, window, place), source)

    def _transfer(self, name: str, verb: str) -> Iterator[str]:
        """Yield the loads or stores of an output."""
        places = [(row, e) for row in range(self.tile.rows) for e in range(self.tile.width)]
        for (row, column), size in chunks(places, self._at_once(name)):
            register = f"{self._output(name)}[{row}][{column}]"
            memory = element(self._at_first(), name, (column, row, 0))
            to, source = (register, memory) if verb == "load" else (memory, register)
            line = _transfer(verb, size, to, source)
            if verb == "store" and name in self.perhaps:
                line = f"if ({self._assigned(name)}[{row}]) {line}"
            yield self._where_inside(name, (row, column), ((0, 0, 0),)) + line

    def _where_inside(self, name: str, place: Place, reads: Sequence[Offset]) -> str:
        """Return the condition of a transfer in a cut tile, where there is one."""
        if self.extent is None:
            return ""
        kind, (row, column) = self.scope.kinds[name][1], place
        test = _inside(
            self.extent,
            f"({column})" if kind[0] is not Stride.NONE else "",
            f"({row})" if kind[1] is not Stride.NONE else "",
            reads,
        )
        return f"if ({test}) " if test else ""

    def _at_first(self) -> Scope:
        return replace(self.scope, point=("", ""))

    def _at_once(self, name: str) -> tuple[int, ...]:
        """Return the lengths that may be moved to or from memory at once."""
        return self._sizes(name) if self.extent is None else (1,)

    def _sizes(self, name: str) -> tuple[int, ...]:
        """Return the lengths in which elements of an array are moved, from long to short."""
        if name not in self.scope.aligned or self.scope.kinds[name][1][0] is not Stride.ONE:
            return (1,)
        most = VECTOR // self.scope.dtypes[name].itemsize
        return tuple(n for n in (16, 8, 4, 2) if n <= most and n <= self.tile.width)

    def _window(self, name: str, level: int) -> str:
        suffix = "here" if level == 0 else f"{'below' if level < 0 else 'above'}{abs(level)}"
        return f"{self.scope.arrays[name]}_{suffix}"

    def _assigned(self, name: str) -> str:
        return f"{self.scope.arrays[name]}_assigned"

    def _output(self, name: str) -> str:
        return f"{self.scope.arrays[name]}_new"


def _inside(extent: Horizontal, column: str, row: str, reads: Sequence[Offset]) -> str:
    """Return the test that an element is one of those that points inside read so."""
    (i_low, _), _ = extent
    low, high = min(i for i, _, _ in reads), max(i for i, _, _ in reads)
    tests: list[str] = []
    if column:
        first, end = signed(i_low + low).lstrip(" +").replace("- ", "-") or "0", signed(high)
        tests += [f"i + {column} >= {first}", f"i + {column} < i1{end}"]
    if row:
        tests.append(f"j + {row} < j1{signed(max(j for _, j, _ in reads))}")
    return " && ".join(tests)


def _holds(window: Window, kind: Kind, offset: Offset) -> bool:
    """Whether a window has what the first point reads at an offset."""
    i, j, k = (0 if step is Stride.NONE else n for step, n in zip(kind, offset, strict=True))
    return window.level == k and (j, i) in window.places


def slot(array: str, level: int) -> str:
    """Return the variable that says where in the ring of an array a level lies."""
    return f"slot_{array}_{'below' if level < 0 else 'above'}{abs(level)}"


def _transfer(verb: str, size: int, to: str, source: str) -> str:
    """Return the code that moves some neighbouring elements, or one."""
    return f"{verb}<{size}>(&{to}, &{source});" if size > 1 else f"{to} = {source};"


def _index(name: str, offset: int) -> str:
    if offset == 0:
        return name
    return f"{name} {'+' if offset > 0 else '-'} {abs(offset)}"
