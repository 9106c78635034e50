"""Every event of the engine is a sentence in the log, without names of members."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halocline_engine.distribute.tasks import events
from halocline_service.api.responses.sentences import sentence_of

_TEXTS = st.sampled_from(["cpu", "tcp://127.0.0.1:1", "The dataset is small.", "line\nline\nline"])
_BY_TYPE: dict[str, Any] = {
    "str": _TEXTS,
    "int": st.integers(1, 10**12),
    "float": st.floats(0.0, 1e9),
    "int | None": st.none() | st.integers(0, 9),
    "tuple[tuple[str, int, int], ...]": st.just((("x", 1, 1),)),
    "tuple[tuple[str, int], ...]": st.just((("x", 5), ("y", 3))),
    "tuple[tuple[float, ...], ...]": st.just(((0.0, 1.0),)),
}


@pytest.mark.parametrize("kind", get_args(events.Event), ids=lambda kind: kind.kind)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_every_event_has_a_sentence(kind: Any, data: st.DataObject) -> None:
    made = {each.name: data.draw(_BY_TYPE[str(each.type)]) for each in fields(kind)}
    document = kind(**made).to_json()
    text = sentence_of(kind.kind, document)
    assert text
    assert not re.search(r"\w=|\[|\{|None|[a-z]_[a-z]|\n", text), text
    assert isinstance(sentence_of(kind.kind, {}), str)  # of another version


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            events.Planned(
                mode="streamed",
                reason="It is larger than the memory.",
                target="cuda",
                workers=2,
                blocks=12,
                passes=3,
                steps=30,
                steps_per_pass=10,
                projected_bytes=47_800_000,
                block=(("x", 100), ("y", 50)),
            ),
            "12 blocks of x 100 by y 50, 3 passes, 30 steps, cuda on 2 workers, 47.8 MB of memory;"
            " streamed: It is larger than the memory",
        ),
        (
            events.BlockFinished(1, 3, 4, 12, 0.53, "w", reading=0.1, computing=0.4),
            "Block 4 of 12 of pass 2 of 3, 0.53 s (reading 0.1 s, computing 0.4 s)",
        ),
        (events.PassFinished(0, 2, 10, 20, 1.5), "Pass 1 of 2, step 10 of 20, 1.5 s"),
        (events.Resumed(10, 20), "Continued from step 10 of 20"),
        (events.Checkpointed(10, 20, 0.25), "Step 10 of 20 is saved, 0.25 s"),
        (events.Measured(10, 20, 0.125, 0.01), "Step 10 changed by 0.125, ends below 0.01"),
        (
            events.Ceilings("w", "cpu", 12e9, 50e9),
            "Worker w copies 12 GB/s, multiplies matrices at 50 GFLOP/s",
        ),
    ],
)
def test_the_sentences_of_events(event: Any, text: str) -> None:
    assert sentence_of(event.kind, event.to_json()) == text


def test_what_has_no_sentence_names_its_members_in_words() -> None:
    assert sentence_of("new", {"kind": "new", "steps_left": 3, "text": "a\nb"}) == "steps left 3"
