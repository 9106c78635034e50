"""Programs drawn at random, as text: what the language allows, in unforeseen combinations."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

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
SCALARS = {"s": 0.375, "q": 3}
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
_READ_ONLY = ("a", "b", "c")
_OUTPUTS = ("x", "y", "z")


@dataclass
class _Scope:
    """What may be read: temporaries with the block of their first assignment, fields assigned."""

    random: Random
    order: str = "PARALLEL"
    interval: str = "..."
    block: int = 0
    first: dict[str, int] = field(default_factory=dict[str, int])
    here: set[str] = field(default_factory=set[str])
    written: set[str] = field(default_factory=set[str])
    target: str = ""
    general: bool = False
    peer: bool = False
    loops: int = 0
    looping: bool = False

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


def programs() -> st.SearchStrategy[str]:
    """Return texts of programs; some break a rule of the language and are refused.

    Each comes from one drawn number: drawing every choice takes longer than running the program.
    """
    return st.integers(0, 2**48).map(program)


def general_programs() -> st.SearchStrategy[str]:
    """Return texts of programs with loops, levels that only a run knows, and components."""
    return st.integers(0, 2**48).map(lambda seed: program(seed, general=True))


def program(
    seed: int, orders: tuple[str, ...] = ORDERS, *, general: bool = False, peer: bool = False
) -> str:
    """Return the text that belongs to a number, with computations of some orders.

    One for a `peer` has temporaries that are zero first, no choices in expressions, no powers of
    float32, no levels of the run beside the point and none outside of arrays: GT4Py's backends
    differ there.
    """
    scope = _Scope(Random(seed), general=general, peer=peer)
    text = GENERAL_HEAD if general else HEAD
    if peer:
        text += "    with computation(PARALLEL), interval(...):\n"
        for name in ("t", "u", "v"):
            text += f"        {name} = 0.0\n"
            scope.first[name] = 0
    for _ in range(scope.number(1, 3)):
        scope.order = scope.pick(*orders)
        intervals = list(scope.random.choice(_SPLITS))
        if scope.order == "BACKWARD":
            intervals.reverse()
        text += f"    with computation({scope.order}):\n"
        for interval in intervals:
            scope.interval, scope.here = interval, set()
            scope.block += 1
            text += f"        with interval({interval}):\n"
            for _ in range(scope.number(1, 5)):
                text += _statement(scope, "            ", nest=1)
    return text + "    with computation(PARALLEL), interval(...):\n" + _last(scope)


def _last(scope: _Scope) -> str:
    """Use the temporaries, so that they are not all dead."""
    scope.order, scope.interval, scope.here = "PARALLEL", "...", set()
    scope.block += 1
    terms = [_temporary(scope) for _ in range(3)] if scope.first else []
    return f"        y = {' + '.join([_number(scope, 2), *terms])}\n"


def _general(scope: _Scope, pad: str, nest: int) -> str:
    """Return a loop, or an assignment of a component, of a plane or at a level."""
    kind = scope.number(0, 3)
    if kind == 0 and nest:
        return _loop(scope, pad)
    if kind == 1 or scope.order == "PARALLEL" or scope.looping:
        scope.target = "d"
        return f"{pad}d[0, 0, 0][{scope.pick('0', '2', 'm % 3', 'q - 2')}] = {_number(scope, 2)}\n"
    if kind == 2:
        scope.target = "f"
        return f"{pad}f = {scope.pick('f + ', '0.5 * f + ', '')}{_number(scope, 2)}\n"
    target = scope.pick("x", "y")
    scope.target = target
    level = scope.pick("1", "-1", "q - 2", "m % 3 - 1")
    scope.written.add(target)
    scope.here.add(target)
    return f"{pad}{target}[0, 0, {level}] = {_number(scope, 2)}\n"


def _loop(scope: _Scope, pad: str) -> str:
    """Return a loop of few turns, whose number differs from point to point."""
    scope.loops += 1
    count = f"count{scope.loops}"
    text = f"{pad}{count} = 0\n{pad}while {count} < {scope.pick('2', 'm % 4', 'q')}"
    text += f" and {_condition(scope)}:\n" if scope.number(0, 2) == 0 else ":\n"
    scope.looping = True
    for _ in range(scope.number(1, 2)):
        text += _statement(scope, pad + "    ", nest=0)
    scope.looping = False
    return text + f"{pad}    {count} = {count} + 1\n"


def _statement(scope: _Scope, pad: str, nest: int) -> str:
    if scope.general and scope.number(0, 4) == 0:
        return _general(scope, pad, nest)
    if nest and scope.number(0, 4) == 0:
        return _conditional(scope, pad, nest)
    if scope.number(0, 7) == 0:
        text = f"{pad}n = {_whole(scope)}\n"
        scope.written.add("n")
        return text
    temporary = scope.pick("t", "u", "v")
    target = scope.pick(*_OUTPUTS, temporary, temporary, temporary)
    scope.target = target
    text = f"{pad}{target} = {_kept(scope, target)}{_number(scope, 3)}\n"
    if target in _OUTPUTS:
        scope.written.add(target)
    else:
        scope.first.setdefault(target, scope.block)
    scope.here.add(target)
    return text


def _kept(scope: _Scope, target: str) -> str:
    """Return a term that keeps the old value in sight, so that no fault is overwritten."""
    if scope.number(0, 3) == 0 or (target not in _OUTPUTS and target not in scope.first):
        return ""
    return f"0.5 * {target} + "


def _conditional(scope: _Scope, pad: str, nest: int) -> str:
    text = f"{pad}if {_condition(scope)}:\n"
    for _ in range(scope.number(1, 2)):
        text += _statement(scope, pad + "    ", nest - 1)
    if scope.number(0, 1):
        text += f"{pad}else:\n" + _statement(scope, pad + "    ", nest - 1)
    return text


def _condition(scope: _Scope) -> str:
    test = f"{_read(scope)} {scope.pick('<', '>=', '!=')} {_leaf(scope)}"
    match scope.number(0, 3):
        case 0:
            return f"{test} and {_read(scope)} > 0.0"
        case 1:
            return f"not ({test})"
        case _:
            return test


def _number(scope: _Scope, depth: int) -> str:
    if depth == 0 or scope.number(0, 4) == 0:
        return _leaf(scope)
    one, two = _number(scope, depth - 1), _number(scope, depth - 1)
    match scope.number(0, 9):
        case 0 if not scope.peer:
            return f"({one} if {_condition(scope)} else {two})"
        case 1:
            return f"{scope.pick('min', 'max')}({one}, {two} + 0.0)"
        case 2:
            return f"sqrt(abs({one} + 0.5))"
        case 3:
            base = f"float64({_read(scope)})" if scope.peer else _read(scope)
            return f"({base} ** {scope.number(2, 4)})"
        case 4:
            return f"({one} / {_read(scope)})"
        case _:
            return f"({one} {scope.pick('+', '-', '*')} {two})"


def _whole(scope: _Scope) -> str:
    value = scope.pick("m", "n", "m[1, 0, 0]") if "n" in scope.written else "m"
    return f"{value} {scope.pick('+', '-', '*', '%')} {scope.pick('q', '2', '-3', 'm')}"


def _leaf(scope: _Scope) -> str:
    if scope.number(0, 3) == 0:
        return scope.pick("s", "0.5", "2.0", "-1.25", "q", "3")
    return _read(scope)


def _at_level(scope: _Scope) -> str:
    """Return what is looked up: at a level of the run, in a table, or a component."""
    index = scope.pick("K", "2", "m % 5", *(("K - 1",) if scope.peer else ("m", "K - q")))
    side = 0 if scope.peer else 1
    match scope.number(0, 6):
        case 4:
            return "f"
        case 0:
            return f"g.A[{scope.pick('1', 'm % 5', 'm' if side else '3')}]"
        case 1:
            level = 0 if scope.order == "PARALLEL" else scope.number(-1, 1)
            return f"d[0, 0, {level}][{scope.pick('0', '1', 'm % 3', 'q - 1')}]"
        case 2:
            return f"{scope.pick(*_READ_ONLY)}[{scope.number(-side, side)}, 0, m % 3 - 1]"
        case 3:
            return f"r.A[{scope.pick('0', 'm % 2')}]"
        case _:
            names = [*_READ_ONLY]
            if scope.order != "PARALLEL":
                names += [name for name in _OUTPUTS if name in scope.written]
            return f"{scope.pick(*names)}.at(K=0 + {index})"


def _read(scope: _Scope) -> str:
    if scope.general and scope.number(0, 4) == 0:
        return _at_level(scope)
    kind = scope.number(0, 9)
    if kind == 3:
        return scope.pick("h", "h[1, -1]", "w", "w[-1]", "m")
    if kind > 7:
        name = scope.pick(*_OUTPUTS)
        return f"{name}[0, 0, {_level(scope, name)}]"
    if kind > 3 and scope.first:
        return _temporary(scope)
    i, j, k = scope.number(-2, 2), scope.number(-2, 2), scope.number(-1, 1)
    return f"{scope.pick(*_READ_ONLY)}[{i}, {j}, {k}]"


def _temporary(scope: _Scope) -> str:
    name = scope.pick(*sorted(scope.first))
    i, j = 0, 0
    fresh = name not in scope.here or scope.first[name] == scope.block
    if scope.number(0, 1) and fresh and name != scope.target and not scope.looping:
        i, j = scope.number(-1, 1), scope.number(-1, 1)
    return f"{name}[{i}, {j}, {_level(scope, name)}]"


def _level(scope: _Scope, name: str) -> int:
    """Return an offset along K that stays inside the levels, for what the block may read so."""
    own = name in scope.here or name == scope.target
    if scope.number(0, 1) or (scope.order == "PARALLEL" and (own or scope.looping)):
        return 0
    low = 0 if scope.interval.startswith(("0", "...")) else -1
    high = 0 if scope.interval.endswith(("None", "...")) else 1
    return scope.number(low, high)
