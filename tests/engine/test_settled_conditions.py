"""Conditions on scalars: kernels of the branches that are taken, with the bits of all branches."""

from __future__ import annotations

import itertools
import pickle
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import xarray as xr
from emulation.machine import EmulatedArtifact
from general_runs import complete

import halocline_engine as he
from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.base import Adjustable
from halocline_engine.backends.cuda.build import CudaBackend
from halocline_engine.backends.settled import left_of, outcomes_of, settled, with_scalars
from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.functions.calls.variants import Variants
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.show import show, show_expr
from halocline_engine.passes.settle_conditions import scalar_conditions
from halocline_engine.program import compile_program
from halocline_engine.schedule.plan import plan

#: Branches, several in one another, parts of conditions, choices, a temporary that only one branch
#: assigns, a loop, and a plane.
SWITCHES = """
def switches(a: Field[real], b: Field[real], c: Field[real], p: Field[IJ, real],
             out: Field[real], extra: Field[real], *,
             order: int, wet: bool, rate: real):
    with computation(PARALLEL), interval(...):
        t = a[1, 0, 0] - a[-1, 0, 0]
        if order == 1:
            t = t * b[0, 1, 0]
        elif order == 2:
            half = 0.5 * b
            t = t + half[0, -1, 0]
            if wet and c > 0.1:
                t = t * c
            else:
                t = -t
        if not wet or a > b:
            kept = c + t
        out = kept + t if rate > 0.5 else b
        if order + 1 > 2 and rate * 2.0 < 3.0:
            extra = t
    with computation(FORWARD):
        with interval(0, 1):
            if wet:
                p = a
        with interval(1, None):
            if wet:
                p = p + c[0, 0, -1]
                turns = 0
                while turns < 3 and (wet or a > 0.0):
                    turns += 1
                    out = out * 0.5 + (p if rate < 1.0 else 0.25)
"""
OUTCOMES: tuple[dict[str, Any], ...] = tuple(
    {"order": order, "wet": wet, "rate": rate}
    for order, wet, rate in itertools.product((0, 1, 2), (False, True), (0.25, 0.75, 1.5))
)
SIZE, HALO, DOMAIN = (9, 8, 6), (1, 1, 0), (7, 6, 6)
ORDERS: tuple[Literal["C", "F"], ...] = ("C", "F")


def arrays(order: Literal["C", "F"] = "C", seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    names = ("a", "b", "c", "p", "out", "extra")
    drawn = {name: random.normal(size=SIZE[:2] if name == "p" else SIZE) for name in names}
    return {name: np.asarray(array, order=order) for name, array in drawn.items()}


def stencil(target: str, text: str = SWITCHES) -> he.Stencil:
    return he.stencil(text, dtypes={"real": "float64"}, target=target)


def called(made: he.Stencil, own: dict[str, Any], scalars: Mapping[str, Any]) -> dict[str, Any]:
    made(**own, **scalars, origin=HALO, domain=DOMAIN)
    return own


def meaning(text: str = SWITCHES) -> Program:
    return compile_program(text, dtypes={"real": "float64"}, target="reference").program


def test_conditions_on_scalars_are_found() -> None:
    """Not those of loops, nor choices between numbers that nothing is read for."""
    found = {re.sub(r":\w+", "", show_expr(one)) for one in scalar_conditions(meaning())}
    assert found == {
        "(order == 1)",
        "(order == 2)",
        "wet",
        "(rate > 0.5)",
        "((order + 1) > 2)",
        "((rate * 2.0) < 3.0)",
        "(rate < 1.0)",
    }


def test_what_is_left_has_no_condition_on_scalars() -> None:
    program = meaning()
    for scalars in OUTCOMES:
        left = left_of(program, scalars)
        assert not scalar_conditions(left)
        assert "order" not in show(left).partition("computation")[2]
    dry = left_of(program, {"order": 0, "wet": False, "rate": 1.0})
    used = {one.name: (one.read, one.written) for one in dry.fields}
    assert used["b"] == (False, False)
    assert used["p"] == (False, False)
    assert used["extra"] == (False, False)
    assert [one.name for one in dry.temporaries] == ["t", "kept"]


def test_a_program_that_would_do_nothing_stays() -> None:
    text = """
def nothing(a: Field[real], out: Field[real], *, on: bool):
    with computation(PARALLEL), interval(...):
        if on:
            out = a
"""
    program = meaning(text)
    assert left_of(program, {"on": False}) is program
    made = stencil("cpu", text)
    a, out = np.ones((3, 3, 3)), np.zeros((3, 3, 3))
    made(a, out, on=False)
    assert not out.any()
    made(a, out, on=True)
    assert out.all()


@pytest.mark.parametrize("order", ORDERS)
def test_cores_give_what_the_reference_gives(order: Literal["C", "F"]) -> None:
    """Calls on the same arrays settle anew each time, those that are known as well."""
    cores, reference = stencil("cpu"), stencil("reference")
    own, expected = arrays(order), arrays()
    for scalars in (*OUTCOMES, *OUTCOMES[::-1], *OUTCOMES):
        called(cores, own, scalars)
        called(reference, expected, scalars)
        for name, array in own.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=f"{name} {scalars}")


@pytest.mark.parametrize("order", ORDERS)
def test_devices_give_what_the_reference_gives(
    order: Literal["C", "F"], emulation_folder: Path
) -> None:
    compiled = compile_program(SWITCHES, dtypes={"real": "float64"}, target="reference")
    reference = stencil("reference")
    for scalars in OUTCOMES[1::2]:
        left = left_of(compiled.program, scalars)
        emulated = EmulatedArtifact(plan(left, analyse(left)), emulation_folder)
        artifact = complete(emulated, compiled.program, compiled.facts)
        own, expected = arrays(order), called(reference, arrays(), scalars)
        axes = {name: array[..., None] if name == "p" else array for name, array in own.items()}
        origins = dict.fromkeys(axes, (*HALO[:2], 0))
        artifact.load()(axes, scalars, origins, DOMAIN)
        for name, array in own.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=f"{name} {scalars}")


def test_kernels_have_the_arrays_of_branches_that_are_taken() -> None:
    compiled = compile_program(SWITCHES, dtypes={"real": "float64"}, target="cpu")
    outcomes = Variants(compiled).outcomes({"order": 0, "wet": False, "rate": 1.0})
    assert outcomes is not None
    source = CudaBackend().build(settled(compiled, outcomes).schedule).source
    assert len(set(re.findall(r"\*\s+(?:__restrict__\s+)?(f\d+)", source))) == 3
    kernels = settled(compiled, outcomes).schedule.program
    assert {one.name for one in kernels.fields if one.read} == {"a", "c"}


def test_scalars_are_checked_as_before() -> None:
    made = stencil("cpu")
    called(made, arrays(), OUTCOMES[0])
    for wrong, words in (
        ({"order": 1.5}, "Scalar 'order' is 1.5, which does not fit into a 'int64'."),
        ({"order": None}, "Scalar 'order' must"),
        ({"wet": np.ones(3)}, "Scalar 'wet' must be a 'bool', but is an array."),
    ):
        with pytest.raises(he.ArgumentError) as error:
            called(made, arrays(), {**OUTCOMES[0], **wrong})
        assert words in str(error.value)


MANY = (
    "def many(a: Field[real], out: Field[real], *, n: int):\n"
    + ("    with computation(PARALLEL), interval(...):\n        out = a\n")
    + "".join(f"        if n == {n}:\n            out = a + {n}.0\n" for n in range(30))
)


def test_many_outcomes_have_the_kernels_that_test_conditions() -> None:
    a, out, compiled = np.zeros((2, 2, 2)), np.zeros((2, 2, 2)), stencil("cpu", MANY).compiled
    variants = Variants(compiled)
    for n in (*range(31), *range(31)):
        executable = variants.load({"n": n})
        executable({"a": a, "out": out}, {"n": n}, {"a": (0, 0, 0), "out": (0, 0, 0)}, (2, 2, 2))
        assert (out == (n if n < 30 else 0)).all()
    assert len(list(variants)) == 17


def test_steps_and_copies_have_the_outcomes_too() -> None:
    text = """
def step(a: Field[real], b: Field[real], out: Field[real], *, on: bool):
    with computation(PARALLEL), interval(...):
        out = a[1, 0, 0] + a[-1, 0, 0]
        if on:
            out = out * b
"""
    made = pickle.loads(pickle.dumps(stencil("cpu", text)))
    for on in (False, True, False):
        found: list[Any] = []
        for one in (made, stencil("reference", text)):
            own = {n: arrays()[n] for n in ("a", "b", "out")}
            ended = one.repeat(5, **own, on=on, feedback={"out": "a"}, origin=HALO, domain=DOMAIN)
            found.append(ended["out"])
        np.testing.assert_array_equal(found[0], found[1])


def test_kernels_look_for_the_fastest_code_as_those_did() -> None:
    made = compile_program(MANY, dtypes={"real": "float64"}, target="cuda")
    assert isinstance(made.artifact, Adjustable)
    made = replace(made, artifact=made.artifact.tuned("measure", 3.0))
    found = with_scalars(made, made.program, {"n": 3}, ())
    assert found.schedule.program != made.schedule.program
    assert isinstance(found.artifact, Adjustable)
    assert found.artifact.tuning == ("measure", 3.0)


def dataset(**more: Any) -> xr.Dataset:
    random = np.random.default_rng(3)
    dims, size = ("lon", "lat", "lev"), (12, 10, 5)
    names = ("a", "b", "c", "out", "extra")
    found: dict[str, Any] = {name: (dims, random.normal(size=size)) for name in names}
    found["p"] = (dims[:2], random.random(size[:2]))
    return xr.Dataset(found | more)


def ran(scalars: Mapping[str, Any], data: xr.Dataset, **options: Any) -> xr.Dataset:
    return he.run(
        SWITCHES,
        data,
        scalars=scalars,
        dtypes={"real": "float64"},
        boundary={"lon": "periodic", "lat": "edge"},
        axes={"I": "lon", "J": "lat", "K": "lev"},
        **options,
    )


@pytest.mark.parametrize("mode", ["streamed", "resident"])
def test_blocks_of_datasets_give_the_same_bits(mode: str) -> None:
    testing: Any = xr.testing
    for scalars in OUTCOMES[::3]:
        whole = ran(scalars, dataset(), target="reference")
        cut = ran(scalars, dataset(), target="cpu", mode=mode, chunks={"lon": 5, "lat": 4})
        testing.assert_identical(cut.drop_attrs(), whole.drop_attrs())


#: The second array is read less far than the first one, and the third one further away.
THREE = """
def three(a: Field[float], b: Field[float], c: Field[float], out: Field[float], *, n: int):
    with computation(PARALLEL), interval(...):
        out = a[1, 0, 0]
        if n > 0:
            out = out + b
        if n > 1:
            out = out + c[0, -1, 0]
"""


def three(n: int, data: xr.Dataset, target: str, **options: Any) -> tuple[xr.Dataset, int]:
    """Return the result, and how many bytes were to be read."""
    told: list[Event] = []
    axes = {"I": "lon", "J": "lat", "K": "lev"}
    found = he.run(
        THREE,
        data,
        scalars={"n": n},
        axes=axes,
        target=target,
        on_event=told.append,
        fields={"out": "new"},
        **options,
    )
    (planned,) = (one for one in told if isinstance(one, Planned))
    return found, planned.input_bytes


def test_jobs_read_what_is_used() -> None:
    """And what shapes results: other dimensions, and neighbours that may be missing."""
    data = dataset()[["a", "b", "c"]]
    size = data["a"].nbytes
    assert three(0, data, "reference")[1] == 3 * size
    assert [three(n, data, "cpu")[1] for n in range(3)] == [2 * size, 3 * size, 3 * size]
    turned = dataset(b=data["b"].transpose("lev", "lat", "lon"))[["a", "b", "c"]]
    assert three(0, turned, "cpu")[1] == 3 * size


@pytest.mark.parametrize("boundary", [{}, {"lon": "edge"}, {"lon": "edge", "lat": "periodic"}])
def test_missing_neighbours_do_not_depend_on_scalars(boundary: dict[str, str]) -> None:
    data, testing = dataset()[["a", "b", "c"]], xr.testing
    for n in range(3):
        whole, _ = three(n, data, "reference", boundary=boundary)
        cut, _ = three(n, data, "cpu", boundary=boundary, chunks={"lon": 5, "lat": 4})
        testing.assert_identical(cut.drop_attrs(), whole.drop_attrs())
        assert bool(np.isnan(whole["new"].values).any()) == (boundary.keys() != {"lon", "lat"})


def test_variables_are_asked_for_whatever_scalars_are() -> None:
    for target in ("reference", "cpu"):
        with pytest.raises(he.FieldError, match="no variable 'b'"):
            ran(OUTCOMES[0], dataset().drop_vars("b"), target=target)


def test_jobs_have_names_of_their_own() -> None:
    """Workers keep code by the name of a program on a target."""
    compiled = compile_program(SWITCHES, dtypes={"real": "float64"}, target="cpu")
    conditions = scalar_conditions(compiled.program)
    several = [settled(compiled, outcomes_of(conditions, scalars)) for scalars in OUTCOMES]
    names = {one.fingerprint for one in (compiled, *several)}
    assert len(names) == len({show(one.schedule.program) for one in (compiled, *several)})
    assert len(names) > len(OUTCOMES) // 2


#: A component and elements of a table, each of which one branch needs.
CHOSEN = """
def chosen(q: Field[(float, (3,))], table: GlobalTable[(float, (4,))], a: Field[float],
           out: Field[float], *, on: bool, n: int):
    with computation(PARALLEL), interval(...):
        out = a
        if on:
            out = a + q[0, 0, 0][n]
        else:
            out = a * table.A[n]
"""


@pytest.mark.parametrize("on", [True, False])
def test_components_and_tables_that_no_branch_needs(on: bool) -> None:
    random, testing = np.random.default_rng(2), xr.testing
    dims = ("lon", "lat", "lev")
    data = xr.Dataset(
        {
            "q": ((*dims, "tracer"), random.normal(size=(6, 5, 4, 3))),
            "table": (("class",), random.normal(size=4)),
            "a": (dims, random.normal(size=(6, 5, 4))),
        }
    )
    scalars: dict[str, Any] = {"on": on, "n": 2}
    given: dict[str, Any] = {"scalars": scalars, "axes": {"I": "lon", "J": "lat", "K": "lev"}}
    whole = he.run(CHOSEN, data, target="reference", **given)
    cut = he.run(CHOSEN, data, target="cpu", chunks={"lon": 4, "lat": 2}, **given)
    testing.assert_identical(cut.drop_attrs(), whole.drop_attrs())
    out = np.full((6, 5, 4), np.nan)
    arrays = {str(name): data[name].values.copy() for name in data}
    he.stencil(CHOSEN, target="cpu")(**arrays, out=out, **scalars)
    np.testing.assert_array_equal(out, whole["out"].values)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_hints_name_the_variables_of_the_caller(target: str) -> None:
    """Not the components that are made of them, which differ with what scalars choose."""
    text = CHOSEN.replace("out = a\n", "out = out + a\n", 1)
    data = xr.Dataset({"q": (("lon", "lat", "lev", "tracer"), np.ones((4, 4, 2, 3)))})
    data["a"] = (("lon", "lat", "lev"), np.ones((4, 4, 2)))
    data["table"] = (("class",), np.ones(4))
    with pytest.raises(he.FieldError) as error:
        he.run(text, data, scalars={"on": True, "n": 1}, target=target)
    assert str(error.value) == (
        "Field 'out' is read, but the dataset has no variable 'out'. There are 'a', 'q', 'table'."
    )
