"""Messages in the words of each interface."""

from __future__ import annotations

import inspect

import pytest

from halocline.command.options import with_stencil_options
from halocline_engine.interface.words import OPTIONS, Interface, in_words_of, reworded

CASES: dict[str, tuple[str, str, str]] = {
    "Give it: scalars={'w': ...}.": (
        "Give it: --scalar w=VALUE.",
        'Give it: "scalars": {"w": ...}.',
        "Give it: w=VALUE in 'Scalars'.",
    ),
    "Name it with fields={...}.": (
        "Name it with --field NAME=VALUE.",
        'Name it with "fields": {"NAME": "VALUE"}.',
        "Name it with NAME=VALUE in 'Fields'.",
    ),
    "Write feedback={output: input}.": (
        "Write --feedback output=input.",
        'Write "feedback": {"output": "input"}.',
        "Write output=input in 'Feedback'.",
    ),
    "Say axes={'K': 'lev'}, or axes={'K': None}.": (
        "Say --axes K=lev, or --axes K=none.",
        'Say "axes": {"K": "lev"}, or "axes": {"K": null}.',
        "Say K=lev in 'Axes', or K=none in 'Axes'.",
    ),
    "For example boundary={'x': {'low': 'edge', 'high': {'constant': 0.5}}}.": (
        "For example --boundary x.low=edge,x.high=0.5.",
        'For example "boundary": {"x": {"low": "edge", "high": {"constant": 0.5}}}.',
        "For example x.low=edge, x.high=0.5 in 'Boundary'.",
    ),
    "Use more workers, or mode='streamed'.": (
        "Use more workers, or --mode streamed.",
        'Use more workers, or "mode": "streamed".',
        "Use more workers, or streamed in 'Mode'.",
    ),
    "Name others with target_dims=.": (
        "Name others with \"target_dims\" in the '.json' file.",
        'Name others with "target_dims".',
        "Name others with 'Target dims'.",
    ),
    "Say which with dims=['lat', 'lon'].": (
        'Say which with "dims": ["lat", "lon"] in the \'.json\' file.',
        'Say which with "dims": ["lat", "lon"].',
        "Say which with lat, lon in 'Dims'.",
    ),
    "Argument 'steps' must be at least 1, got 0. Write steps=10.": (
        "Option '--steps' must be at least 1, got 0. Write --steps 10.",
        "Input 'steps' must be at least 1, got 0. Write \"steps\": 10.",
        "'Steps' must be at least 1, got 0. Write 10 in 'Steps'.",
    ),
    "Delete some: GET /uploads lists yours, DELETE /uploads/{id} deletes one.": (
        "Delete some: 'halocline uploads ls' lists yours, 'halocline uploads rm ID' deletes one.",
        "Delete some: GET /uploads lists yours, DELETE /uploads/{id} deletes one.",
        "Delete some: 'Datasets' lists yours, 'Delete' in 'Datasets' deletes one.",
    ),
    # What is no argument of a request stays.
    "Write dataset.rename(x='a'), CF's axis: 'Z', or limits=Limits(fields=512).": (
        "Write dataset.rename(x='a'), CF's axis: 'Z', or limits=Limits(fields=512).",
        "Write dataset.rename(x='a'), CF's axis: 'Z', or limits=Limits(fields=512).",
        "Write dataset.rename(x='a'), CF's axis: 'Z', or limits=Limits(fields=512).",
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_a_message_is_in_the_words_of_each_interface(text: str) -> None:
    told = tuple(in_words_of(each, text) for each in Interface if each is not Interface.PYTHON)
    assert told == CASES[text]


def test_python_reads_arguments_and_its_own_calls() -> None:
    assert in_words_of(Interface.PYTHON, "Input 'steps' is wrong: steps=0.") == (
        "Argument 'steps' is wrong: steps=0."
    )
    assert in_words_of(Interface.PYTHON, "GET /jobs lists yours.") == (
        "'client.jobs()' lists yours."
    )


def test_texts_within_a_problem_are_written_alike() -> None:
    problem = {"detail": "Argument 'a_b'.", "others": [{"hint": "steps=1"}], "excerpt": "steps=1"}
    assert reworded(Interface.JSON, problem) == {
        "detail": "Input 'a_b'.",
        "others": [{"hint": '"steps": 1'}],
        "excerpt": "steps=1",
    }


def test_every_option_is_one_of_the_command() -> None:
    def command(given: object) -> None:
        del given

    shown = inspect.signature(with_stencil_options(command)).parameters
    known = {f"--{name.replace('_', '-')}" for name in shown} | {"--output"}
    assert {*OPTIONS.values()} - known == set()
