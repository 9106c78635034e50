"""The body of kernels whose blocks run several stages, each on the block and an extent around it.

The threads of a block take the points of a stage in turn, and a barrier stands before a stage that
touches what another thread touched since the last one. A block has its temporaries for itself:
in shared memory, or in memory where the base is the block's first point that is no halo, so that
the numbers `ti` and `tj` of a point, counted from there and signed, are its place in all of them.
In the older form the base is the block's first halo point, moved for each temporary by the halo
that it does not use, and a point is counted from the first one that the temporary has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from halocline_engine.backends.cuda.kernels.staged.tile import block_layout, points, shared_plane
from halocline_engine.backends.cuda.model.entries import Entry, Kind, Stride
from halocline_engine.backends.cuda.model.staged import Staged
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import (
    bound,
    indent,
    offsets,
    section_body,
    signed,
    touched,
)
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.errors import InternalError
from halocline_engine.ir.extent import shift
from halocline_engine.ir.walk import accesses_of, targets_of
from halocline_engine.schedule.nodes import Buffer, Home, Kernel, Section
from halocline_engine.schedule.stages import WHOLE
from halocline_engine.schedule.storage.coverage import holds
from halocline_engine.schedule.storage.staging import common_halo

__all__ = ["staged_text", "waits"]

#: Rounds of a stage that are written out, so that a thread waits for loads of several together.
_UNROLLED = 8


def staged_text(entry: Entry, staged: Staged, scope: Scope, tile: Tile) -> list[str]:
    """Return the body of a staged kernel."""
    _check(staged)
    along_i, along_j = points(tile)
    inner = _Code(entry, staged, _extended(scope, staged), tile)
    lines = [
        "const int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x);",
        f"const int i0 = (int)blockIdx.x * {along_i}, j0 = row + (int)blockIdx.y * {along_j};",
        f"const int bi = min({along_i}, ni - i0), bj = min({along_j}, nj - j0);",
        *inner.memory(),
    ]
    if staged.staging.deep:
        return [*lines, *inner.stages_of_levels()]
    if tile.depth == 1:
        return [*lines, "const int k = level + (int)blockIdx.z;", *inner.levels_of_stages()]
    return [
        *lines,
        f"const int k0 = level + (int)blockIdx.z * {tile.depth};",
        f"const int k1 = min(k0 + {tile.depth}, top);",
        "for (int k = k0; k < k1; ++k) {",
        *indent(inner.levels_of_stages()),
        "}",
    ]


def waits(staged: Staged, *, again: bool) -> tuple[bool, ...]:
    """Return for each stage whether a barrier stands before it.

    It does where the stage reads a temporary that was written since the last barrier, or writes one
    that was read or written since. `again` says that the stages run again on the same memory, for
    the next level.
    """
    names = set(staged.staging.temporaries)
    uses: list[tuple[set[str], set[str]]] = []
    for stage in staged.stages:
        bodies = [statement for section in stage.sections for statement in section.body]
        uses.append(({n for n, _ in accesses_of(bodies)} & names, set(targets_of(bodies)) & names))
    found = [False] * len(uses)
    read: set[str] = set()
    written: set[str] = set()
    for _ in range(2 if again else 1):
        for number, (reads, writes) in enumerate(uses):
            if found[number] or reads & written or writes & (read | written):
                found[number] = True
                read, written = set(), set()
            read |= reads
            written |= writes
    return tuple(found)


def _check(staged: Staged) -> None:
    """Every index of a temporary lies in what a block has of it."""
    extents = {buffer.name: buffer.extent for buffer in staged.temporaries}
    for stage in staged.stages:
        for section in stage.sections:
            here = ((name, (0, 0, 0)) for name in targets_of(section.body))
            for name, (i, j, _) in (*accesses_of(section.body), *here):
                if name in extents and not holds(extents[name], shift(stage.extent, i, j)):
                    raise InternalError(
                        f"A block of threads would leave its memory of temporary '{name}':"
                        f" expected {extents[name]}, got {shift(stage.extent, i, j)}."
                    )


def _extended(scope: Scope, staged: Staged) -> Scope:
    """Return the scope with the temporaries in it, all of one stride kind unless bases differ."""
    first = 1 + max((number for number, _ in scope.kinds.values()), default=-1)
    level = Stride.ANY if staged.staging.deep else Stride.NONE
    kind: Kind = (Stride.ONE, Stride.ANY, level)
    moved = staged.staging.home is Home.MOVED
    own = {
        buffer.name: (first + (number if moved else 0), kind)
        for number, buffer in enumerate(staged.temporaries)
    }
    names = {buffer.name: f"t{number}" for number, buffer in enumerate(staged.temporaries)}
    types = {buffer.name: buffer.dtype for buffer in staged.temporaries}
    return replace(
        scope,
        arrays={**scope.arrays, **names},
        kinds={**scope.kinds, **own},
        dtypes={**scope.dtypes, **types},
        guarded=frozenset(),
    )


class _Code:
    """Writes the parts of one staged kernel."""

    def __init__(self, entry: Entry, staged: Staged, scope: Scope, tile: Tile) -> None:
        self._entry = entry
        self._staged = staged
        self._scope = scope
        self._tile = tile
        self._temporaries = {buffer.name: buffer for buffer in staged.temporaries}

    def memory(self) -> list[str]:
        """Return the bases and strides of the temporaries."""
        numbers = sorted({self._scope.kinds[name][0] for name in self._temporaries})
        if self._staged.staging.home is Home.SHARED:
            return self._shared(numbers)
        return self._own(numbers)

    def levels_of_stages(self) -> list[str]:
        """Return all stages of the level `k`."""
        again = self._staged.staging.home is Home.SHARED and self._tile.depth > 1
        lines = self._planes()
        for stage, wait in zip(self._staged.stages, waits(self._staged, again=again), strict=True):
            lines += ["__syncthreads();"] if wait else []
            lines += self._stage(stage)
        return lines

    def stages_of_levels(self) -> list[str]:
        """Return all levels of each stage, from `level` to `top`."""
        lines = self._planes()
        for stage, wait in zip(self._staged.stages, waits(self._staged, again=False), strict=True):
            lines += ["__syncthreads();"] if wait else []
            lines += ["for (int k = level; k < top; ++k) {", *indent(self._stage(stage)), "}"]
        return lines

    def _shared(self, numbers: Sequence[int]) -> list[str]:
        plane = shared_plane(self._staged, self._tile)
        lines = ["extern __shared__ __align__(16) unsigned char kept[];"]
        lines += [f"const int s{number}j = {plane.strides[1]};" for number in numbers]
        at = 0
        for name, buffer in self._temporaries.items():
            kind = TYPES[buffer.dtype]
            lines.append(
                f"{kind}* const {self._scope.arrays[name]} ="
                f" reinterpret_cast<{kind}*>(kept + {at}) + {plane.offset};"
            )
            at += -(-plane.length * buffer.dtype.itemsize // 16) * 16
        return lines

    def _own(self, numbers: Sequence[int]) -> list[str]:
        """Return the row and plane of all blocks' memory, as `BlockLayout.storage` has them."""
        layout = block_layout(self._staged, self._tile)
        along_i, along_j = layout.block
        unit = layout.alignment
        row = f"(ni + {along_i - 1}) / {along_i} * {layout.pitch}{signed(layout.lead)}"
        row = row if unit == 1 else f"({row}{signed(unit - 1)}) / {unit} * {unit}"
        blocks = f"(nj + {along_j - 1}) / {along_j}"
        lines = [
            f"const int pitch = {row};",
            f"const long long plane = (long long)pitch * ({blocks} * {layout.depth});",
        ]
        for number in numbers:
            lines.append(f"const int s{number}j = pitch;")
            if self._staged.staging.deep:
                lines.append(f"const long long s{number}k = plane;")
        (i_low, _), (j_low, _) = layout.halo
        moved = self._staged.staging.home is Home.MOVED
        i_halo, j_halo = (0, 0) if moved else (-i_low, -j_low)
        return [
            *lines,
            f"const long long base = {layout.lead + i_halo} + (long long)blockIdx.x"
            f" * {layout.pitch} + (long long)(j0 / {along_j} * {layout.depth}{signed(j_halo)})"
            " * pitch;",
        ]

    def _planes(self) -> list[str]:
        """Return the temporaries' bases in memory, on the level `k` unless levels are mixed."""
        if self._staged.staging.home is Home.SHARED:
            return []
        level = "" if self._staged.staging.deep else " + k * plane"
        return [
            f"{TYPES[buffer.dtype]}* const {self._scope.arrays[buffer.name]} ="
            f" {pointer} + base{self._unused(buffer)}{level};"
            for pointer, buffer in zip(self._staged.pointers, self._staged.temporaries, strict=True)
        ]

    def _unused(self, buffer: Buffer) -> str:
        """Return by how much the base of a block is moved for a temporary."""
        if self._staged.staging.home is not Home.MOVED:
            return ""
        (i_low, _), (j_low, _) = common_halo(self._staged.temporaries)
        (i_used, _), (j_used, _) = buffer.extent
        along_j = f" + {j_used - j_low} * (long long)pitch" if j_used > j_low else ""
        return signed(i_used - i_low) + along_j

    def _stage(self, stage: Kernel) -> list[str]:
        lines: list[str] = []
        for section in stage.sections:
            body = self._points(section, stage)
            if section.interval == WHOLE:
                lines += body
                continue
            start, end = bound(section.interval.start), bound(section.interval.end)
            lines += [f"if (k >= {start} && k < {end}) {{", *indent(body), "}"]
        return lines

    def _points(self, section: Section, stage: Kernel) -> list[str]:
        """Return the loop of a thread over its share of the points of a stage."""
        (i_low, i_high), (j_low, j_high) = stage.extent
        along_i, along_j = points(self._tile)
        width, height = along_i + i_high - i_low, along_j + j_high - j_low
        count, threads = width * height, self._tile.threads
        rounds = -(-count // threads)
        within = f"ti < bi{signed(i_high)} && tj < bj{signed(j_high)}"
        if rounds * threads != count:
            within = f"n < {count} && {within}"
        names = touched(section)
        fields = [name for name in self._entry.arrays if name in names]
        places = offsets(fields, self._scope)
        point = [
            f"const int {axis} = {axis}0 + t{axis};"
            for axis in "ij"
            if any(f"(index_t){axis}" in place for place in places)
        ]
        body = [
            f"const int n = thread + m * {threads};",
            f"const int ti = n % {width}{signed(i_low)}, tj = n / {width}{signed(j_low)};",
            f"if ({within}) {{",
            *indent(
                [
                    *point,
                    *places,
                    *self._places([name for name in self._temporaries if name in names]),
                    *section_body(section, self._scope),
                ]
            ),
            "}",
        ]
        return [
            f"#pragma unroll {min(rounds, _UNROLLED)}",
            f"for (int m = 0; m < {rounds}; ++m) {{",
            *indent(body),
            "}",
        ]

    def _places(self, names: Sequence[str]) -> list[str]:
        """Return the offset of the point in the temporaries, once for each stride kind."""
        deep = self._staged.staging.deep
        lines: dict[int, str] = {}
        for name in names:
            number, _ = self._scope.kinds[name]
            i_used, j_used = 0, 0
            if self._staged.staging.home is Home.MOVED:
                (i_used, _), (j_used, _) = self._temporaries[name].extent
            level = f" + k * s{number}k" if deep else ""
            row = f"tj * s{number}j" if j_used == 0 else f"(tj{signed(-j_used)}) * s{number}j"
            lines[number] = (
                f"const {'long long' if deep else 'int'} o{number} ="
                f" ti{signed(-i_used)} + {row}{level};"
            )
        return list(lines.values())
