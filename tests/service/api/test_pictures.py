"""The scene that a plan is drawn as."""

from __future__ import annotations

from halocline_engine.schedule.traversal.pictures import draw_text
from halocline_service.api.responses.pictures import scene_of

PLAN = {
    "blocks": 480,
    "order": "column",
    "width": 5,
    "rows": 40,
    "length": 12,
    "cache_bytes": 21 * 2**20,
    "chunks": 480,
    "predicted_fetches": 640,
}


def test_a_large_plan_is_drawn_in_part_with_its_own_numbers() -> None:
    text = draw_text(scene_of({**PLAN, "fetches": 640}))
    assert text.splitlines()[0] == "columns 5 wide, 8 rows of 12"
    assert text.endswith(
        "drawn: the first blocks of 40 rows of 12\n"
        "in all: 480 chunks, a cache of 21.0 MiB a worker, 640 fetches predicted\n"
        "counted: 640 fetches\n"
    )


def test_a_plan_without_numbers_is_drawn_with_what_there_is() -> None:
    scene = scene_of({"blocks": 3})
    assert (scene.name, scene.rows, scene.length, scene.cache, scene.notes) == (
        "row",
        1,
        3,
        0,
        (),
    )
    many = draw_text(scene_of({**PLAN, "predicted_fetches": None}))
    assert many.endswith("a cache of 21.0 MiB a worker, fetches not predicted\n")
