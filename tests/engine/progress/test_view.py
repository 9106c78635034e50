"""What a bar says of a job, by its events and the times at which they came."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from halocline_engine.progress.view import View, advance, duration

PLANNED = {"target": "cpu", "mode": "streamed", "passes": 2, "blocks": 4, "steps": 40}
RESIDENT = {**PLANNED, "mode": "resident", "passes": 1}


def after(*events: tuple[float, str, Mapping[str, object]]) -> View:
    view = View()
    for now, kind, data in events:
        view = advance(view, kind, data, now)
    return view


def test_before_there_is_a_plan_it_says_what_is_awaited() -> None:
    waiting = after((0.0, "status", {"status": "accepted", "message": "Waiting for a slot."}))
    assert waiting.text(1.0) == "Waiting for a slot."


@pytest.mark.parametrize(
    ("plan", "awaited"),
    [
        (PLANNED, "cpu · pass 1/2 · block 0/4 · step 0/40 · compiling, first block"),
        (RESIDENT, "cpu · step 0/40 · compiling, first steps"),
    ],
)
def test_after_the_plan_the_first_progress_is_awaited(
    plan: Mapping[str, object], awaited: str
) -> None:
    view = after((0.0, "planned", plan))
    assert view.text(9.0) == awaited
    assert view.seconds_left(9.0) is None


def test_rate_and_time_left_follow_from_progress() -> None:
    view = after(
        (0.0, "planned", RESIDENT),
        (9.0, "steps-finished", {"progress": 0.25, "steps_done": 10}),  # it was compiled before
        (10.0, "steps-finished", {"progress": 0.5, "steps_done": 20}),
    )
    assert view.text(10.0) == "cpu · step 20/40 · 10 steps/s · 2 s left"
    assert view.seconds_left(11.5) == 0.5
    assert view.seconds_left(20.0) == 0.0  # late


def test_a_slow_job_has_seconds_a_block() -> None:
    plan = {**PLANNED, "steps": 1, "passes": 1}
    done = [
        (at, "block-finished", {"progress": n / 4, "done": n, "total": 4})
        for at, n in ((0.0, 1), (100.0, 2))
    ]
    view = after((0.0, "planned", plan), *done)
    assert view.text(100.0) == "cpu · block 2/4 · 100 s/block · 3 min 20 s left"


def test_blocks_that_end_together_are_one_point() -> None:
    at_once = [(1.0 + n / 1e4, "block-finished", {"progress": n / 8, **counted(n)}) for n in (1, 2)]
    view = after((0.0, "planned", PLANNED), *at_once)
    assert view.seconds_left(1.0) is None
    view = advance(view, "block-finished", {"progress": 0.5, **counted(4)}, 3.0002)
    assert view.seconds_left(3.0002) == pytest.approx(4.0, rel=1e-3)


def counted(done: int) -> Mapping[str, object]:
    return {"done": done, "total": 4}


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    points = [(float(at), min(at, 50) / 1000 + max(0, at - 50) / 100) for at in range(1, 100)]
    view = after(*((at, "steps-finished", {"progress": share}) for at, share in points))
    assert view.seconds_left(99.0) == pytest.approx((1 - points[-1][1]) * 100)


def test_a_resumed_job_has_the_rate_of_its_new_steps() -> None:
    view = after(
        (0.0, "planned", RESIDENT),
        (0.1, "resumed", {"progress": 0.5, "steps_done": 20}),
        (2.1, "steps-finished", {"progress": 0.75, "steps_done": 30}),
    )
    assert view.text(2.1) == "cpu · step 30/40 · 5 steps/s · 2 s left"


def test_a_stalled_worker_is_awaited_until_there_is_progress() -> None:
    view = after(
        (0.0, "planned", RESIDENT),
        (1.0, "steps-finished", {"progress": 0.25, "steps_done": 10}),
        (2.0, "worker-stalled", {"progress": 0.0, "message": "worker 1 is silent"}),
    )
    assert view.text(2.0) == "cpu · step 10/40 · worker 1 is silent"
    view = advance(view, "steps-finished", {"progress": 0.5, "steps_done": 20}, 3.0)
    assert "silent" not in view.text(3.0)


def test_messages_of_a_running_job_say_nothing_new() -> None:
    running = {"status": "running", "message": "Computing, 40 % done."}
    view = after((0.0, "planned", RESIDENT), (1.0, "status", running))
    assert "Computing" not in view.text(1.0)


def test_at_the_end_everything_is_done() -> None:
    view = after((0.0, "planned", PLANNED), (1.0, "finished", {"progress": 1.0}))
    assert view.share == 1.0
    assert view.text(1.0) == "cpu · pass 2/2 · block 4/4 · step 40/40"


def test_durations_are_those_of_the_page() -> None:
    assert [duration(s) for s in (0.0, 59.2, 60.0, 3599.5)] == [
        *("1 s", "1 min 00 s", "1 min 00 s", "1 h 00 min"),
    ]
