"""The checks of a call: every message, and that nothing is changed when one is raised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import halocline_engine as he
from halocline_engine.analysis.scalars import scalar_value
from halocline_engine.analysis.signature import signature_of
from halocline_engine.functions.calls.binding import bind
from halocline_engine.ir.nodes import Scalar
from halocline_engine.ir.types import DType

TEXT = """
def blend(a: Field[float64], b: Field[float64], s: Field[IJ, float64], unused: Field[float64],
          c: float, n: int = 2, *, extra: float):
    with computation(FORWARD):
        with interval(0, 1):
            b = a[1, 0, 0] * c + s
        with interval(1, None):
            b = a[-2, 0, -1] + n
"""
SHAPE = (10, 6, 5)


@pytest.fixture(scope="module")
def blend() -> he.Stencil:
    """Return a stencil that knows a call, from which every wrong one differs."""
    made = he.stencil(TEXT, target="reference")
    made(**arguments())
    return made


def arguments(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "a": np.random.default_rng(1).normal(size=SHAPE),
        "b": np.full(SHAPE, np.nan),
        "s": np.ones(SHAPE[:2]),
        "c": 0.5,
        "origin": (2, 0, 0),
    }
    fields.update(changes)
    return {name: value for name, value in fields.items() if value is not ...}


def test_what_may_be_left_out(blend: he.Stencil) -> None:
    call = arguments()
    blend(**call, unused=None, extra=None)
    a, b = call["a"], call["b"]
    assert np.array_equal(b[2:-1, :, 0], a[3:, :, 0] * 0.5 + 1.0)
    assert np.array_equal(b[2:-1, :, 1:], a[:-3, :, :-1] + 2)
    assert np.isnan(b[:2]).all()
    assert np.isnan(b[-1]).all()


def test_positions_follow_the_text(blend: he.Stencil) -> None:
    call = arguments()
    blend(call["a"], call["b"], call["s"], None, 0.5, 3, origin=(2, 0, 0), domain=(1, 1, 5))
    assert call["b"][2, 0, 4] == call["a"][0, 0, 3] + 3


WRONG_ARGUMENTS = {
    "unknown name": (
        {"aa": 1.0},
        "Stencil 'blend' has no argument 'aa'. Did you mean 'a'?",
    ),
    "unlike name": (
        {"velocity": 1.0},
        "Stencil 'blend' has no argument 'velocity'. The arguments are a, b, s, unused, c, n, "
        "extra.",
    ),
    "missing": (
        {"s": ...},
        "Stencil 'blend' lacks the argument 's'. Give all of a, b, s, c.",
    ),
    "int that a float rounds": (
        {"c": 2**53 + 1},
        "Scalar 'c' is 9007199254740993, which does not fit into a 'float64'. Give a number with "
        "fewer digits, or float(...), which rounds it.",
    ),
    "fraction for an int": (
        {"n": 2.5},
        "Scalar 'n' is 2.5, which does not fit into a 'int64'. Give a whole number, or make the "
        "parameter a 'float' in the program.",
    ),
    "bool for an int": (
        {"n": True},
        "Scalar 'n' must be a 'int64', but is the bool True. Convert it first, for example with "
        "numpy.int64(...).",
    ),
    "another NumPy scalar": (
        {"c": np.complex64(1.0)},
        "Scalar 'c' must be a 'float64', but is the complex64 np.complex64(1+0j). Convert it "
        "first, for example with numpy.float64(...).",
    ),
    "an array for a scalar": (
        {"c": np.ones(1)},
        "Scalar 'c' must be a 'float64', but is an array. Give one number; one that differs from "
        "point to point is a field.",
    ),
    "text for a scalar": (
        {"c": "0.2 m"},
        "Scalar 'c' must be a 'float64', but is the str '0.2 m'. Give a number; units and "
        "expressions are not read.",
    ),
    "too large a number": (
        {"n": 2**63},
        "Scalar 'n' is 9223372036854775808, which does not fit into a 'int64'. Use a number from "
        "-9223372036854775808 to 9223372036854775807.",
    ),
    "origin of two numbers": (
        {"origin": (1, 2)},
        "The origin of 'a' must be 3 whole numbers that are not negative, but is (1, 2). It "
        "is the index of the domain's first point in the array.",
    ),
    "negative origin": (
        {"origin": {"_all_": (2, 0, 0), "s": (-1, 0)}},
        "The origin of 's' must be 2 or 3 whole numbers that are not negative, but is (-1, 0). It "
        "is the index of the domain's first point in the array.",
    ),
    "origin of an unknown field": (
        {"origin": {"aa": (2, 0, 0)}},
        "The origin names 'aa', which is not a field. Did you mean 'a'?",
    ),
    "origin of nothing known": (
        {"origin": {"velocity": (2, 0, 0)}},
        "The origin names 'velocity', which is not a field. Use field names, or '_all_'.",
    ),
    "domain of two numbers": (
        {"domain": (1, 2)},
        "The domain must be 3 whole numbers that are not negative, but is (1, 2). It is the "
        "number of points along I, J and K.",
    ),
    "too few levels": (
        {"domain": (1, 1, 1)},
        "The domain has 1 level, but the intervals of 'blend' need at least 2. Use more levels.",
    ),
}

WRONG_FIELDS = {
    "None": ({"a": None}, "Field 'a' is None, but the stencil uses it. Give an array."),
    "a list": (
        {"a": [[[1.0]]]},
        "Field 'a' must be a NumPy array, but is a 'list'. For xarray objects pass '.values', or "
        "use halocline_engine.run.",
    ),
    "too few dimensions": (
        {"a": np.ones((10, 6))},
        "Field 'a' must have 3 dimensions (I, J, K), but has 2. Add or drop dimensions, as in "
        "array[:, :, None], or annotate the field with the axes that it has, such as "
        "Field[IJ, float].",
    ),
    "too many dimensions": (
        {"s": np.ones(SHAPE)},
        "Field 's' must have 2 dimensions (I, J), but has 3. Add or drop dimensions, as in "
        "array[:, :, None], or annotate the field with the axes that it has, such as "
        "Field[IJ, float].",
    ),
    "another dtype": (
        {"a": np.ones(SHAPE, np.float32)},
        "Field 'a' must have the dtype 'float64', but has 'float32'. Convert it with "
        ".astype('float64'), or change the annotation.",
    ),
    "another byte order": (
        {"a": np.ones(SHAPE, ">f8")},
        "Field 'a' must have the dtype 'float64', but has '>f8'. Convert it with "
        ".astype('float64'), or change the annotation.",
    ),
    "origin too small": (
        {"origin": (1, 0, 0)},
        "Field 'a' is read 2 points before the domain along I, but its origin there is 1. Use an "
        "origin of at least 2 along I, and arrays with a halo.",
    ),
    "domain too large": (
        {"domain": (8, 6, 5)},
        "Field 'a' has 10 points along I, but a domain of 8 at the origin 2 needs 11. Use a "
        "domain of at most 7 along I, or a larger array.",
    ),
    "domain higher than the arrays": (
        {"domain": (7, 6, 6)},
        "Field 'b' has 5 points along K, but a domain of 6 at the origin 0 needs 6. Use a domain "
        "of at most 5 along K, or a larger array.",
    ),
}


@pytest.mark.parametrize("case", WRONG_ARGUMENTS)
def test_wrong_arguments(blend: he.Stencil, case: str) -> None:
    changes, message = WRONG_ARGUMENTS[case]
    refuses(blend, changes, he.ArgumentError, message)


@pytest.mark.parametrize("case", WRONG_FIELDS)
def test_wrong_fields(blend: he.Stencil, case: str) -> None:
    changes, message = WRONG_FIELDS[case]
    refuses(blend, changes, he.FieldError, message)


def refuses(
    blend: he.Stencil, changes: dict[str, Any], kind: type[Exception], message: str
) -> None:
    call = arguments(**changes)
    with pytest.raises(kind) as caught:
        blend(**call)
    assert str(caught.value) == message
    assert np.isnan(call["b"]).all()


def test_too_many_positions(blend: he.Stencil) -> None:
    with pytest.raises(he.ArgumentError) as caught:
        blend(*range(8))
    assert str(caught.value) == (
        "Stencil 'blend' takes 7 arguments, but got 8. They are a, b, s, unused, c, n, extra."
    )


def test_an_argument_given_twice(blend: he.Stencil) -> None:
    call = arguments()
    with pytest.raises(he.ArgumentError) as caught:
        blend(call["a"], **call)
    assert (
        str(caught.value) == "Argument 'a' is given twice, by position and by name. Give it once."
    )


def test_dtypes_are_checked_on_every_call(blend: he.Stencil) -> None:
    blend(**arguments())
    with pytest.raises(he.FieldError):
        blend(**arguments(a=np.ones(SHAPE, np.float32)))


def test_a_read_only_array_is_not_written(blend: he.Stencil) -> None:
    b = np.full(SHAPE, np.nan)
    b.flags.writeable = False
    with pytest.raises(he.FieldError) as caught:
        blend(**arguments(b=b))
    assert str(caught.value) == "Field 'b' is written, but its array is read-only. Pass a copy."


def test_a_mask_is_not_left_out(blend: he.Stencil) -> None:
    with pytest.raises(he.FieldError) as caught:
        blend(**arguments(a=np.ma.masked_greater(np.ones(SHAPE), 0.5)))
    assert str(caught.value) == (
        "Field 'a' is a masked array, but masks are not supported. Pass"
        " '.filled(numpy.nan)', or another fill value."
    )


def test_dimensions_with_other_names(blend: he.Stencil) -> None:
    class Other(np.ndarray):
        __gt_dims__ = ("I", "K")

    with pytest.raises(he.FieldError) as caught:
        blend(**arguments(s=np.ones(SHAPE[:2]).view(Other)))
    assert str(caught.value) == (
        "Field 's' must have the dimensions I, J, but its array names I, K. Correct "
        "'__gt_dims__', or pass another array."
    )


class OnDevice:
    """What a CuPy array looks like from outside."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = array.__array_interface__


def test_arrays_of_the_wrong_side(blend: he.Stencil) -> None:
    with pytest.raises(he.FieldError) as caught:
        blend(**arguments(a=OnDevice(np.ones(SHAPE))))
    assert str(caught.value) == (
        "Field 'a' is a 'OnDevice' on a device, but the target 'reference' computes on NumPy "
        "arrays. Copy it with cupy.asnumpy(...), or make the stencil with target='cuda'."
    )
    signature = signature_of(blend.compiled.program, blend.compiled.facts)
    with pytest.raises(he.FieldError) as caught:
        bind(signature, "cuda", (), arguments(origin=...), origin=(2, 0, 0))
    assert str(caught.value) == (
        "Field 'a' is a 'ndarray' in host memory, but the target 'cuda' computes on CuPy arrays. "
        "Copy it with cupy.asarray(...), or make the stencil with target='cpu'."
    )


def test_the_default_domain_is_not_larger_than_the_arrays() -> None:
    """GT4Py takes the level that is never read for one more level of the domain."""
    text = """
def inner(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(1, -1):
        b = a
"""
    stencil = he.stencil(text, target="reference")
    a, b = np.ones((2, 2, 5)), np.full((2, 2, 5), np.nan)
    stencil(a, b)
    assert np.isnan(b[:, :, [0, 4]]).all()
    assert (b[:, :, 1:4] == 1.0).all()


def test_a_domain_must_be_given_where_no_field_shows_it() -> None:
    text = """
def column(z: Field[K, float64], p: Field[IJ, float64]):
    with computation(FORWARD), interval(...):
        p = z
"""
    plane = """
def plane(p: Field[IJ, float64], q: Field[IJ, float64]):
    with computation(FORWARD), interval(...):
        p = q
"""
    he.stencil(text, target="reference")(np.ones(3), np.ones((2, 2)))
    with pytest.raises(he.ArgumentError) as caught:
        he.stencil(plane, target="reference")(np.ones((2, 2)), np.ones((2, 2)))
    assert str(caught.value) == (
        "No field has the axis K, so the domain must be given. Give domain=(ni, nj, nk)."
    )


NEAR_THE_TOP = """
def top(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(-1, None):
        b = a[0, 0, -1]
"""


def test_levels_are_checked_for_the_domain_at_hand() -> None:
    stencil = he.stencil(NEAR_THE_TOP, target="reference")
    a, b = np.arange(12.0).reshape(2, 2, 3), np.full((2, 2, 3), np.nan)
    stencil(a, b)
    assert np.array_equal(b[:, :, 2], a[:, :, 1])
    stencil(a, b, origin=1, domain=(2, 2, 1))
    assert np.array_equal(b[:, :, 1], a[:, :, 0])
    with pytest.raises(he.FieldError) as caught:
        stencil(a, b, domain=(2, 2, 1))
    assert str(caught.value) == (
        "Field 'a' is read 1 point before the domain along K, but its origin there is 0. Use an "
        "origin of at least 1 along K, and arrays with a halo."
    )


OVERLAP = (
    "Field 'b' is written and shares memory with 'a'. Pass different arrays: one array may stand "
    "for two fields only where one statement writes it, from values at the point itself, and "
    "nothing else needs the old ones."
)


def test_overlaps(blend: he.Stencil) -> None:
    wide = np.random.default_rng(2).normal(size=(10, 6, 11))
    refused = [
        (wide[:, :, :5], wide[:, :, :5]),
        (wide[:, :, :5], wide[:, :, 4:9]),
        (wide[:, :, :10:2], wide[:, :, 2:7]),
        (wide[:, :, :5], wide[:, :, 4::-1]),
    ]
    for a, b in refused:
        with pytest.raises(he.FieldError) as caught:
            blend(**arguments(a=a, b=b))
        assert str(caught.value) == OVERLAP
    before = wide.copy()
    blend(**arguments(a=wide[:, :, :10:2], b=wide[:, :, 1:10:2]))
    assert np.array_equal(wide[:, :, ::2], before[:, :, ::2])
    assert not np.array_equal(wide[2:-1, :, 1:10:2], before[2:-1, :, 1:10:2])


def test_one_array_at_two_origins_is_refused() -> None:
    text = """
def copy(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = a
"""
    copy, a = he.stencil(text, target="reference"), np.ones((4, 4, 4))
    copy(a, a)
    with pytest.raises(he.FieldError) as caught:
        copy(a, a, origin={"a": (1, 0, 0)}, domain=(3, 4, 4))
    assert str(caught.value) == OVERLAP


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (DType.FLOAT32, 0.1, float(np.float32(0.1))),
        (DType.FLOAT32, np.float32(0.1), float(np.float32(0.1))),
        (DType.FLOAT64, np.float64(0.1), 0.1),
        (DType.INT8, -128, -128),
        (DType.INT32, np.int32(7), 7),
        (DType.BOOL, True, True),
        (DType.BOOL, np.True_, True),
    ],
)
def test_scalars_become_python_numbers(dtype: DType, value: object, expected: object) -> None:
    got = scalar_value(Scalar("x", dtype), value)
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_arrays_smaller_than_what_is_read_around_a_point(target: str) -> None:
    text = """
def far(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        b = a[-2, 0, 0] + a[3, 0, 0]
"""
    far = he.stencil(text, target=target)
    small: dict[str, Any] = {"a": np.ones((5, 4, 3)), "b": np.zeros((5, 4, 3))}
    with pytest.raises(he.FieldError) as caught:
        far(**small, origin=(2, 0, 0))
    assert str(caught.value) == (
        "Field 'a' has 5 points along I, but needs at least 6: its origin is 2, and it is read 3"
        " after each point. Give larger arrays, another origin, or domain=(ni, nj, nk), which may"
        " have zeros."
    )
    far(**small, origin=(2, 0, 0), domain=(0, 4, 3))
    far(a=np.ones((0, 4, 3)), b=np.zeros((0, 4, 3)), origin=(2, 0, 0))
    far(a=np.ones((9, 0, 3)), b=np.zeros((9, 0, 3)), origin=(2, 0, 0))
    assert not small["b"].any()
    large: dict[str, Any] = {"a": np.ones((6, 4, 3)), "b": np.zeros((6, 4, 3))}
    far(**large, origin=(2, 0, 0))
    assert np.count_nonzero(large["b"]) == 12
