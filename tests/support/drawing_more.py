"""Statements of the whole language: regions, planes, functions, vectors, and other spellings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from drawing_regions import regions
from drawing_scope import OUTPUTS, PLANES, READ_ONLY, Scope
from drawing_values import condition, read, value, whole_number

__all__ = ["TYPED", "VECTORS", "more"]

#: Draws a statement with a margin, and others in it up to a depth.
_Draw: TypeAlias = Callable[[Scope, str, int], str]
_INDENT = "    "
#: Temporaries with all axes that are declared with a type.
TYPED = {"real": "np.float32", "count": "np.int64", "byte": "np.int8", "flag": "bool"}
#: What is decided when a program is compiled; GT4Py takes no mapping, as in the last one.
_KNOWN = (
    *("HALF > 0.25", "HALF > 0.75", "WET", "not WET", "STEPS == 2 and WET", "STEPS > COUNT"),
    *("Phase.ICE == COUNT", "scheme.rate > LIMIT"),
)
#: Temporaries with two components.
VECTORS = ("e", "e2")


def more(scope: Scope, pad: str, nest: int, inner: _Draw) -> str:
    """Return a statement; `inner` draws those that are in it."""
    match scope.number(0, 15):
        case 0 | 1 | 2 if nest and not scope.in_region:
            return _in_regions(scope, pad, nest, inner)
        case 3 if nest:
            return _choice(scope, pad, nest, inner)
        case 4 | 5 | 6 if scope.order != "PARALLEL":
            return f"{pad}{_plane(scope)}\n"
        case 7:
            return f"{pad}{_called(scope)}\n"
        case 8:
            return f"{pad}{_vector(scope)}\n"
        case 9:
            return f"{pad}{_two(scope)}\n"
        case 10:
            return f"{pad}{_typed(scope)}\n"
        case 11:
            return f"{pad}{_other_output(scope)}\n"
        case 12:
            return f"{pad}{_from_module(scope)}\n"
        case 13:
            return f"{pad}{_product(scope)}\n"
        case _:
            target = _target(scope)
            return f"{pad}{target} {scope.pick('+=', '-=')} {value(scope, 2)}\n"


def _in_regions(scope: Scope, pad: str, nest: int, inner: _Draw) -> str:
    text = f"{pad}{regions(scope)}\n"
    scope.in_region = True
    for _ in range(scope.number(1, 2)):
        text += inner(scope, pad + _INDENT, nest - 1)
    scope.in_region = False
    return text


def _choice(scope: Scope, pad: str, nest: int, inner: _Draw) -> str:
    """Return a choice of three, or one that is made when the program is compiled.

    The branch that is left out then breaks rules, which GT4Py looks at.
    """
    if scope.number(0, 5) == 0 and not scope.peer:
        return f"{pad}if __INLINED(COUNT > 2):\n{pad}{_INDENT}x = x[1, 0, 0] + mean(o)\n"
    if scope.number(0, 3) == 0:
        tests = [f"if __INLINED({scope.pick(*(_KNOWN[:-1] if scope.peer else _KNOWN))})", "else"]
    else:
        tests = [f"if {condition(scope)}", f"elif {condition(scope)}", "else"]
    return "".join(f"{pad}{one}:\n" + inner(scope, pad + _INDENT, nest - 1) for one in tests)


def _other_output(scope: Scope) -> str:
    """Return an assignment of a field with a type of its own, which is read at the point only."""
    match scope.number(0, 4):
        case 0:
            return f"on = {condition(scope)}"
        case 1 | 2:
            return f"{scope.pick('few', 'small')} = {whole_number(scope)}"
        case 3 if scope.order != "PARALLEL":
            return f"ground = {scope.pick('ground', '0.5 * ground')} + {value(scope, 2)}"
        case _:
            return f"fed = {value(scope, 2)}"


def _from_module(scope: Scope) -> str:
    """Return a check, or an assignment of what a function gives that has statements of its own."""
    given = read(scope) if scope.is_narrow else value(scope, 1)
    if scope.number(0, 4) == 0:
        return f"compile_assert({scope.pick('COUNT > 1', 'STEPS == 2 and WET')})"
    if scope.number(0, 1) and scope.first:
        # The function changes what it is given.
        changed = scope.pick(*sorted(scope.first))
        scope.here.add(changed)
        return f"{_target(scope)} = grown({changed}, {given})"
    function = scope.pick("chosen", "halved", "limited")
    return f"{_target(scope)} = {function}({given}) + {read(scope)}"


def _product(scope: Scope) -> str:
    """Return a product of a matrix and a vector, or an assignment of an element."""
    if scope.number(0, 1):
        scope.here.add("mm")
        index = scope.pick("0, 1", "1, m % 2")
        return f"mm[0, 0, 0][{index}] = {value(scope, 2)}"
    scope.here.add("e2")
    scope.target = "e2"
    return f"e2 = {scope.pick('mm', 'mm.T')} @ e"


def _target(scope: Scope) -> str:
    """Return what is assigned before, so that it can be read there."""
    target = scope.pick(*OUTPUTS, *sorted(scope.first))
    scope.target = target
    if target in OUTPUTS:
        scope.written.add(target)
    scope.here.add(target)
    return target


def _plane(scope: Scope) -> str:
    """Return an assignment of a temporary over I and J, which keeps its value along K."""
    name = scope.pick(*PLANES)
    whole = name == "deep"
    number = whole_number(scope) if whole else value(scope, 2)
    known = name in scope.declared
    scope.declared.add(name)
    scope.here.add(name)
    if known and scope.number(0, 3):
        return f"{name} = {scope.pick(name, '0.5 * ' + name, 'K')} + {number}"
    return f"{name}: Field[IJ, {PLANES[name]}] = {number}"


def _called(scope: Scope) -> str:
    """Return an assignment of what a function returns."""
    given = read(scope) if scope.is_narrow else value(scope, 1)
    if scope.number(0, 2) == 0 and len(scope.first) > 1:
        low, high = scope.random.sample(sorted(scope.first), 2)
        scope.here |= {low, high}
        return f"{low}, {high} = parts({given}, {scope.pick('s', 'K', '0.25')})"
    function = "mean" if not scope.is_narrow and scope.number(0, 1) else "walled"
    if scope.in_region:
        function = "abs"
    return f"{_target(scope)} = {function}({given}) + {read(scope)}"


def _vector(scope: Scope) -> str:
    """Return an assignment of all components, or of one of a temporary."""
    if scope.number(0, 2) == 0:
        scope.here.add("d")
        scope.target = "d"
        # GT4Py reads the component itself where another one is named.
        other = scope.pick(*READ_ONLY) if scope.peer else read(scope)
        return f"d = {scope.pick('0.5 * d', 'd - s', '2.0 * d')} + {other}"
    scope.here.add("e")
    scope.target = "e"
    index = scope.pick("0", "1", "m % 2", "base % 2" if scope.peer else "K % 2")
    return f"e[0, 0, 0][{index}] = {value(scope, 2)}"


def _two(scope: Scope) -> str:
    """Return two assignments, of which the second one sees the first."""
    first = _target(scope)
    number = value(scope, 1)
    second = _target(scope)
    return f"{first}, {second} = {number}, {value(scope, 1)}"


def _typed(scope: Scope) -> str:
    """Return an assignment of a temporary with a type of its own."""
    name = scope.pick(*TYPED)
    known = name in scope.declared
    scope.declared.add(name)
    match name:
        case "count" | "byte":
            number = whole_number(scope)
        case "flag":
            number = condition(scope)
        case _:
            number = value(scope, 2)
    return f"{name}{'' if known else ': ' + TYPED[name]} = {number}"
