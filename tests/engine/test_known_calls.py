"""Calls like one before are not checked in full, and mean the same all the same."""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedArtifact

import halocline_engine as he
from halocline_engine.backends.base import Launch
from halocline_engine.backends.made import fields as made_fields
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.errors import HaloclineError, LimitError
from halocline_engine.functions import stencil as module

SHAPE = (9, 8, 7)
#: A mask, a temporary that goes through memory, an update in place, and a default.
TEXT = """
def several(a: Field[float64], b: Field[float64], s: Field[IJ, float64], c: float,
            n: int = 2):
    with computation(FORWARD):
        with interval(0, 1):
            t = a * c
        with interval(1, None):
            t = a + t[0, 0, -1]
    with computation(BACKWARD):
        with interval(-1, None):
            b = t + s
        with interval(0, -1):
            b = t * n + b[0, 0, 1]
"""
#: A position, a temporary over I and J, and offsets.
MADE = """
def several(a: Field[float64], b: Field[float64], s: Field[IJ, float64], c: float,
            n: int = 2):
    with computation(FORWARD), interval(...):
        m: Field[IJ, float64] = 0.0
        m = m + a[1, 0, 0] * K
    with computation(PARALLEL), interval(...):
        b = m * c + s + n
"""


def emulated(text: str, folder: Path) -> he.Stencil:
    """Return a stencil whose generated CUDA runs on the host; it takes NumPy arrays."""
    made = he.stencil(text, target="reference").compiled
    kernels = EmulatedArtifact(made.schedule, folder)
    return he.Stencil(replace(made, artifact=with_made_fields(kernels, made.program, made.facts)))


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each call that is checked in full."""
    found: list[str] = []
    bind: Callable[..., Any] = vars(module)["bind"]

    def counted(*arguments: Any, **named: Any) -> Any:
        found.append(arguments[1])
        return bind(*arguments, **named)

    monkeypatch.setattr(module, "bind", counted)
    return found


def fields(seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    made = {"a": generator.normal(size=SHAPE), "b": np.full(SHAPE, np.nan)}
    return {**made, "s": generator.normal(size=SHAPE[:2])}


def test_a_call_is_checked_in_full_once(checks: list[str]) -> None:
    several = he.stencil(TEXT, target="reference")
    several(**fields(), c=0.5)
    for seed in range(1, 5):
        given, own = fields(seed), fields(seed)
        several(**given, c=0.1 * seed)
        he.stencil(TEXT, target="reference")(**own, c=0.1 * seed)
        np.testing.assert_array_equal(given["b"], own["b"])
    assert len(checks) == 1 + 4


OTHER: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "strides": lambda given: {**given, "a": np.asfortranarray(given["a"])},
    "shape": lambda given: {**given, "a": given["a"][:-1]},
    "origin": lambda given: {**given, "origin": (1, 0, 0)},
    "domain": lambda given: {**given, "domain": (1, 1, 2)},
    "names": lambda given: {**given, "n": 3},
    "in place": lambda given: {**given, "b": given["a"]},
}


@pytest.mark.parametrize("name", OTHER)
def test_what_differs_is_checked_once_more(checks: list[str], name: str) -> None:
    several = he.stencil(TEXT, target="reference")
    several(**fields(), c=0.5)
    given = OTHER[name](fields(3))
    for count in (2, 2):
        try:
            several(**given, c=0.5)
        except HaloclineError:
            # 'in place' is refused here, however often it is tried.
            assert name == "in place"
            return
        assert len(checks) == count


def test_arrays_that_may_be_one_are_checked_where_they_lie(checks: list[str]) -> None:
    """One array for two fields is known by its address: elsewhere it is looked at again."""
    text = """
def twice(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = 2.0 * a
"""
    twice = he.stencil(text, target="reference")
    whole = np.ones((4, 3, 6))
    one, other = whole[:, :, :3], whole[:, :, 3:]
    for _ in range(3):
        twice(one, one)
    assert len(checks) == 1
    twice(other, other)
    assert len(checks) == 2
    assert (whole[:, :, :3] == 8.0).all()
    assert (whole[:, :, 3:] == 2.0).all()
    with pytest.raises(HaloclineError, match="shares memory"):
        twice(whole[:, :, 1:4], whole[:, :, :3])
    # Bounds that lie within each other are looked at closely, elements between elements are not
    # shared.
    twice(whole[:, :, ::2], whole[:, :, 1::2])
    assert len(checks) == 4


#: Components of two arrays, one of them out of order, and a table of numbers.
PARTS = """
def mixed(q: Field[(np.float64, (3,))], out: Field[(np.float64, (3,))],
          table: GlobalTable[(np.float64, (2, 3))]):
    with computation(FORWARD), interval(...):
        out[0, 0, 0][2] = q[0, 0, 0][0] * table.A[1, 0]
        out[0, 0, 0][0] = q[0, 0, 0][2] + table.A[0, 2]
"""


def mixed_arrays(seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    return {
        "q": generator.normal(size=(*SHAPE, 3)),
        "out": np.full((*SHAPE, 3), np.nan),
        "table": generator.normal(size=(2, 3)),
    }


def mixed_expected(given: Mapping[str, Any]) -> Any:
    expected = np.full((*SHAPE, 3), np.nan)
    expected[..., 2] = given["q"][..., 0] * given["table"][1, 0]
    expected[..., 0] = given["q"][..., 2] + given["table"][0, 2]
    return expected


@pytest.mark.parametrize("target", ["reference", "emulated"])
def test_components_and_looked_up_arrays_are_known(
    checks: list[str], tmp_path: Path, target: str
) -> None:
    mixed = he.stencil(PARTS, target="reference")
    if target == "emulated":
        mixed = emulated(PARTS, tmp_path)
    for seed in range(4):
        given = mixed_arrays(seed)
        mixed(**given)
        np.testing.assert_array_equal(given["out"], mixed_expected(given))
    assert len(checks) == 1
    given = mixed_arrays(5)
    with pytest.raises(HaloclineError, match="of the shape"):
        mixed(given["q"], given["out"], given["table"].T)
    with pytest.raises(HaloclineError, match="memory"):
        mixed(given["q"], given["q"], given["table"])


def test_elements_that_are_copied_are_looked_at_in_each_call(
    checks: list[str], tmp_path: Path
) -> None:
    mixed = emulated(PARTS, tmp_path)
    for seed in range(3):
        given = mixed_arrays(seed)
        given["table"] = np.asfortranarray(given["table"])
        mixed(**given)
        np.testing.assert_array_equal(given["out"], mixed_expected(given))
    assert len(checks) == 3


class Marked(np.ndarray[Any, Any]):
    """An array that says where its domain begins."""


def test_arrays_with_attributes_are_always_checked(checks: list[str]) -> None:
    several = he.stencil(TEXT, target="reference")
    given = fields()
    marked: Any = given["a"].view(Marked)
    for at in (0, 1):
        marked.__gt_origin__ = (at, 0, 0)
        expected = fields()
        he.stencil(TEXT, target="reference")(
            **expected, c=0.5, origin={"a": (at, 0, 0)}, domain=(3, 3, 7)
        )
        several(marked, given["b"], given["s"], 0.5, domain=(3, 3, 7))
        np.testing.assert_array_equal(given["b"], expected["b"])
    assert len(checks) == 4


@dataclass
class Draw:
    """Draws calls that are often like one before, some of them wrong."""

    generator: random.Random
    pool: np.ndarray[Any, np.dtype[np.float64]]

    def array(self, axes: int) -> Any:
        """Return a part of the memory that all arrays of a run are in."""
        number = self.generator.choice((0,) * 20 + (1, 2, 3, 4))
        part = self.pool[600 * self.generator.randrange(16) :][:504].reshape(SHAPE)
        changed = [
            part,
            part[:, :, ::-1],
            part[1:],
            part.transpose(1, 0, 2)[:8],
            part.astype(np.float32) if self.generator.random() < 0.3 else part[:, 1:],
        ][number]
        return changed if axes == 3 else changed[:, :, 0]

    def call(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        draw = self.generator
        arguments: list[Any] = [self.array(3), self.array(3), self.array(2)]
        arguments[1].flags.writeable = draw.random() < 0.95
        scalars: dict[str, Any] = {"c": draw.choice((0.5, 0.25, 0.125, 0.75, 1, None))}
        if draw.random() < 0.2:
            scalars["n"] = draw.choice((1, 5, None, 2.0))
        if draw.random() < 0.2:
            scalars["origin"] = draw.choice(((1, 0, 0), [1, 0, 0], 1, {"s": (0, 1)}, (9, 0, 0)))
        if draw.random() < 0.2:
            scalars["domain"] = draw.choice(((3, 3, 3), [2, 3, 4], (2, 2, 0), (True, 1, 2)))
        return tuple(arguments), scalars


def outcome(call: Callable[..., None], given: tuple[Any, ...], named: dict[str, Any]) -> str:
    try:
        call(*given, **named)
    except HaloclineError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("text", [TEXT, MADE], ids=["buffers", "made"])
@pytest.mark.parametrize("on", ["reference", "cpu", "emulated"])
def test_drawn_calls_mean_what_first_calls_mean(
    on: str, text: str, checks: list[str], request: pytest.FixtureRequest
) -> None:
    """Each is made by a stencil that knows others, and by one that knows none."""
    folder = request.getfixturevalue("emulation_folder") if on == "emulated" else None
    known = emulated(text, folder) if folder else he.stencil(text, target=on)
    pools = [np.random.default_rng(5).normal(size=11000) for _ in range(2)]
    draws = [Draw(random.Random(7), pool) for pool in pools]
    wrong = 0
    checks.clear()
    for _ in range(250):
        (given, named), (own, own_named) = (draw.call() for draw in draws)
        seen = outcome(known, given, named)
        before = len(checks)
        fresh = pickle.loads(pickle.dumps(known)) if on == "reference" else renewed(known)
        expected = outcome(fresh, own, own_named)
        del checks[before:]
        assert seen == expected
        wrong += bool(seen)
        np.testing.assert_array_equal(pools[0], pools[1])
    assert 50 < wrong < 170
    assert len(checks) < 200


@pytest.mark.parametrize("on", ["reference", "cpu", "emulated"])
def test_a_loop_that_does_not_end_is_an_error_of_its_own_call(
    on: str, request: pytest.FixtureRequest
) -> None:
    text = """
def halved(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = a
        while b > 1.0:
            b = b * 0.5
"""
    if on == "emulated":
        halved = emulated(text, request.getfixturevalue("emulation_folder"))
    else:
        halved = he.stencil(text, target=on)
    for number, ends in enumerate((True, True, False, True, False)):
        a, b = np.full(SHAPE, 3.0 + number), np.full(SHAPE, np.nan)
        if ends:
            halved(a=a, b=b)
            assert b.max() <= 1.0
        else:
            a[1, 2, -1] = np.inf
            with pytest.raises(LimitError, match="A 'while' was not over after"):
                halved(a=a, b=b)


def renewed(known: he.Stencil) -> he.Stencil:
    """Return a stencil that knows no calls, with the code of another one."""
    fresh = he.Stencil(known.compiled)
    vars(fresh)["_variants"] = vars(known)["_variants"]
    return fresh


#: Two kernels that run slab by slab, with a temporary between them, and one in a buffer.
SLABS = """
def several(a: Field[float64], b: Field[float64], s: Field[IJ, float64], c: float,
            n: int = 2):
    with computation(FORWARD):
        with interval(0, 1):
            t = a * c
        with interval(1, None):
            t = a + t[0, 0, -1]
    with computation(PARALLEL), interval(...):
        u = t * s + n
    with computation(BACKWARD):
        with interval(-1, None):
            b = u + t
        with interval(0, -1):
            b = u * c + b[0, 0, 1]
    with computation(PARALLEL), interval(1, None):
        b = b + u[0, 0, -1]
"""


@pytest.mark.parametrize(("on", "text"), [("reference", TEXT), ("cpu", TEXT), ("cpu", SLABS)])
def test_threads_may_call_one_stencil(on: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halocline_engine.backends.cpu.pieces.SERIAL_POINTS", 50)
    several = he.stencil(text, target=on)
    every = [fields(seed) for seed in range(6)]
    expected = [fields(seed) for seed in range(6)]
    for seed, given in enumerate(expected):
        several(**given, c=0.1 * seed)
    several(**fields(9), c=0.5)

    def work(number: int) -> None:
        for _ in range(20):
            several(**every[number], c=0.1 * number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for given, own in zip(every, expected, strict=True):
        np.testing.assert_array_equal(given["b"], own["b"])


#: A field that is read beyond the domain within a region alone, where nothing is used of it.
EDGE = """
def edge(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = a
        with horizontal(region[I[0] + 1 :, :]):
            b = a - a[-1, 0, 0]
"""


@pytest.mark.parametrize("before", [0, 1])
def test_fields_that_are_copied_hold_what_they_hold_at_each_call(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are where arrays end with the domain; where they are larger, calls only launch."""
    made: list[object] = []
    widened: Callable[..., Any] = vars(made_fields)["widened"]

    def counted(*arguments: Any) -> Any:
        made.append(arguments[0])
        return widened(*arguments)

    monkeypatch.setattr(made_fields, "widened", counted)
    edge = he.stencil(EDGE, target="cpu")
    a, b = np.empty((5 + before, 4, 3)), np.empty((5 + before, 4, 3))
    for seed in range(3):
        a[...] = np.random.default_rng(seed).normal(size=a.shape)
        b[...] = np.nan
        edge(a, b, origin=(before, 0, 0), domain=(5, 4, 3))
        expected = a[before:].copy()
        expected[1:] -= a[before:-1]
        np.testing.assert_array_equal(b[before:], expected)
    assert len(made) == (3 + 1 if before == 0 else 1 + 1)


@dataclass
class Counting:
    """An executable that can be told by numbers, and measured."""

    called: int = 0
    launched: int = 0
    located: int = 0
    memory: Any = None

    def __call__(self, *_: object) -> None:
        self.called += 1

    def repeat(self, *_: object) -> None:
        raise NotImplementedError

    def launcher(self, *_: object) -> Callable[[Mapping[str, int]], Launch]:
        def launch(_: object) -> None:
            self.launched += 1

        def at(_: Mapping[str, int]) -> Launch:
            self.located += 1
            return launch

        return at

    def tune(self, *_: object) -> None:
        return None

    def tilings(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class CountingArtifact:
    """Loads an executable that is there."""

    executable: Counting
    source: str = ""

    def load(self) -> Counting:
        return self.executable


def counted() -> tuple[he.Stencil, Counting]:
    """Return a stencil, and what it runs."""
    counting = Counting()
    compiled = he.stencil(TEXT, target="reference").compiled
    return he.Stencil(replace(compiled, artifact=CountingArtifact(counting))), counting


def test_a_known_call_only_launches_until_it_was_tuned() -> None:
    several, counting = counted()
    given = fields()
    for _ in range(4):
        several(**given, c=0.5)
    assert (counting.called, counting.located, counting.launched) == (1, 1, 3)
    elsewhere = fields()
    for _ in range(2):
        several(**elsewhere, c=0.5)
    assert (counting.called, counting.located, counting.launched) == (1, 2, 5)
    several.tune(**given, c=0.5)
    several(**given, c=0.5)
    assert (counting.called, counting.located, counting.launched) == (2, 3, 5)


def test_so_many_places_are_kept_and_no_more() -> None:
    several, counting = counted()
    every = [fields() for _ in range(65)]
    for _ in range(2):
        for given in every:
            several(**given, c=0.5)
    assert counting.called == 1
    assert counting.located == 65 + 65


@pytest.mark.parametrize("named", [{"domain": (1.0, 1, 2)}, {"origin": 1.0, "domain": (1, 1, 2)}])
def test_numbers_that_are_equal_but_no_integers_are_refused(named: dict[str, Any]) -> None:
    several, given = he.stencil(TEXT, target="reference"), fields()
    several(**given, c=0.5, origin=1 if "origin" in named else None, domain=(1, 1, 2))
    with pytest.raises(HaloclineError, match="whole numbers"):
        several(**given, c=0.5, **named)


#: An array with data dimensions that nothing uses may be left out of each call.
UNUSED = """
def unused(a: Field[float], q: Field[(float, (2,))], b: Field[float]):
    with computation(PARALLEL), interval(...):
        b = a
"""


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_what_nothing_uses_may_be_left_out_of_known_calls(target: str) -> None:
    unused, a, b = he.stencil(UNUSED, target=target), np.ones((3, 3, 3)), np.zeros((3, 3, 3))
    for number in range(3):
        a[...] = number
        unused(a=a, b=b)
        np.testing.assert_array_equal(b, a)
