"""Columns on the threads of a block: what is shared, filled before it is read, and read once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from column_cases import lowered, uniform
from differential import front

from halocline_engine.analysis.extents import analyse
from halocline_engine.ir.columns.table import At
from halocline_engine.ir.nodes import Read
from halocline_engine.schedule.levels.exchange import Form, LevelPlan, plan_levels
from halocline_engine.schedule.levels.terms import Ref
from halocline_engine.schedule.nodes import Kernel
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.show import show_schedule

FLUX = "DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))(f * GradientC2F()(a * b))"
UPWIND = (
    "DivergenceF2C(bottom=SetValue(x), top=Extrapolate())("
    "Upwind3rdOrderBiasedProductC2F(bottom=FirstOrderOneSided(), top=ThirdOrderOneSided())"
    "(f, a * InterpolateF2C()(f)))"
)
NESTED = (
    "_g = GradientC2F(bottom=SetValue(x), top=SetGradient(0.0))(a)\n"
    "r = GradientF2C()(f * _g) + a * InterpolateF2C()(f * InterpolateC2F(bottom=Extrapolate(),"
    " top=SetValue(1.0))(exp(a) * b))"
)
TEXTS = {"flux": FLUX, "upwind": UPWIND, "nested": NESTED}
PLACES = {"a": At.CENTRE, "b": At.CENTRE, "f": At.FACE, "x": At.FLAT}


def kernel_of(text: str, levels: int, *, periodic: bool = False) -> Kernel:
    column = uniform(levels, 0.0, 1.0, periodic=periodic)
    program = lowered(text, PLACES, column.shape)
    (step,) = plan(program, analyse(program)).steps
    assert isinstance(step, Kernel)
    return step


def planned(text: str, form: Form, levels: int = 20, *, periodic: bool = False) -> LevelPlan:
    domain = levels if periodic else levels + 1
    narrow = {"width.centre", "width.face"}
    made = plan_levels(kernel_of(text, levels, periodic=periodic), domain, form, {"x"}, narrow)
    assert made is not None
    return made


def reads(made: LevelPlan, ref: Ref, top: bool = False) -> Iterator[Ref]:
    """Yield what is looked up, in places or in memory, to compute a value."""
    term = made.terms[ref[0]]
    if (not top and made.node_of(ref)) or isinstance(term.node, Read):
        yield ref
        return
    for operand, shift in term.operands:
        at = 0 if made.terms[operand].invariant else ref[1] + shift
        yield from reads(made, (operand, at))


def test_a_flux_is_two_values_that_levels_share_and_every_field_is_read_once() -> None:
    made = planned(FLUX, Form.NODES)
    assert [(node.levels, node.round, node.slot) for node in made.nodes] == [
        (((0, 20),), 0, 0),
        (((1, 20),), 1, 1),
    ]
    assert [made.terms[load.term].wide for load in made.loads].count(True) == 3
    assert all(load.early and load.shift == 0 for load in made.loads)
    assert (made.window, made.levels, made.own) == ((-1, 1), (0, 20), (0, 20))
    assert made.slots == (8, 8)


def test_one_place_is_enough_for_a_chain_and_none_for_a_thread_alone() -> None:
    assert planned(FLUX, Form.STAGING).slots == (8,)
    assert len(planned(NESTED, Form.STAGING).slots) < len(planned(NESTED, Form.NODES).slots)
    alone = planned(FLUX, Form.DIRECT)
    assert (alone.nodes, alone.slots, alone.rounds, alone.window) == ((), (), 0, (0, 0))
    wide = [load for load in alone.loads if alone.terms[load.term].wide]
    assert len(wide) == 8


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("text", list(TEXTS))
def test_nothing_is_read_that_was_not_filled_before(text: str, form: Form, periodic: bool) -> None:
    whole = TEXTS[text]
    if periodic:
        whole = "DivergenceF2C()(f * GradientC2F()(a * InterpolateF2C()(f)))"
    for levels in (5, 8, 23, 70):
        made = planned(whole, form, levels, periodic=periodic)
        users = [(node.levels, (0, 0), node.round, [(node.term, 0)]) for node in made.nodes]
        for rows in made.rows:
            refs = [ref for _, ref in rows.results]
            users.append(((rows.levels,), (0, 0), made.rounds, refs))
        for number, (spans, _, order, refs) in enumerate(users):
            own = made.nodes[number].window if number < len(made.nodes) else (0, 0)
            for ref in refs:
                for term, shift in reads(made, ref, number < len(made.nodes)):
                    node = made.node_of((term, shift))
                    if node is None or (number < len(made.nodes) and (term, shift) == ref):
                        assert any(x.term == term and x.shift == shift for x in made.loads)
                        continue
                    assert node.round < order
                    assert order <= node.last or shift == 0
                    assert node.window[0] <= own[0] + shift <= own[1] + shift <= node.window[1]
                    for low, high in spans:
                        assert any(a <= low + shift and high + shift <= b for a, b in node.levels)


@pytest.mark.parametrize("text", list(TEXTS))
def test_places_are_used_again_by_nobody_too_early(text: str) -> None:
    made = planned(TEXTS[text], Form.STAGING)
    for one in made.nodes:
        for two in made.nodes:
            if one is not two and one.slot == two.slot:
                assert one.last <= two.round or two.last <= one.round


def test_an_end_that_reads_far_away_computes_again_what_it_reads() -> None:
    text = "DivergenceF2C()(f * GradientC2F()(a * b))"
    near, far = (planned(text, Form.NODES, n, periodic=True) for n in (8, 40))
    late: list[set[str]] = []
    for made in (near, far):
        nodes = [(made.terms[load.term].node, load) for load in made.loads if not load.early]
        late.append({node.name for node, _ in nodes if isinstance(node, Read)})
    # The flux of the outer face is made where it is needed, of what is at the other end.
    assert late == [{"f", "width.face"}, {"a", "b", "f", "width.face"}]
    assert far.window == (-1, 1)


def test_the_schedule_says_what_is_shared_and_why_not() -> None:
    program = lowered(FLUX, PLACES, uniform(20, 0.0, 1.0).shape)
    start = "  where fields lie along K, a thread has a level: "
    assert show_schedule(plan(program, analyse(program))).endswith(
        f"{start}2 values are shared in 16 bytes a level and column, at least 8, filled 2 times,"
        " leaves first, a barrier after each; nothing is shared where that does not fit\n"
    )
    head = "def f(a: Field[float64], x: Field[float64]):\n    with computation(PARALLEL):\n"
    told = {
        "x = a[0, 0, 1]": f"{start}it computes all that it needs\n",
        "x = x + a[0, 0, 1]": f"{start}no, it has conditions, or reads what it writes\n",
        "x = a": "    x = a[0, 0, 0]\n",
    }
    for body, end in told.items():
        made = plan(*front(f"{head}        with interval(0, -1):\n            {body}\n"))
        assert show_schedule(made).endswith(end)


def test_what_is_more_than_assignments_of_what_others_wrote_has_no_levels() -> None:
    texts = {
        "a condition": "if a > 0.0:\n                x = a",
        "an old value": "x = x + a",
        "two sections": "x = a\n        with interval(2, None):\n            x = a[0, 0, -1]",
    }
    head = "def f(a: Field[float64], x: Field[float64]):\n    with computation(PARALLEL):\n"
    found: dict[str, bool] = {}
    for name, body in texts.items():
        program, facts = front(f"{head}        with interval(0, 2):\n            {body}\n")
        (step,) = plan(program, facts).steps
        assert isinstance(step, Kernel)
        found[name] = plan_levels(step, 5, Form.NODES, set(), set()) is not None
    assert found == {"a condition": False, "an old value": False, "two sections": True}
