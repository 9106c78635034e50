"""Ghost cells of several arrays, filled with one launch.

A thread makes one ghost. Those of an array are three pieces: beyond the data along K, on whole
planes; along J, on the levels of the data; and along I, on the rows of the data. The text depends
on the rules and on the types of elements only, so that all blocks of a job share it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from halocline_engine.backends.base import Array
from halocline_engine.backends.cuda.runtime.machine import Machine
from halocline_engine.backends.cuda.text.dependent_launch import ANNOUNCE, WAIT
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.ghosts import Ends, Framed, Rule, Side
from halocline_engine.cache import Cache, key_of
from halocline_engine.ir.types import DType
from halocline_engine.kernels.machine import Kernels

__all__ = ["GhostFiller", "emit_ghosts"]

#: Threads of a block.
_THREADS = 128
#: Arrays of one launch at most, whose parameters are some 150 bytes each.
_ARRAYS = 12
#: Ghosts of one piece that the code can count.
_MOST = 2**32 - 2 * _THREADS

_RIM = """\
template <class T> struct Rim {
  T *f;
  long long si, sj, sk;
  int i0, i1, ni, j0, j1, nj, k0, k1, nk, kb, jb;
"""
_FILL = """\
template <class T> __device__ __forceinline__ void fill(const Rim<T> &r, const int block) {
  // Where a ghost is does not depend on any memory.
  unsigned n = (unsigned)block * {threads}u + threadIdx.x;
  int x, y, z, piece;
  bool inside;
  if (block < r.kb) {
    piece = 2;
    x = n % r.ni, y = n / r.ni % r.nj, z = n / r.ni / r.nj;
    inside = z < r.k0 + r.nk - r.k1;
    z = z < r.k0 ? z : z - r.k0 + r.k1;
  } else if (block < r.kb + r.jb) {
    piece = 1;
    n -= r.kb * {threads}u;
    const int deep = r.j0 + r.nj - r.j1;
    x = n % r.ni, y = n / r.ni % deep, z = n / r.ni / deep + r.k0;
    inside = z < r.k1;
    y = y < r.j0 ? y : y - r.j0 + r.j1;
  } else {
    piece = 0;
    n -= (r.kb + r.jb) * {threads}u;
    const int deep = r.i0 + r.ni - r.i1, rows = r.j1 - r.j0;
    x = n % deep, y = n / deep % rows + r.j0, z = n / deep / rows + r.k0;
    inside = z < r.k1;
    x = x < r.i0 ? x : x - r.i0 + r.i1;
  }
{wait}  if (!inside) return;
  at(r, x, y, z) = piece == 2   ? along_k(r, x, y, z)
                   : piece == 1 ? along_j(r, x, y, z)
                                : along_i(r, x, y, z);
}

"""
_AT = """\
template <class T> __device__ __forceinline__ T &at(const Rim<T> &r, int x, int y, int z) {
  return r.f[x * r.si + y * r.sj + z * r.sk];
}

"""


def emit_ghosts(ends: Ends, dtypes: Sequence[DType], *, follows: bool = False) -> str:
    """Return a translation unit whose kernel `ghosts` fills those of arrays of these types.

    With `follows`, it waits for the work before it when it knows where its ghosts are.
    """
    constants = "".join(f"  T {name};\n" for name, _ in _constants(ends))
    parts = [f"{_RIM}{constants}}};\n\n", _AT]
    parts += [_along(number, pair) for number, pair in enumerate(ends)]
    wait = "".join(f"{line}\n" for line in WAIT) if follows else ""
    parts += [_FILL.replace("{threads}", str(_THREADS)).replace("{wait}", wait)]
    return "".join((*parts, _kernel(ends, dtypes, follows=follows)))


def _constants(ends: Ends) -> Iterator[tuple[str, Side]]:
    """Yield the name and the side of every end that has a value."""
    for axis, pair in zip("ijk", ends, strict=True):
        for word, side in zip(("low", "high"), pair, strict=True):
            if side is not None and side.rule is Rule.CONSTANT:
                yield f"{word}_{axis}", side


def _along(number: int, pair: tuple[Side | None, Side | None]) -> str:
    """Return the function that says what a cell has, by the rules up to one axis.

    It has no branches, so that all loads of a thread are under way at once.
    """
    axis, own = "ijk"[number], "xyz"[number]
    first, stop = f"r.{axis}0", f"r.{axis}1"
    words = {
        "low": _End(f"{own} < {first}", first, "+", f"{own} + ({stop} - {first})"),
        "high": _End(f"{own} >= {stop}", f"{stop} - 1", "-", f"{own} - ({stop} - {first})"),
    }
    ends = [(word, words[word], side) for word, side in zip(words, pair, strict=True) if side]

    def inner(index: str) -> str:
        places = ["x", "y", "z"]
        places[number] = index
        name = f"along_{'ijk'[number - 1]}" if number else "at"
        return f"{name}(r, {', '.join(places)})"

    lines = [
        "template <class T>",
        f"__device__ __forceinline__ T along_{axis}(const Rim<T> &r, int x, int y, int z) {{",
        *(f"  const bool {word} = {end.beyond};" for word, end, _ in ends),
    ]
    chosen = "".join(f"{word} ? {_cell(side, end, own)} : " for word, end, side in ends)
    lines += [f"  const int n = {chosen}{own};", f"  T value = {inner('n')};"]
    if any(side.rule is Rule.EXTRAPOLATE for _, _, side in ends):
        beside = "".join(
            f"{word} ? {end.last} {end.inwards} 1 : "
            for word, end, side in ends
            if side.rule is Rule.EXTRAPOLATE
        )
        lines += [f"  const T slope = value - {inner(f'({beside}n)')};"]
    for word, end, side in ends:
        match side.rule:
            case Rule.EXTRAPOLATE:
                steps = f"{first} - {own}" if end.inwards == "+" else f"{own} - ({end.last})"
                lines += [f"  if ({word}) value = value + (T)({steps}) * slope;"]
            case Rule.CONSTANT:
                lines += [f"  if ({word}) value = r.{word}_{axis};"]
            case Rule.ANTISYMMETRIC:
                lines += [f"  if ({word}) value = (T)-value;"]
            case Rule.EDGE | Rule.REFLECT | Rule.SYMMETRIC | Rule.WRAP:
                pass
    return "\n".join((*lines, "  return value;", "}\n\n"))


@dataclass(frozen=True, slots=True)
class _End:
    """An end in code: what is beyond, the last cell of data, the way into it, and around."""

    beyond: str
    last: str
    inwards: str
    around: str


def _cell(side: Side, end: _End, own: str) -> str:
    """Return the index of the cell whose value a ghost has, or begins with."""
    match side.rule:
        case Rule.EDGE | Rule.EXTRAPOLATE | Rule.CONSTANT:
            return end.last
        case Rule.REFLECT:
            return f"2 * ({end.last}) - {own}"
        case Rule.SYMMETRIC | Rule.ANTISYMMETRIC:
            return f"2 * ({end.last}) - {own} {'-' if end.inwards == '+' else '+'} 1"
        case Rule.WRAP:
            return end.around


def _kernel(ends: Ends, dtypes: Sequence[DType], *, follows: bool) -> str:
    values = [name for name, _ in _constants(ends)]
    numbers = ("i0", "i1", "ni", "j0", "j1", "nj", "k0", "k1", "nk", "kb", "jb")
    given: list[str] = []
    body: list[str] = []
    for n, dtype in enumerate(dtypes):
        kind = TYPES[dtype]
        given += [f"    {kind} *f{n}, long long si{n}, long long sj{n}, long long sk{n},"]
        given += ["    " + " ".join(f"int {name}_{n}," for name in numbers)]
        given += [f"    {kind} {name}_{n}," for name in values]
        given += [f"    int blocks{n}{',' if n + 1 < len(dtypes) else ') {'}"]
        words = [f"f{n}", f"si{n}", f"sj{n}", f"sk{n}", *(f"{w}_{n}" for w in (*numbers, *values))]
        body += [
            f"  if (block < blocks{n}) {{",
            f"    const Rim<{kind}> r = {{{', '.join(words)}}};",
            "    fill(r, block);",
            "    return;",
            "  }",
            f"  block -= blocks{n};",
        ]
    lines = [
        f'extern "C" __global__ void __launch_bounds__({_THREADS}) ghosts(',
        *given,
        *(ANNOUNCE if follows else ()),
        "  int block = blockIdx.x;",
        *body[:-1],
        "}\n",
    ]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Numbers of thread blocks for the three pieces of an array's ghosts."""

    along_k: int
    along_j: int
    along_i: int

    @property
    def blocks(self) -> int:
        return self.along_k + self.along_j + self.along_i


@dataclass(frozen=True, slots=True)
class _Ready:
    """Launches, and the arrays that they are about."""

    launches: Sequence[Callable[[], None]]
    arrays: Sequence[Array]

    def __call__(self) -> None:
        for launch in self.launches:
            launch()


class GhostFiller:
    """Fills ghosts on a machine; code is compiled when it is first needed, and kept."""

    def __init__(self, machine: Machine, cache: Cache) -> None:
        self._machine = machine
        self._cache = cache
        self._loaded: dict[Hashable, Kernels] = {}
        self._lock = threading.Lock()

    def filling(self, ends: Ends, several: Sequence[Framed]) -> Callable[[], None] | None:
        """Return what queues launches that fill all ghosts; see `backends.ghosts.Filling`."""
        cut = [(one, _pieces(ends, one)) for one in several]
        work = [(one, pieces) for one, pieces in cut if pieces is not None and pieces.blocks]
        if any(pieces is None for _, pieces in cut):
            return None
        launches = [
            self._launch(ends, work[at : at + _ARRAYS]) for at in range(0, len(work), _ARRAYS)
        ]
        return _Ready(launches, [one.array for one, _ in work])

    def _launch(self, ends: Ends, work: Sequence[tuple[Framed, _Pieces]]) -> Callable[[], None]:
        dtypes = tuple(DType(one.array.dtype.name) for one, _ in work)
        values: list[np.generic] = []
        for one, pieces in work:
            values += self._values(ends, one, pieces)
        grid = (sum(pieces.blocks for _, pieces in work), 1, 1)
        return self._kernels(ends, dtypes).ready(
            "ghosts", grid, (_THREADS, 1, 1), tuple(values), follows=self._machine.follows
        )

    def _values(self, ends: Ends, one: Framed, pieces: _Pieces) -> Iterator[np.generic]:
        """Yield the arguments of an array, in order and with their types."""
        array = one.array
        yield np.uint64(self._machine.address(array))
        yield from (np.int64(stride // array.dtype.itemsize) for stride in array.strides)
        for (first, stop), size in zip(_data(ends, one), array.shape, strict=True):
            yield from (np.int32(first), np.int32(stop), np.int32(size))
        yield from (np.int32(pieces.along_k), np.int32(pieces.along_j))
        yield from (array.dtype.type(side.value) for _, side in _constants(ends))
        yield np.int32(pieces.blocks)

    def _kernels(self, ends: Ends, dtypes: tuple[DType, ...]) -> Kernels:
        key = (*(side and side.rule for pair in ends for side in pair), *dtypes)
        with self._lock:
            found = self._loaded.get(key)
            if found is None:
                source = emit_ghosts(ends, dtypes, follows=self._machine.follows)
                code = self._cache.get(
                    key_of(source, self._machine.compiler), lambda: self._machine.compile(source)
                )
                found = self._loaded[key] = self._machine.load(code)
            return found


def _data(ends: Ends, one: Framed) -> list[tuple[int, int]]:
    """Return which indices are not made: the data, and what lies beyond an end without a rule."""
    return [
        (first if low is not None else 0, stop if high is not None else size)
        for (first, stop), (low, high), size in zip(one.data, ends, one.array.shape, strict=True)
    ]


def _pieces(ends: Ends, one: Framed) -> _Pieces | None:
    """Return the blocks of an array; None where the code cannot count its ghosts."""
    ni, nj, nk = one.array.shape
    (i0, i1), (j0, j1), (k0, k1) = _data(ends, one)
    cells = (
        ni * nj * (k0 + nk - k1),
        ni * (j0 + nj - j1) * (k1 - k0),
        (i0 + ni - i1) * (j1 - j0) * (k1 - k0),
    )
    if max(cells) > _MOST:
        return None
    along_k, along_j, along_i = (-(-count // _THREADS) for count in cells)
    return _Pieces(along_k, along_j, along_i)
