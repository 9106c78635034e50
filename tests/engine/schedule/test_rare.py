"""Which reads only points of a few rows or columns need."""

from __future__ import annotations

from differential import front

from halocline_engine.ir.walk import accesses_of, program_bodies, targets_of
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.rare import narrow_masks, rare_reads, usual_body

TEXT = """
def edges(a: Field[float], b: Field[float], c: Field[float], d: Field[float], x: Field[float]):
    with computation(PARALLEL), interval(...):
        x = a
        with horizontal(region[I[0], :], region[:, J[-1]]):
            x = a + b
        with horizontal(region[I[0] + 1:I[-1], J[0]]):
            if c > 0.0:
                x = d[1, 0, 0]
        with horizontal(region[I[0]:I[-1], :]):
            x = x + c[0, 1, 0]
"""


def _rare(text: str) -> set[str]:
    meaning, _ = front(text)
    (body,) = program_bodies(meaning)
    return {name for name, _ in rare_reads(body, narrow_masks(meaning))} - narrow_masks(meaning)


def test_reads_under_narrow_regions_are_rare() -> None:
    meaning, _ = front(TEXT)
    (body,) = program_bodies(meaning)
    found = rare_reads(body, narrow_masks(meaning))
    assert ("b", (0, 0, 0)) in found
    assert ("c", (0, 0, 0)) in found
    assert ("d", (1, 0, 0)) in found


def test_reads_under_wide_regions_are_not() -> None:
    assert _rare(TEXT) == {"b", "c", "d"}
    meaning, _ = front(TEXT)
    (body,) = program_bodies(meaning)
    assert ("c", (0, 1, 0)) not in rare_reads(body, narrow_masks(meaning))


def test_what_is_read_elsewhere_too_is_not_rare() -> None:
    text = TEXT.replace("x = x + c[0, 1, 0]", "x = x + b")
    assert _rare(text) == {"c", "d"}


def test_one_wide_region_of_several_makes_a_read_usual() -> None:
    text = TEXT.replace("region[:, J[-1]]", "region[:, J[0]:J[-1]]")
    assert _rare(text) == {"c", "d"}


def test_names_that_stand_for_masks_and_other_values_are_no_masks() -> None:
    text = """
def named(a: Field[float], b: Field[float], x: Field[float]):
    with computation(PARALLEL), interval(...):
        {first}
        with horizontal(region[I[0], :]):
            wet = a > 0.0
        x = b if wet else 0.0
"""
    assert _rare(text.format(first="wet = a > 1.0")) == set()


def test_values_of_a_function_in_a_region_are_rare_where_they_are_chosen() -> None:
    text = """
def corner(q, source):
    with horizontal(region[I[0], J[0]]):
        q = source[1, 0, 0]
    with horizontal(region[I[-1], J[0]]):
        q = source[1, 0, 0] + source[-1, 0, 0]
    return q


def corners(q: Field[float], source: Field[float]):
    with computation(PARALLEL), interval(...):
        q = corner(q, source)
"""
    schedule = plan(*front(text))
    (step,) = schedule.steps
    masks = narrow_masks(schedule.program)
    sections = getattr(step, "sections", ())
    found = {access for section in sections for access in rare_reads(section.body, masks)}
    assert {("source", (1, 0, 0)), ("source", (-1, 0, 0))} <= found
    assert not any(name == "q" for name, _ in found)


def _usual(text: str) -> tuple[set[str], set[str]]:
    """Return what is read and assigned where no narrow region is."""
    meaning, _ = front(text)
    (body,) = program_bodies(meaning)
    masks = narrow_masks(meaning)
    usual = usual_body(body, masks, {one.name for one in meaning.temporaries})
    assert not masks & {name for name, _ in accesses_of(usual)}
    return {name for name, _ in accesses_of(usual)}, set(targets_of(usual))


def test_points_in_no_narrow_region_do_the_rest() -> None:
    read, assigned = _usual(TEXT)
    assert {"a", "c", "x"} <= read
    assert not {"b", "d"} & read
    assert assigned == {"x"}


def test_branches_that_are_left_alone_turn() -> None:
    text = """
def turned(a: Field[float], b: Field[float], x: Field[float], y: Field[float]):
    with computation(PARALLEL), interval(...):
        if a > 0.0:
            with horizontal(region[I[0], :]):
                x = b
        else:
            y = a
        if a > 1.0:
            with horizontal(region[I[0], :]):
                x = b
"""
    assert _usual(text) == ({"a"}, {"y"})


def test_names_stand_for_masks_and_values_stay_what_they_are() -> None:
    text = """
def named(a: Field[float], b: Field[float], x: Field[float], y: Field[float]):
    with computation(PARALLEL), interval(...):
        edge = False
        with horizontal(region[I[0], :]):
            edge = True
        y = b if edge else a
        x = x
"""
    assert _usual(text)[1] == {"edge", "y"}
