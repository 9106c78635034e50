"""Arguments that functions unpack are refused as Python refuses others, by the function's name."""

from __future__ import annotations

from typing import Any

import pytest
import xarray as xr

import halocline_engine as he
from halocline import Client

DATASET = xr.Dataset()
BANDS = {"lower": "a", "diagonal": "b", "upper": "c", "dim": "z"}


def test_an_unknown_name() -> None:
    given: Any = BANDS | {"colour": 1}
    with pytest.raises(TypeError) as error:
        he.factor(DATASET, **given)
    assert str(error.value) == "factor() got an unexpected keyword argument 'colour'"
    with pytest.raises(TypeError) as error:
        Client("http://localhost").factor(DATASET, **given)
    assert str(error.value) == "Solves.factor() got an unexpected keyword argument 'colour'"


@pytest.mark.parametrize("function", [he.run, Client("http://localhost").stencil])
def test_a_misspelt_name_is_told_with_the_one_that_is_like_it(function: Any) -> None:
    with pytest.raises(TypeError, match=r"'boundry'\. Did you mean 'boundary'\?$"):
        function("", DATASET, boundry={"x": "edge"})


@pytest.mark.parametrize(
    ("given", "told"),
    [(["lower", "dim"], "'diagonal', 'upper'"), (["lower", "diagonal", "dim"], "'upper'")],
)
def test_missing_arguments(given: list[str], told: str) -> None:
    with pytest.raises(TypeError) as error:
        Client("http://localhost").factor(DATASET, **{name: BANDS[name] for name in given})  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert str(error.value) == f"Solves.factor() missing required keyword-only arguments: {told}"
