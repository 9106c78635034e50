"""The table of states, looked at as a whole."""

from __future__ import annotations

from halocline_service.jobs.states import (
    FINAL,
    TRANSITIONS,
    Event,
    State,
    after,
    ogc_status,
    sources,
    target,
)


def test_final_states_are_left_by_nothing() -> None:
    assert {State.SUCCEEDED, State.FAILED, State.CANCELLED} == FINAL
    assert all(after(state, event) is None for state in FINAL for event in Event)


def test_each_event_leads_to_one_state_that_the_table_agrees_with() -> None:
    for event in Event:
        assert {after(state, event) for state in sources(event)} == {target(event)}


def test_every_state_can_be_reached_and_ends() -> None:
    reached, edge = {State.QUEUED}, [State.QUEUED]
    while edge:
        state = edge.pop()
        for (source, _), to in TRANSITIONS.items():
            if source is state and to not in reached:
                reached.add(to)
                edge.append(to)
    assert reached == set(State)


def test_only_a_running_job_ends_with_a_result() -> None:
    assert sources(Event.SUCCEED) == (State.RUNNING,)
    assert after(State.QUEUED, Event.SUCCEED) is None


def test_each_state_has_its_own_word_in_the_standard() -> None:
    assert {ogc_status(state) for state in State} == {
        *("accepted", "running", "successful", "failed", "dismissed")
    }
