"""Which loops a program gets, where its temporaries live, and that the text of it is stable."""

from __future__ import annotations

from typing import Any

import pytest
from differential import assert_same, front, inputs, judged, run
from interpreted import patch

from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.ir.extent import CENTRE, Facts
from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Block,
    Bound,
    Computation,
    Expr,
    Field,
    If,
    Interval,
    Number,
    Program,
    Read,
    Temporary,
    Unary,
)
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.ir.walk import assignments, expressions, walk
from halocline_engine.schedule.nodes import Kernel, Levels, Schedule
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.passes import inline as inlining
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.show import show_schedule
from halocline_engine.schedule.stages import Part

STAGED = Options(recompute=False)
PLAIN = Options(fuse=False, recompute=False, share=False)


def schedule(body: str, options: Options | None = None) -> Schedule:
    """Plan a program whose fields are a, b, c (read), and x, y (written) by its computations."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    names = ", ".join(f"{name}: Field[np.float64]" for name in "abcxy")
    return plan(*front(f"def program({names}):\n{lines}\n"), options)


def parallel(*statements: str, options: Options | None = None) -> Schedule:
    body = "\n".join(f"    {statement}" for statement in statements)
    return schedule(f"with computation(PARALLEL), interval(...):\n{body}", options)


def buffers(made: Schedule) -> list[str]:
    return [buffer.name for buffer in made.buffers]


def kernel(made: Schedule, number: int = 0) -> Kernel:
    step = made.steps[number]
    assert isinstance(step, Kernel)
    return step


def test_statements_without_offsets_share_one_kernel_and_registers() -> None:
    made = parallel("t = a * 2.0", "x = t + b", "y = t - x")
    assert len(made.steps) == 1
    assert buffers(made) == []
    assert [register.name for register in kernel(made).registers] == ["t"]


def test_a_chain_with_offsets_is_recomputed_in_one_kernel() -> None:
    made = parallel("t = a[1, 0, 0] - a", "u = t[0, 1, 0] - t", "x = u[-1, 0, 0] + u")
    assert len(made.steps) == 1
    assert buffers(made) == []


def test_staged_temporaries_live_in_memory_as_wide_as_they_are_read() -> None:
    made = parallel("t = a[1, 0, 0] - a", "x = t[-1, 0, 0] + t", options=STAGED)
    assert [(b.name, b.extent) for b in made.buffers] == [("t", ((-1, 0), (0, 0)))]
    assert [kernel(made, n).extent for n in (0, 1)] == [((-1, 0), (0, 0)), CENTRE]


def test_what_is_dear_is_not_recomputed() -> None:
    made = parallel("t = exp(a) + sin(b) + log(c)", "x = t[1, 0, 0] + t[-1, 0, 0] + t[0, 1, 0]")
    assert buffers(made) == ["t"]


def test_what_is_overwritten_is_not_recomputed() -> None:
    made = schedule(
        """
with computation(PARALLEL), interval(...):
    t = x * 2.0
with computation(FORWARD), interval(1, None):
    x = a + y[0, 0, -1]
    y = t
"""
    )
    assert buffers(made) == ["t"]


def test_a_field_may_be_overwritten_by_what_it_makes() -> None:
    made = parallel("t = x * 2.0", "x = t + 1.0")
    assert len(made.steps) == 1
    assert buffers(made) == []


def test_scratch_names_used_again_are_told_apart() -> None:
    made = parallel("t = a", "x = t", "t = b[1, 0, 0]", "y = t[0, 1, 0]")
    assert buffers(made) == []
    assert len(made.steps) == 1


def test_dead_temporaries_go_and_keep_their_extents() -> None:
    made = parallel("t = a[5, 0, 0]", "x = b")
    assert len(kernel(made).sections[0].body) == 1
    assert made.facts.fields["a"] == ((0, 5), (0, 0), (0, 0))


def test_a_branch_with_nothing_left_is_turned_round() -> None:
    text = "with computation(PARALLEL), interval(...):\n    if a > b:\n        t = a\n"
    text += "    else:\n        x = b\n"
    (kernel,) = schedule(text).steps
    assert isinstance(kernel, Kernel)
    (branch,) = kernel.sections[0].body
    assert isinstance(branch, If)
    assert isinstance(branch.condition, Unary)
    assert (branch.condition.operator, branch.condition.dtype) == ("not", DType.BOOL)
    assert (len(branch.then), branch.otherwise) == (1, ())


def test_intervals_are_sections_of_one_kernel() -> None:
    made = schedule(
        """
with computation(PARALLEL):
    with interval(0, 1):
        x = a
    with interval(1, None):
        x = b
"""
    )
    assert len(kernel(made).sections) == 2


def test_a_read_of_what_another_level_writes_cuts_the_kernel() -> None:
    made = schedule(
        """
with computation(PARALLEL):
    with interval(0, 1):
        x = a
    with interval(1, 2):
        x = x[0, 0, -1]
"""
    )
    assert len(made.steps) == 2


def test_statements_move_up_past_what_they_do_not_touch() -> None:
    made = parallel("x = a", "t = b", "y = t[1, 0, 0] + x", options=STAGED)
    assert [len(kernel(made, n).sections[0].body) for n in range(len(made.steps))] == [1, 1, 1]
    made = parallel("t = a", "x = t[1, 0, 0]", "u = b", "y = u[1, 0, 0]", options=STAGED)
    assert [len(kernel(made, n).sections[0].body) for n in range(len(made.steps))] == [2, 2]


CROSSING = """
with computation(PARALLEL), interval(...):
    x = a + c
with computation(FORWARD), interval(1, None):
    {column}
with computation(PARALLEL), interval(...):
    {after}
"""


@pytest.mark.parametrize(
    ("column", "after", "orders"),
    [
        ("y = y[0, 0, -1] + b", "x = x * c", [Order.PARALLEL, Order.FORWARD]),
        ("y = y[0, 0, -1] + b", "b = a * c", [Order.PARALLEL, Order.FORWARD, Order.PARALLEL]),
        ("y = y[0, 0, -1] + b", "c = a * y", [Order.PARALLEL, Order.FORWARD, Order.PARALLEL]),
    ],
    ids=["apart", "read by columns", "made by columns"],
)
def test_statements_move_up_past_columns_that_they_do_not_touch(
    column: str, after: str, orders: list[Order]
) -> None:
    made = schedule(CROSSING.format(column=column, after=after))
    assert [kernel(made, n).order for n in range(len(made.steps))] == orders


def test_what_columns_read_stays_with_them() -> None:
    made = schedule(
        """
with computation(PARALLEL), interval(...):
    x = a
with computation(FORWARD), interval(1, None):
    y = y[0, 0, -1] + b
with computation(PARALLEL), interval(...):
    t = a * c
with computation(BACKWARD), interval(0, -1):
    y = y[0, 0, 1] + t[0, 0, 1]
"""
    )
    assert [kernel(made, n).order for n in range(2)] == [Order.PARALLEL, Order.FORWARD]
    assert len(made.steps) == 2


def test_a_sequential_computation_is_one_column_kernel() -> None:
    made = schedule(
        """
with computation(FORWARD):
    with interval(0, 1):
        x = a
    with interval(1, None):
        m = a + x[0, 0, -1]
        x = m * m
"""
    )
    assert kernel(made).order is Order.FORWARD
    assert [register.name for register in kernel(made).registers] == ["m"]


def test_a_neighbour_of_the_same_computation_distributes_the_loop() -> None:
    made = schedule(
        """
with computation(FORWARD), interval(1, None):
    t = a + b
    y = t[1, 0, 0] + y[0, 0, -1]
"""
    )
    assert [kernel(made, n).order for n in (0, 1)] == [Order.FORWARD, Order.FORWARD]
    assert buffers(made) == ["t"]


def test_levels_that_do_not_wait_are_computed_side_by_side() -> None:
    made = schedule(
        """
with computation(BACKWARD), interval(...):
    t = a + b[0, 0, 1]
    x = t[1, 0, 0]
with computation(FORWARD), interval(1, None):
    y = x[0, 0, -1]
"""
    )
    assert {kernel(made, n).order for n in range(len(made.steps))} == {Order.PARALLEL}


def test_reading_before_assigning_reads_zero() -> None:
    made = schedule(
        """
with computation(FORWARD), interval(1, None):
    if a > 0.0:
        t = a
with computation(PARALLEL), interval(...):
    x = t[0, 1, 0]
"""
    )
    (statement,) = kernel(made).sections[0].body
    assert statement == Assign("t", Number(DType.FLOAT64, 0.0))
    assert kernel(made).extent == ((0, 0), (0, 1))


SEARCHED = """
with computation({order}):
    with interval({first}, 1):
        t = a
    with interval(1, None):
        t = a + b
with computation({reader}), interval(...):
    n = 0
    while n < 3 and t.at(K=n) < c:
        n = n + 1
    x = t.at(K=n)
"""


@pytest.mark.parametrize("reader", ["PARALLEL", "FORWARD", "BACKWARD"])
def test_no_zeros_are_written_where_all_levels_are_assigned_before_one_is_looked_up(
    reader: str,
) -> None:
    made = schedule(SEARCHED.format(order="FORWARD", first=0, reader=reader))
    (only,) = buffers(made)
    assigned = [a for n in range(len(made.steps)) for a in all_assigned(kernel(made, n))]
    assert all(a.value != Number(DType.FLOAT64, 0.0) for a in assigned if a.target == only)


def test_zeros_are_written_where_a_level_is_looked_up_that_is_not_assigned() -> None:
    text = SEARCHED.replace("with interval({first}, 1):\n        t = a\n    ", "")
    made = schedule(text.format(order="FORWARD", reader="PARALLEL"))
    first = next(iter(all_assigned(kernel(made))))
    assert first == Assign(buffers(made)[0], Number(DType.FLOAT64, 0.0))


def test_points_that_look_levels_up_keep_a_kernel_of_their_own() -> None:
    made = schedule(
        SEARCHED.format(order="FORWARD", first=0, reader="PARALLEL").replace(
            "t = a + b", "t = t[0, 0, -1] + b"
        )
    )
    assert [kernel(made, n).order for n in range(len(made.steps))] == [
        Order.FORWARD,
        Order.PARALLEL,
    ]


def all_assigned(one: Kernel) -> list[Assign]:
    return [assign for section in one.sections for assign in assignments(section.body)]


def entangled() -> tuple[Program, Facts]:
    """Return a program whose columns need each other level by level; no text gives this one."""
    f64 = DType.FLOAT64
    axes = tuple(Axis)

    def read(name: str, *offset: int) -> Expr:
        return Read(name, (offset[0], offset[1], offset[2]), f64)

    half = Binary("*", Number(f64, 0.5), read("u", -1, 0, -1), f64)
    upper = Interval(Bound(False, 1), Bound(True, 0))
    lower = Interval(Bound(False, 0), Bound(False, 1))
    blocks = (
        Block(lower, (Assign("t", read("a", 0, 0, 0)), Assign("u", read("t", 1, 0, 0)))),
        Block(
            upper,
            (
                Assign("t", Binary("+", read("a", 0, 0, 0), half, f64)),
                Assign("u", read("t", 1, 0, 0)),
                Assign("x", Binary("-", read("u", 0, 0, 0), read("t", 0, 0, 0), f64)),
            ),
        ),
    )
    program = Program(
        "entangled",
        ("a", "x"),
        (Field("a", f64, axes, True, False), Field("x", f64, axes, False, True)),
        (),
        (Temporary("t", f64), Temporary("u", f64)),
        (Computation(Order.FORWARD, blocks),),
    )
    return program, analyse(program)


@pytest.mark.parametrize("options", [Options(), PLAIN])
def test_entangled_columns_go_level_by_level(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, facts = entangled()
    made = plan(program, facts, options)
    assert any(isinstance(step, Levels) for step in made.steps)
    patch(monkeypatch)
    domain = (6, 3, 5)
    given = inputs(program, facts, domain)
    expected = judged(program, facts, given, domain, {})
    assert_same(run(CpuBackend().build(made).load(), given, domain, {}), expected)


def test_repeated_values_are_shared_but_not_across_an_assignment() -> None:
    made = parallel("x = (a + b) * (a + b)", "y = (x + b) * (a + b)", "x = (x + b) + y")
    names = [register.name for register in kernel(made).registers]
    assert names
    text = show_schedule(made)
    assert text.count("(common.0[0, 0, 0] + common.1[0, 0, 0])") <= 1
    assert text.count("x.0[0, 0, 0]") == 1


def test_small_powers_are_products_on_every_target() -> None:
    text = show_schedule(parallel("x = a ** 3 + b ** 5", options=PLAIN))
    assert "((a[0, 0, 0] * a[0, 0, 0]) * a[0, 0, 0])" in text
    assert "pow(b[0, 0, 0]" in text


def test_the_text_of_a_schedule() -> None:
    made = schedule(
        """
with computation(PARALLEL), interval(...):
    t = a[1, 0, 0] - a
    u = t[0, 1, 0]
    dead = b
with computation(FORWARD):
    with interval(0, 1):
        x = u
    with interval(1, None):
        m = u * 2.0
        x = x[0, 0, -1] + m * t
"""
    )
    assert show_schedule(made) == EXPECTED


EXPECTED = """\
schedule program
temporary t: float64 recomputed where it is read
temporary u: float64 recomputed where it is read
temporary dead: float64 left out, no field depends on it
temporary m: float64 in a register of kernel 0
kernel 0: FORWARD over columns of the domain
  register m: float64
  interval [0, 1)
    x = (a[1, 1, 0] - a[0, 1, 0])
  interval [1, end)
    m = ((a[1, 1, 0] - a[0, 1, 0]) * 2.0:float64)
    x = (x[0, 0, -1] + (m[0, 0, 0] * (a[1, 0, 0] - a[0, 0, 0])))
"""


@pytest.mark.parametrize("length", [12, 60])
def test_recomputing_makes_no_statement_that_is_too_large(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """Not even to see that it is: substituting one into the other doubles it each time."""
    made: list[int] = []
    substituted = vars(inlining)["_substituted"]

    def counted(part: Part, *given: Any) -> Part:
        new = substituted(part, *given)
        made.extend(sum(map(_count, expressions((stage.statement,)))) for stage in new.stages)
        return new

    monkeypatch.setattr(inlining, "_substituted", counted)
    lines = [f"t{n} = t{n - 1}[1, 0, 0] + t{n - 1}[-1, 0, 0]" for n in range(1, length)]
    parallel("t0 = a", *lines, f"x = t{length - 1}")
    assert made
    assert max(made) <= Options().statement_limit


def _count(expr: Expr) -> int:
    return sum(1 for _ in walk(expr))
