"""The body of one section on a tile of points that is loaded from planes in shared memory.

All threads of a block do the same at every level, also those whose tile an edge of the domain cuts:
what they compute of points outside is never stored. A barrier stands at the start of each
level: behind it every thread sees the newest level, and no thread reads the oldest any more, whose
place the next copy takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.points.planes import Plane
from halocline_engine.backends.cuda.kernels.points.section import TileBody, slot
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import bound, indent, signed
from halocline_engine.ir.extent import Horizontal

__all__ = ["plane_body"]


def plane_body(
    whole: TileBody, cut: TileBody, extent: Horizontal, offsets: Sequence[str]
) -> list[str]:
    """Return the code of a block's levels from k0 to k1, behind the place of the thread's tile.

    `offsets` declares the offset of the tile's first point for each stride kind; the tile is
    `whole`, or an edge of the domain cuts it.
    """
    tile, copies = whole.tile, list(_copies(whole, extent))
    interval = whole.section.interval
    return [
        f"const int end = min(k1, {bound(interval.end)});",
        f"int k = max(k0, {bound(interval.start)});",
        "if (k >= end) return;",
        "const int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x);",
        "extern __shared__ __align__(128) unsigned char chip[];",
        *(line.removeprefix("const ") for line in offsets),
        *(line for copy in copies for line in copy.places()),
        *_first(copies, tile.planes),
        *whole.declarations(),
        *_either(whole.first_loads(), cut.first_loads()),
        "#pragma unroll 1",
        "for (; k < end; ++k) {",
        f"  copy_async_wait<{tile.planes - 1}>();",
        "  __syncthreads();",
        f"  if (k + {tile.planes} < end) {{",
        *indent(
            indent([line for copy in copies for line in copy.level(f"slot_{copy.array}_next")])
        ),
        "  }",
        "  copy_async_commit();",
        *indent(
            [
                *whole.plane_loads(),
                *_either(whole.loads(), cut.loads()),
                *whole.points(),
                *_either(whole.stores(), cut.stores()),
                *whole.moves(),
                *whole.steps(),
                *(line for copy in copies for line in copy.steps()),
            ]
        ),
        "}",
    ]


def _either(whole: Iterable[str], cut: Iterable[str]) -> list[str]:
    """Return what a whole tile does, and a tile that an edge cuts."""
    lines = list(whole)
    if not lines:
        return []
    return ["if (whole) {", *indent(lines), "} else {", *indent(list(cut)), "}"]


def _first(copies: Sequence[_Copy], planes: int) -> Iterator[str]:
    """Yield the copies of what the first level reads, and of the levels that follow at once."""
    for copy in copies:
        low, high = copy.plane.levels
        for level in range(low, high):
            yield from copy.level(str((level - low) * copy.plane.size))
            yield copy.up()
    yield "copy_async_commit();"
    for more in range(1, planes):
        yield f"if (k + {more} < end) {{"
        for copy in copies:
            low, high = copy.plane.levels
            yield from indent(list(copy.level(str((high - low + more - 1) * copy.plane.size))))
        yield "}"
        yield "copy_async_commit();"
        yield from (copy.up() for copy in copies)


def _copies(body: TileBody, extent: Horizontal) -> Iterator[_Copy]:
    scope, start = body.scope, 0
    for name, plane in body.planes.items():
        yield _Copy(
            plane=plane,
            array=scope.arrays[name],
            kind=TYPES[scope.dtypes[name]],
            strides=f"s{scope.kinds[name][0]}",
            tile=body.tile,
            extent=extent,
            start=start,
        )
        start += plane.bytes


@dataclass(frozen=True, slots=True)
class _Copy:
    """Copy of one array, from byte `start` on, into shared memory by the threads of a block."""

    plane: Plane
    array: str
    kind: str
    strides: str
    tile: Tile
    extent: Horizontal
    start: int

    @property
    def rounds(self) -> int:
        """The most pieces of a level that a thread copies."""
        return -(-self.plane.pieces // self.tile.threads)

    @property
    def loose_rounds(self) -> int:
        """The most elements of pieces that are read in part only that a thread copies."""
        return -(-self.plane.tall * 2 * (self.plane.piece - 1) // self.tile.threads)

    def places(self) -> Iterator[str]:
        """Yield where the thread's tile begins in a level, and which pieces the thread copies.

        Bit n of `all` says that the thread's piece n lies inside what is read; see `_loose_places`
        for pieces of which only some elements do.
        """
        plane, name = self.plane, self.array
        low, high = plane.levels
        yield f"{self.kind}* const p_{name} = reinterpret_cast<{self.kind}*>(chip + {self.start});"
        yield (
            f"const int at_{name} = (int)threadIdx.y * {self.tile.rows * plane.pitch}"
            f" + (int)threadIdx.x * {self.tile.width};"
        )
        yield f"unsigned all_{name} = 0;"
        for n in range(self.rounds):
            yield f"index_t from_{name}_{n};"
            yield "{"
            yield f"  const int piece = thread + {n * self.tile.threads};"
            yield f"  const int i = {self._column()};"
            yield f"  const int j = {self._row('piece / ' + str(self._pieces()))};"
            tests = [f"piece < {plane.pieces}", self._inside_rows(), *self._inside(plane.piece)]
            if plane.pitch > plane.wide:
                tests.append(f"piece % {self._pieces()} < {plane.wide // plane.piece}")
            yield f"  from_{name}_{n} = (index_t)i + (index_t)j * {self.strides}j;"
            yield f"  all_{name} |= (unsigned)({' && '.join(tests)}) << {n};"
            yield "}"
        yield from self._loose_places()
        for level in _loaded(plane):
            yield f"int {slot(name, level)} = {(level - low) * plane.size};"
        yield f"int slot_{name}_next = {(high - low + self.tile.planes - 1) * plane.size};"
        yield (
            f"const {self.kind}* g_{name} = {name} + (index_t)(k{signed(low)}) * {self.strides}k;"
        )

    def _loose_places(self) -> Iterator[str]:
        """Yield which elements of pieces that are read in part only the thread copies.

        These are at both ends of a row, less than a piece at each, where an edge of the domain is.
        """
        plane, name, few = self.plane, self.array, self.plane.piece - 1
        if not few:
            return
        first = plane.columns[0]
        low = self.extent[0][0] + plane.read[0] - first
        yield f"const int lo_{name} = max(0, {low} - ib);"
        end = f"i1{signed(plane.read[1] - 1 - first)} - ib"
        yield f"const int hi_{name} = min({plane.wide}, {end});"
        yield f"const int to_{name} = {_up(f'lo_{name}', plane.piece)};"
        yield f"const int till_{name} = max(to_{name}, {_down(f'hi_{name}', plane.piece)});"
        yield f"unsigned loose_{name} = 0;"
        for n in range(self.loose_rounds):
            yield f"index_t out_{name}_{n};"
            yield f"int in_{name}_{n};"
            yield "{"
            yield f"  const int number = thread + {n * self.tile.threads};"
            yield f"  const int row = number / {2 * few}, e = number % {2 * few};"
            yield f"  const int i = e < {few} ? lo_{name} + e : till_{name} + e - {few};"
            yield f"  const int j = {self._row('row')};"
            within = f"i < (e < {few} ? min(to_{name}, hi_{name}) : hi_{name})"
            yield f"  const bool any = row < {plane.tall} && {self._inside_rows()} && {within};"
            column = f"(index_t)(ib + i{signed(first)})"
            yield f"  out_{name}_{n} = {column} + (index_t)j * {self.strides}j;"
            yield f"  in_{name}_{n} = row * {plane.pitch} + i{signed(plane.lead)};"
            yield f"  loose_{name} |= (unsigned)any << {n};"
            yield "}"

    def level(self, place: str) -> Iterator[str]:
        """Yield the copies of the level at `g` into a place of the ring."""
        plane, name = self.plane, self.array
        into = f"p_{name} + {place}{signed(plane.lead)} + thread * {plane.piece}"
        step, size = self.tile.threads * plane.piece, plane.piece * plane.itemsize
        for n in range(self.rounds):
            source = f"g_{name} + from_{name}_{n}"
            yield f"if (all_{name} >> {n} & 1) copy_async{size}({into} + {n * step}, {source});"
        if plane.piece > 1:
            yield f"if (loose_{name}) {{"
            for n in range(self.loose_rounds):
                to, source = f"p_{name} + {place} + in_{name}_{n}", f"g_{name} + out_{name}_{n}"
                copy = f"copy_async{plane.itemsize}({to}, {source});"
                yield f"  if (loose_{name} >> {n} & 1) {copy}"
            yield "}"

    def up(self) -> str:
        """Return the step of `g` to the next level."""
        return f"g_{self.array} += {self.strides}k;"

    def steps(self) -> Iterator[str]:
        """Yield the steps of `g` and of the places in the ring to the next level."""
        size = self.plane.size
        last = (self.plane.deep - 1) * size
        yield self.up()
        for place in (
            *(slot(self.array, n) for n in _loaded(self.plane)),
            f"slot_{self.array}_next",
        ):
            yield f"{place} = {place} == {last} ? 0 : {place} + {size};"

    def _pieces(self) -> int:
        return self.plane.pitch // self.plane.piece

    def _column(self) -> str:
        first = f"ib{signed(self.plane.columns[0])}"
        return f"{first} + piece % {self._pieces()} * {self.plane.piece}"

    def _row(self, number: str) -> str:
        return f"jb{signed(self.plane.rows[0])} + {number}"

    def _inside_rows(self) -> str:
        """Return the test that row j is read by points."""
        return f"j < j1{signed(self.plane.across[1] - 1)}"

    def _inside(self, elements: int) -> tuple[str, str]:
        """Return the tests that so many elements from column i on are read by points."""
        low = self.extent[0][0] + self.plane.read[0]
        return f"i >= {low}", f"i + {elements} <= i1{signed(self.plane.read[1] - 1)}"


def _up(number: str, unit: int) -> str:
    return f"({number} + {unit - 1}) / {unit} * {unit}"


def _down(number: str, unit: int) -> str:
    return f"{number} / {unit} * {unit}"


def _loaded(plane: Plane) -> range:
    return range(*plane.levels)
