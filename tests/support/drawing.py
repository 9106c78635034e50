"""Programs drawn at random, as text: what the language allows, in unforeseen combinations."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from drawing_modules import ARGUMENTS, DTYPES, EXTERNALS, IMPORTS, MODULE, MORE_IMPORTS
from drawing_more import TYPED, VECTORS
from drawing_scope import PLANES, Scope
from drawing_statements import statement
from drawing_tables import AROUND, table_arguments
from drawing_values import temporary, value
from hypothesis import strategies as st

HEAD = """\
def drawn(
    a: Field[np.float64], b: Field[np.float64], c: Field[np.float32], m: Field[np.int32],
    h: Field[IJ, np.float64], w: Field[K, np.float64],
    x: Field[np.float64], y: Field[np.float64], z: Field[np.float32], n: Field[np.int64],
    s: np.float64, q: np.int64,
):
"""
GENERAL_HEAD = HEAD.replace(
    "    s: np.float64",
    "    d: Field[(np.float64, (3,))], r: Field[IJ, (np.int64, (2,))],"
    " g: GlobalTable[(np.float64, (5,))], f: Field[IJ, np.float64],\n    s: np.float64",
)
WHOLE_HEAD = MODULE + GENERAL_HEAD.replace(
    "    s: np.float64, q: np.int64,\n",
    f"{ARGUMENTS}    s: np.float64, q: np.int64, wet: bool,\n"
    "    tint: np.float32, *, times: np.int32,\n",
)
SCALARS: Mapping[str, bool | int | float] = {
    "s": 0.375,
    "q": 3,
    "wet": True,
    "tint": 1.625,
    "times": 2,
}
ORDERS = ("PARALLEL", "PARALLEL", "FORWARD", "BACKWARD")
#: The least levels that any drawn program needs.
LEVELS = 4

_SPLITS = (
    ("...",),
    ("...",),
    ("0, 1", "1, None"),
    ("0, -1", "-1, None"),
    ("0, 1", "1, -1", "-1, None"),
)
#: With bounds that the caller gives before.
_GIVEN = (("0, FIRST", "FIRST, None"), ("0, TOP", "TOP, None"))
#: With bounds that only a run knows.
_OF_THE_RUN = (("1, q",), ("q, None",), ("0, base",), ("base, None",))
#: How many columns tables may have.
_SLOTS = (1, 2, 2, 3, 3, 4, 6, 8)
#: Temporaries that are zero first in programs for a peer.
_ZERO = ("t", "u", "v")


#: What is given with every program of the whole language.
GIVEN: Mapping[str, Any] = {"externals": EXTERNALS, "dtypes": DTYPES}


def literals(seed: int) -> Mapping[str, int]:
    """Return the bits of numbers in a text, as lowering takes them."""
    bits = Random(seed).choice(((64, 64), (64, 64), (64, 32), (32, 32)))
    return {"literal_int": bits[0], "literal_float": bits[1]}


def programs() -> st.SearchStrategy[str]:
    """Return texts of programs; some break a rule of the language and are refused.

    Each comes from one drawn number: drawing every choice takes longer than running the program.
    """
    return st.integers(0, 2**48).map(program)


def general_programs() -> st.SearchStrategy[str]:
    """Return texts of programs with loops, levels that only a run knows, and components."""
    return st.integers(0, 2**48).map(lambda seed: program(seed, general=True))


def whole_programs() -> st.SearchStrategy[str]:
    """Return texts of programs that mix the constructs of the whole language."""
    return st.integers(0, 2**48).map(lambda seed: program(seed, whole=True))


def program(
    seed: int,
    orders: tuple[str, ...] = ORDERS,
    *,
    general: bool = False,
    whole: bool = False,
    peer: bool = False,
    tables: bool | None = None,
) -> str:
    """Return the text that belongs to a number, with computations of some orders.

    A `general` one has loops, levels that only a run knows and components; a `whole` one also has
    regions, fields and temporaries with fewer axes, functions, and every other spelling. Where
    `tables` does not say it, one in four of these has neighbours by table, and no offsets along I
    and J. One for a `peer` has temporaries that are zero first, no choices in expressions, no
    powers of float32, no levels of the run beside the point and none outside of arrays: GT4Py's
    backends differ there. It has no tables.
    """
    general = general or whole
    scope = Scope(Random(seed), general=general, whole=whole, peer=peer)
    text = WHOLE_HEAD if whole else GENERAL_HEAD if general else HEAD
    if whole and not peer and (seed % 4 == 3 if tables is None else tables):
        scope.slots = scope.random.choice(_SLOTS), scope.random.choice(_SLOTS)
        text = _with_tables(scope)
    if whole:
        text += (
            IMPORTS
            + ("" if peer else MORE_IMPORTS)
            + "".join(f"    {name}: Field[(np.float64, (2,))] = 0\n" for name in VECTORS)
        )
    text += _zero(scope) if peer else ""
    for _ in range(scope.number(1, 3)):
        scope.order = scope.pick(*orders)
        intervals = list(scope.random.choice(_splits(scope)))
        if scope.order == "BACKWARD":
            intervals.reverse()
        text += _computation(scope, intervals)
    return text + "    with computation(PARALLEL), interval(...):\n" + _last(scope)


def _with_tables(scope: Scope) -> str:
    """Return the head of a program that has tables."""
    fields, mark, scalars = WHOLE_HEAD[len(MODULE) :].partition("    s: np.float64")
    return MODULE + AROUND + fields + table_arguments(scope.slots) + mark + scalars


def _computation(scope: Scope, intervals: list[str]) -> str:
    if (intervals[0],) in _OF_THE_RUN:
        # Temporaries have the levels below and above only where these are in the domain.
        scope.interval = "..."
        text = f"    with computation({scope.order}), interval({intervals[0]}):\n"
        return text + _block(scope, "        ")
    text = f"    with computation({scope.order}):\n"
    for interval in intervals:
        scope.interval = interval
        text += f"        with interval({interval}):\n" + _block(scope, "            ")
    return text


def _block(scope: Scope, pad: str) -> str:
    scope.here = set()
    scope.block += 1
    nest = 2 if scope.whole else 1
    return "".join(statement(scope, pad, nest) for _ in range(scope.number(1, 5)))


def _splits(scope: Scope) -> tuple[tuple[str, ...], ...]:
    """Return the intervals to choose from; no peer has levels that its arrays lack."""
    if not scope.whole:
        return _SPLITS
    return (*_SPLITS, *_GIVEN, *_SPLITS, *(_OF_THE_RUN[:2] if scope.peer else _OF_THE_RUN))


def _zero(scope: Scope) -> str:
    """Return assignments of zero to temporaries, which a peer leaves undefined elsewhere."""
    text = "    with computation(PARALLEL), interval(...):\n"
    scope.first |= dict.fromkeys(_ZERO, 0)
    text += "".join(f"        {name} = 0.0\n" for name in _ZERO)
    if not scope.whole:
        return text
    for name, kind in TYPED.items():
        text += f"        {name}: {kind} = {'False' if kind == 'bool' else '0'}\n"
    text += "    with computation(FORWARD), interval(0, 1):\n"
    text += "".join(f"        {name}: Field[IJ, {kind}] = 0\n" for name, kind in PLANES.items())
    scope.declared |= {*TYPED, *PLANES}
    return text


def _last(scope: Scope) -> str:
    """Use the temporaries, so that they are not all dead."""
    scope.order, scope.interval, scope.here = "PARALLEL", "...", set()
    scope.block += 1
    terms = [temporary(scope) for _ in range(3)] if scope.first else []
    return f"        y = {' + '.join([value(scope, 2), *terms])}\n"
