"""What a text means: types, names, functions, constants, offsets and intervals."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from lowered import lower

from halocline_engine.errors import ArgumentError
from halocline_engine.ir.nodes import Assign, Bound, If, Interval, Location, Program
from halocline_engine.ir.show import show, show_expr
from halocline_engine.ir.types import DType, Order
from halocline_engine.ir.verify import verify
from halocline_engine.language.gtscript import parse

F = "Field[np.float64]"


def lowered(text: str, **options: Any) -> Program:
    program = lower(parse(text), **options)
    verify(program)
    return program


def body(
    statements: str,
    *,
    head: str = "",
    args: str = f"a: {F}, b: {F}, out: {F}",
    order: str = "PARALLEL",
    interval: str = "...",
    **options: Any,
) -> Program:
    lines = "".join(f"        {line}\n" for line in statements.split("\n"))
    text = f"{head}\ndef f({args}):\n    with computation({order}), interval({interval}):\n{lines}"
    return lowered(text, **options)


def said(program: Program) -> list[str]:
    """Return the assignments of the first block as text."""
    statements = program.computations[0].blocks[0].body
    return [f"{s.target} = {show_expr(s.value)}" for s in statements if isinstance(s, Assign)]


def show_statement(statement: object) -> str:
    assert isinstance(statement, Assign)
    return f"{statement.target} = {show_expr(statement.value)}"


def test_arguments_keep_their_order_and_use() -> None:
    program = lowered(
        "def f(c: float, a: Field[np.float64], *, s: Field[IJ, np.int32] = None, n: int = 3,\n"
        "      flag: bool = True, out: Field[np.float64], d: float = GAIN / 2):\n"
        "    with computation(PARALLEL), interval(...):\n"
        "        out = out + c\n"
        "GAIN = 3\n"
    )
    assert program.arguments == ("c", "a", "s", "n", "flag", "out", "d")
    assert [(f.name, f.read, f.written) for f in program.fields] == [
        ("a", False, False),
        ("s", False, False),
        ("out", True, True),
    ]
    assert [(s.name, s.dtype.value, s.default) for s in program.scalars] == [
        ("c", "float64", None),
        ("n", "int64", 3),
        ("flag", "bool", True),
        ("d", "float64", 1.5),
    ]


@pytest.mark.parametrize(
    "imports",
    [
        "",
        "from __future__ import annotations\nfrom gt4py.cartesian.gtscript import *",
        "import numpy\nimport numpy as np\nfrom gt4py.cartesian import gtscript",
        "import gt4py.cartesian.gtscript as gtscript",
        "from gt4py import gtscript\nfrom gt4py.gtscript import PARALLEL, Field, computation",
    ],
)
def test_imports_may_be_there_or_not(imports: str) -> None:
    assert said(body("out = a", head=imports)) == ["out = a[0, 0, 0]"]


def test_imported_names_may_be_spelled_otherwise() -> None:
    program = lowered(
        "import gt4py.cartesian.gtscript as gts\n"
        "import numpy as xp\n"
        "from gt4py.cartesian.gtscript import sqrt as root, PARALLEL as ALL\n"
        "@gts.stencil(backend='numpy')\n"
        "def f(a: gts.Field[gts.IJK, xp.float32], out: 'float32' = None):\n"
        "    with gts.computation(ALL), gts.interval(...):\n"
        "        a = root(a) + gts.sin(a)\n"
    )
    assert said(program) == ["a = (sqrt(a[0, 0, 0]):float32 + sin(a[0, 0, 0]):float32)"]


def test_types_by_name() -> None:
    program = lowered(
        "D = np.float32\nPlane = Field[IJ, D]\n"
        "def f(a: Field['T'], s: Plane, c: D, w: Field[K, 'T']):\n"
        "    with computation(FORWARD), interval(...):\n"
        "        s = a * c + w\n",
        dtypes={"T": np.float64},
    )
    assert [f.dtype.value for f in program.fields] == ["float64", "float32", "float64"]
    assert ["".join(f.axes) for f in program.fields] == ["IJK", "IJ", "K"]
    assert program.scalars[0].dtype is DType.FLOAT32


def test_types_from_the_caller_come_before_those_of_the_text() -> None:
    text = (
        "def f(a: Field[Real]):\n    with computation(PARALLEL), interval(...):\n        a = 1.0\n"
    )
    assert lowered("Real = np.float64\n" + text, dtypes={"Real": "float32"}).fields[
        0
    ].dtype is DType("float32")


@pytest.mark.parametrize("kind", ["(np.float64, (4, 5))", "(Real, SHAPE)"])
def test_a_table_may_have_a_constant_for_its_type_and_shape(kind: str) -> None:
    text = (
        f"Real = np.float64\nSHAPE = (4, 5)\nKIND = {kind}\n"
        f"def f(a: {F}, table: GlobalTable[KIND]):\n"
        "    with computation(PARALLEL), interval(...):\n        a = table.A[1, 2]\n"
    )
    assert [lookup.shape for lookup in lowered(text).lookups] == [(4, 5)]


def test_constants() -> None:
    head = (
        "class grid:\n    DX = 0.5\n    N: int = 3\n"
        "HALF = np.float32(0.5)\nTWO = grid.N - 1\nPOWER = -TWO ** 3 % 5\n"
        "BIG = 1 if TWO > 1 else 2\n"
        "OFF = not (True and TWO == 3)\n"
    )
    program = body("out = a * HALF + grid.DX + TWO + POWER + BIG + np.pi\nt = OFF", head=head)
    assert said(program) == [
        "out = ((((((a[0, 0, 0] * 0.5:float64) + 0.5:float64) + 2.0:float64) + 2.0:float64) + "
        "1.0:float64) + 3.141592653589793:float64)",
        "t = True:bool",
    ]


def test_externals() -> None:
    head = "def double(x):\n    return x + x\n"
    statements = "if __INLINED(on):\n    out = op(a) * c.x.y + k\nelse:\n    out = b[3, 0, 0]"
    text = (
        f"{head}\ndef f(a: {F}, b: {F}, out: {F}):\n"
        "    from __externals__ import c, k, on, op\n"
        "    with computation(PARALLEL), interval(...):\n"
        + "".join(f"        {line}\n" for line in statements.split("\n"))
    )
    externals = {"op": {"function": "double"}, "k": np.float32(0.1), "on": True}
    for constants in (
        {"x": {"y": 2}},
        {"x": SimpleNamespace(y=2)},
        SimpleNamespace(x={"y": 2}),
    ):
        program = lowered(text, externals={**externals, "c": constants})
        assert said(program) == [
            "double.1.return = (a[0, 0, 0] + a[0, 0, 0])",
            "out = ((double.1.return[0, 0, 0] * 2.0:float64) + 0.10000000149011612:float64)",
        ]
    assert said(lowered(text, externals={**externals, "c": {"x": {"y": 2}}, "on": False})) == [
        "out = b[3, 0, 0]"
    ]


def test_a_python_function_as_an_external_is_found_by_its_name() -> None:
    def double(x: float) -> float:
        raise AssertionError(x)

    text = (
        f"def double(x):\n    return x + x\n\ndef f(a: {F}):\n    from __externals__ import op\n"
        "    with computation(PARALLEL), interval(...):\n        a = op(a)\n"
    )
    assert said(lowered(text, externals={"op": double})) == ["a = (a[0, 0, 0] + a[0, 0, 0])"]


def test_private_attributes_of_externals_are_not_read() -> None:
    text = (
        f"def f(a: {F}):\n    from __externals__ import c\n"
        "    with computation(PARALLEL), interval(...):\n        a = c.__class__\n"
    )
    with pytest.raises(ArgumentError, match="has no '__class__'"):
        lowered(text, externals={"c": SimpleNamespace(x=1)})


def test_functions() -> None:
    head = (
        "def lap(q):\n    return q[1, 0, 0] - q\n"
        "def both(q, p, *, c=2.0):\n    t = q * c\n    p = p + t\n    return t, p\n"
    )
    program = body("x, y = both(a, lap(b[0, 1, 0]))\nout = x + lap(y)", head=head)
    assert said(program) == [
        "lap.1.q = b[0, 1, 0]",
        "lap.1.return = (lap.1.q[1, 0, 0] - lap.1.q[0, 0, 0])",
        "both.2.p = lap.1.return[0, 0, 0]",
        "both.2.t = (a[0, 0, 0] * 2.0:float64)",
        "both.2.p = (both.2.p[0, 0, 0] + both.2.t[0, 0, 0])",
        "x = both.2.t[0, 0, 0]",
        "y = both.2.p[0, 0, 0]",
        "lap.3.return = (y[1, 0, 0] - y[0, 0, 0])",
        "out = (x[0, 0, 0] + lap.3.return[0, 0, 0])",
    ]


def test_a_function_assigns_its_result_to_the_target_directly() -> None:
    head = "def g(q):\n    r = q + 1.0\n    return r * r\n"
    assert said(body("out = g(a)", head=head)) == [
        "g.1.r = (a[0, 0, 0] + 1.0:float64)",
        "out = (g.1.r[0, 0, 0] * g.1.r[0, 0, 0])",
    ]


def test_a_result_that_is_a_temporary_is_not_copied() -> None:
    head = "def g(q):\n    r = q + 1.0\n    return r\n"
    assert said(body("out = 2.0 * g(a)", head=head))[1] == "out = (2.0:float64 * g.1.r[0, 0, 0])"


def test_constant_arguments_become_temporaries_only_where_they_are_moved() -> None:
    head = "def g(q, c):\n    return q * c\ndef h(q):\n    return q[1, 0, 0]\n"
    assert said(body("out = g(a, 3.0) + h(1)", head=head)) == [
        "g.1.return = (a[0, 0, 0] * 3.0:float64)",
        "h.2.q = 1:int64",
        "h.2.return = h.2.q[1, 0, 0]",
        "out = (g.1.return[0, 0, 0] + float64(h.2.return[0, 0, 0]))",
    ]


def test_calls_in_a_branch_are_inlined_there() -> None:
    head = "def g(q):\n    return q * q\n"
    program = body("if a > 0.0:\n    out = 1.0 + g(b)", head=head)
    branch = program.computations[0].blocks[0].body[0]
    assert isinstance(branch, If)
    assert [show_statement(statement) for statement in branch.then] == [
        "g.1.return = (b[0, 0, 0] * b[0, 0, 0])",
        "out = (1.0:float64 + g.1.return[0, 0, 0])",
    ]


@pytest.mark.parametrize(
    ("left", "conditions"),
    [
        ("compile_assert(1 > 0)", []),
        ("if __INLINED(1 < 0):\n        out = b", []),
        ("compile_assert(1 > 0)\nelse:\n    out = b", ["(not (a[0, 0, 0] > 0.0:float64))"]),
    ],
)
def test_a_condition_stays_where_it_decides_on_something(left: str, conditions: list[str]) -> None:
    program = body(f"if a > 0.0:\n    {left}\nout = a")
    found = program.computations[0].blocks[0].body
    assert [show_expr(one.condition) for one in found if isinstance(one, If)] == conditions
    assert len(found) == len(conditions) + 1


@pytest.mark.parametrize("condition", ["kind == 0", "__INLINED(kind == 0)", "not kind > 0"])
def test_a_function_may_return_in_the_branch_that_constants_choose(condition: str) -> None:
    inner = "y = 3.0 * q\n        q += y\n        return y"
    last = f"{condition}:\n        {inner}\n    else:\n        q += 9.0"
    text = (
        f"def g(q):\n    from __externals__ import kind\n    q += 1.0\n    if {last}\n\n\n"
        f"def f(a: {F}, out: {F}):\n    with computation(PARALLEL), interval(...):\n"
        "        t = a\n        out = g(t)\n"
    )
    assert said(lowered(text, externals={"kind": 0})) == [
        "t = a[0, 0, 0]",
        "t = (t[0, 0, 0] + 1.0:float64)",
        "g.1.y = (3.0:float64 * t[0, 0, 0])",
        "t = (t[0, 0, 0] + g.1.y[0, 0, 0])",
        "out = g.1.y[0, 0, 0]",
    ]


@pytest.mark.parametrize(
    ("depth", "kept"),
    [(3, ["0", "1", "1:None"]), (2, ["0", "1:None"]), (0, ["0", "9"])],
)
def test_computations_and_intervals_are_chosen(depth: int, kept: list[str]) -> None:
    program = lowered(
        f"""def f(a: {F}, out: {F}):
    from __externals__ import depth
    with computation(PARALLEL), interval(...):
        out = a
    if __INLINED(depth > 1):
        with computation(FORWARD):
            if __INLINED(depth > 2):
                with interval(0, 1):
                    out = 1.0
            with interval(1, None):
                out = out[0, 0, -1]
    elif __INLINED(depth):
        with computation(PARALLEL), interval(...):
            out = unknown
    else:
        with computation(PARALLEL), interval(...):
            out = 9.0
""",
        externals={"depth": depth},
    )
    found = [block for one in program.computations for block in one.blocks]
    shown = {"a[0, 0, 0]": "0", "1.0:float64": "1", "out[0, 0, -1]": "1:None", "9.0:float64": "9"}
    values = [s.value for block in found for s in block.body if isinstance(s, Assign)]
    assert [shown[show_expr(value)] for value in values] == kept


def test_all_computations_of_a_stencil_may_be_chosen() -> None:
    text = (
        f"def f(a: {F}):\n    if __INLINED(1 < 2):\n"
        "        with computation(PARALLEL), interval(...):\n            a = 1.0\n"
    )
    assert said(lowered(text)) == ["a = 1.0:float64"]


def test_names_of_users_do_not_clash_with_those_of_the_language() -> None:
    args = f"I: {F}, K: {F}, min: {F}, computation: {F}, np: {F}, gtscript: {F}"
    program = body("PARALLEL = K[1, 0, 0] + I\nnp = min(PARALLEL, min) + gtscript", args=args)
    assert said(program) == [
        "PARALLEL = (K[1, 0, 0] + I[0, 0, 0])",
        "np = (min(PARALLEL[0, 0, 0], min[0, 0, 0]):float64 + gtscript[0, 0, 0])",
    ]


def test_an_axis_in_a_function_is_not_the_callers_field() -> None:
    head = "def up(q):\n    return q[K + 1]\n"
    assert said(body("out = up(K)", head=head, args=f"K: {F}, out: {F}")) == ["out = K[0, 0, 1]"]


def test_a_local_name_hides_a_constant() -> None:
    assert said(body("GAIN = a\nout = GAIN", head="GAIN = 2.0")) == [
        "GAIN = a[0, 0, 0]",
        "out = GAIN[0, 0, 0]",
    ]


@pytest.mark.parametrize(
    ("read", "offset"),
    [
        ("q", "0, 0, 0"),
        ("q[...]", "0, 0, 0"),
        ("q[1, -2, +3]", "1, -2, 3"),
        ("q[I + 1]", "1, 0, 0"),
        ("q[J - 2, K]", "0, -2, 0"),
        ("q[I, J, K - 1]", "0, 0, -1"),
        ("q[I + D, K - D]", "2, 0, -2"),
        ("q[D, 0, -D]", "2, 0, -2"),
    ],
)
def test_offsets(read: str, offset: str) -> None:
    program = body(f"out = {read}", head="D = 2", args=f"q: {F}, out: {F}")
    assert said(program) == [f"out = q[{offset}]"]


@pytest.mark.parametrize(
    ("axes", "index", "offset"),
    [
        ("IJ", "1, -1", "1, -1, 0"),
        ("IK", "1, -1", "1, 0, -1"),
        ("JK", "1, -1", "0, 1, -1"),
        ("I", "1", "1, 0, 0"),
        ("J", "1", "0, 1, 0"),
        ("K", "1", "0, 0, 1"),
        ("JK", "K + 1", "0, 0, 1"),
    ],
)
def test_offsets_of_fields_with_fewer_axes(axes: str, index: str, offset: str) -> None:
    args = f"s: Field[{axes}, np.float64], out: {F}"
    assert said(body(f"out = s[{index}]", args=args)) == [f"out = s[{offset}]"]


@pytest.mark.parametrize(
    ("interval", "start", "end"),
    [
        ("...", (False, 0), (True, 0)),
        ("0, None", (False, 0), (True, 0)),
        ("1, -1", (False, 1), (True, -1)),
        ("-2, None", (True, -2), (True, 0)),
        ("-3, -1", (True, -3), (True, -1)),
        ("2", (False, 2), (False, 3)),
        ("-1", (True, -1), (True, 0)),
        ("start=1, end=None", (False, 1), (True, 0)),
        ("1, end=4", (False, 1), (False, 4)),
        ("k0, k1", (False, 2), (True, -1)),
        ("k0 - 1, N + 1", (False, 1), (False, 4)),
    ],
)
def test_intervals(interval: str, start: tuple[bool, int], end: tuple[bool, int]) -> None:
    text = (
        f"N = 3\ndef f(a: {F}):\n    from __externals__ import k0, k1\n"
        f"    with computation(FORWARD), interval({interval}):\n        a = 1.0\n"
    )
    program = lowered(text, externals={"k0": 2, "k1": {"axis": "K", "index": -2, "offset": 1}})
    assert program.computations[0].order is Order.FORWARD
    assert program.computations[0].blocks[0].interval == Interval(Bound(*start), Bound(*end))


def test_an_axis_index_of_gt4py_is_understood() -> None:
    axis = SimpleNamespace(axis=SimpleNamespace(name="K"), index=-2, offset=1)
    text = (
        f"def f(a: {F}):\n    from __externals__ import k0\n"
        "    with computation(FORWARD), interval(k0, None):\n        a = 1.0\n"
    )
    program = lowered(text, externals={"k0": axis})
    assert program.computations[0].blocks[0].interval.start == Bound(True, -1)


def test_statements_know_their_place() -> None:
    head = "def g(q):\n    r = q + 1.0\n    return r\n"
    program = body("if a > 0.0:\n    out = g(a)", head=head)
    branch = program.computations[0].blocks[0].body[0]
    assert isinstance(branch, If)
    assert branch.location == Location(7, 9)
    assert [statement.location for statement in branch.then] == [Location(2, 5), Location(8, 13)]


def test_augmented_and_tuple_assignment_are_sequential() -> None:
    assert said(body("a, b = b, a\na **= 2\nb %= 3")) == [
        "a = b[0, 0, 0]",
        "b = a[0, 0, 0]",
        "a = pow(a[0, 0, 0], 2:int64):float64",
        "b = (b[0, 0, 0] % 3.0:float64)",
    ]


def test_a_stencil_is_chosen_by_name() -> None:
    text = "".join(
        f"def {name}(a: {F}):\n    with computation(PARALLEL), interval(...):\n        {line}\n"
        for name, line in (("one", "a = 1.0"), ("two", "a = 2.0"), ("bad", "a = a // 2"))
    )
    assert said(lowered(text, name="two")) == ["a = 2.0:float64"]


def test_the_same_text_means_the_same_in_every_process() -> None:
    code = (
        "from halocline_engine.ir.lower.program import lower\n"
        "from halocline_engine.ir.show import show\n"
        "from halocline_engine.language.gtscript import parse\n"
        f"text = {SAME!r}\n"
        "print(show(lower(parse(text))[0]), end='')\n"
    )
    # This process has a seed of its own for the order of sets.
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert other.stdout == show(lowered(SAME))


SAME = f"""
def g(p, q):
    t = p * q
    s = t + p
    return s, t


def f(a: {F}, b: {F}, out: {F}, n: int, c: float):
    with computation(PARALLEL), interval(...):
        x, y = g(a, b)
        z, x = g(x + n, y * c)
        out = x + y + z
"""


def test_a_value_is_computed_once_for_all_components_that_it_may_go_to() -> None:
    """It chooses among the components itself, so n copies of it would have n * n parts."""

    def size(count: int) -> int:
        args = f"v: Field[(np.float64, ({count},))], a: {F}, n: int"
        return len(show(body("v[0, 0, 0][n] = a * v.A[n] + v.A[n]", args=args)))

    assert size(128) < 5 * size(32)
