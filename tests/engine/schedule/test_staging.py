"""Blocks of points that keep temporaries: their memory, and which kernels they run."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from differential import front

from halocline_engine.backends.cuda.kernels.staged.block_layout import BlockLayout
from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.nodes import Expr, Read
from halocline_engine.ir.walk import rewrite_statement
from halocline_engine.schedule.nodes import Home, Kernel, Schedule, Staging
from halocline_engine.schedule.options import Options, Temporaries
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.show import show_schedule
from halocline_engine.schedule.storage.staging import stage

HALOS = (CENTRE, ((-1, 1), (-1, 1)), ((-2, 1), (0, 3)), ((0, 2), (-1, 0)), ((-3, 0), (-2, 2)))
DOMAINS = ((1, 1, 2), (64, 8, 1), (63, 17, 3), (129, 5, 2))


@pytest.mark.parametrize("alignment", [1, 4, 16, 32])
@pytest.mark.parametrize("block", [(32, 4), (64, 8), (7, 3)])
def test_the_first_point_of_every_block_and_row_is_aligned(
    block: tuple[int, int], alignment: int
) -> None:
    for halo, domain in product(HALOS, DOMAINS):
        layout = BlockLayout(block, halo, alignment)
        along_i, along_j = layout.blocks(domain)
        _, row, plane = layout.storage(domain).strides
        assert row % alignment == plane % alignment == 0
        for place in product(range(along_i), range(along_j)):
            assert layout.base(place, domain) % alignment == 0


def test_blocks_share_no_place_and_stay_in_their_memory() -> None:
    for halo, domain, alignment in product(HALOS, ((1, 1, 2), (17, 9, 2)), (1, 16)):
        layout = BlockLayout((8, 4), halo, alignment)
        storage = layout.storage(domain)
        along_i, along_j = layout.blocks(domain)
        (i_low, i_high), (j_low, j_high) = halo
        around = list(product(range(i_low, 8 + i_high), range(j_low, 4 + j_high), range(domain[2])))
        places = [
            layout.base(block, domain) + storage.index(point)
            for block in product(range(along_i), range(along_j))
            for point in around
        ]
        assert len(set(places)) == len(places)
        assert min(places) >= 0
        assert max(places) < storage.length


@pytest.mark.parametrize(
    ("width", "halo", "itemsize", "alignment", "price"),
    [
        (64, 2, 8, 128, 1.176),
        (32, 2, 8, 128, 1.333),
        (32, 2, 4, 128, 1.778),
        (64, 2, 8, 32, 1.0),
    ],
)
def test_what_alignment_costs(
    width: int, halo: int, itemsize: int, alignment: int, price: float
) -> None:
    layout = BlockLayout((width, 8), ((-halo, halo), (0, 0)), alignment // itemsize)
    assert round(layout.pitch / (width + 2 * halo), 3) == price


def schedule(body: str, kind: Temporaries, *, alignment: int = 128) -> Schedule:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    names = ", ".join(f"{name}: Field[np.float64]" for name in "abxy")
    made = front(f"def program({names}):\n{lines}\n")
    return plan(*made, Options(temporaries=kind, alignment=alignment))


CHAIN = """
with computation(PARALLEL), interval(...):
    t = a[1, 0, 0] - a
    u = t[0, 1, 0] + t
    x = u[-1, 0, 0] + b
"""
DEEP = """
with computation(PARALLEL), interval(...):
    t = a[1, 0, 0] - a
with computation(PARALLEL):
    with interval(0, 1):
        x = t
    with interval(1, None):
        x = t[1, 0, -1]
"""
HANDED_ON = """
with computation(PARALLEL), interval(...):
    t = a[1, 0, 0] - a
    x = t[-1, 0, 0] + b
with computation(FORWARD), interval(1, None):
    y = t[0, 1, 0] + y[0, 0, -1]
"""


def test_neighbouring_kernels_are_staged_and_their_temporaries_kept() -> None:
    made = schedule(CHAIN, "shared")
    assert made.staging == (Staging(0, 3, ("t", "u"), Home.SHARED, 1, deep=False),)
    made = schedule(CHAIN, "block", alignment=32)
    assert made.staging == (Staging(0, 3, ("t", "u"), Home.BLOCK, 32, deep=False),)
    for kind in ("auto", "recompute", "field"):
        assert schedule(CHAIN, kind).staging == ()
    assert schedule(CHAIN, "recompute").buffers == ()
    assert [b.name for b in schedule(CHAIN, "field").buffers] == ["t", "u"]


def test_other_levels_need_all_levels_of_a_block_and_no_plane_has_them() -> None:
    assert schedule(DEEP, "shared").staging == ()
    (staging,) = schedule(DEEP, "block-moved").staging
    assert staging.deep


def test_what_another_block_overwrites_is_not_read_beside_the_point() -> None:
    """No text gives such a program: the first kernel reads what the last one writes."""
    made = schedule(CHAIN, "field")
    head = made.steps[0]
    assert isinstance(head, Kernel)

    def turned(expr: Expr) -> Expr:
        return replace(expr, name="x") if isinstance(expr, Read) and expr.name == "a" else expr

    (section,) = head.sections
    body = tuple(rewrite_statement(statement, turned) for statement in section.body)
    changed = replace(head, sections=(replace(section, body=body),))
    made = replace(made, steps=(changed, *made.steps[1:]))
    (staging,) = stage(made, Options(temporaries="shared")).staging
    assert (staging.first, staging.count, staging.temporaries) == (1, 2, ("u",))


def test_what_later_steps_read_stays_in_memory() -> None:
    assert schedule(HANDED_ON, "shared").staging == ()


def test_the_text_says_where_and_which() -> None:
    lines = show_schedule(schedule(CHAIN, "block-moved")).splitlines()
    assert lines[1:4] == [
        "temporary t: float64 in memory of a block from its first halo point, moved by unused halo,"
        " at 128 bytes of the domain with 1 before and 0 after along I, 0 before and 1 after along"
        " J, because it is read at [0, 1, 0] and kernels 0 and 1 use it",
        "temporary u: float64 in memory of a block from its first halo point, moved by unused halo,"
        " at 128 bytes of the domain with 1 before and 0 after along I, because it is read at"
        " [-1, 0, 0] and kernels 1 and 2 use it",
        "blocks of points run kernels 0 to 2 one after the other, where a target has blocks; others"
        " keep their temporaries in memory",
    ]
    assert "in shared memory of a block of the domain" in show_schedule(schedule(CHAIN, "shared"))
