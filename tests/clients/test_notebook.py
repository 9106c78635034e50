"""What a notebook shows: a bar of plain HTML that is updated, and tables of jobs and plans."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from halocline.events import Event
from halocline.plan import Plan
from halocline.progress import Bar, NotebookBar, bar


class Screen:
    """What a notebook would show, in the order of its updates."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.updated: list[str] = []

    def display(self, text: str, *, display_id: bool) -> Any:
        assert display_id
        self.shown.append(text)
        return SimpleNamespace(update=self.updated.append)


def notebook(screen: Screen, **shell: Any) -> Any:
    display = SimpleNamespace(display=screen.display, HTML=str)
    return SimpleNamespace(get_ipython=lambda: SimpleNamespace(**shell), display=display)


EVENTS = [
    Event("planned", {"progress": 0.0, "target": "<cpu>", "blocks": 2, "passes": 1}),
    Event("block-finished", {"progress": 0.5, "done": 1, "total": 2}),
    Event("finished", {"progress": 1.0}),
]


def test_a_bar_of_a_notebook_is_one_output_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setitem(sys.modules, "IPython", notebook(screen, kernel=object()))
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with bar("job 1") as shown:
        for event in EVENTS:
            shown.show(event)
    assert len(screen.shown) == 1
    assert "waiting" in screen.shown[0]
    assert [text.count('<progress max="1"') for text in screen.updated] == [1] * 4
    assert '<progress max="1" value="0.5000"></progress> 50 %' in screen.updated[1]
    assert "&lt;cpu&gt; · block 1/2" in screen.updated[1]
    assert "100 %" in screen.updated[-1]
    assert "block 2/2" in screen.updated[-1]


@pytest.mark.parametrize("module", [None, notebook(Screen()), notebook(Screen(), other=1)])
def test_elsewhere_it_is_a_bar_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert isinstance(bar("job 1"), Bar)


def test_time_is_told_in_minutes() -> None:
    times = iter([0.0, 125.0])
    drawn: list[str] = []

    def display(text: str) -> Any:
        drawn.append(text)
        return drawn.append

    with NotebookBar("<job>", display, now=lambda: next(times, 125.0)):
        pass
    assert "· 2:05 ·" in drawn[0]
    assert "<code>&lt;job&gt;</code>" in drawn[0]


def test_a_plan_is_a_table() -> None:
    plan = Plan(target="<cpu>", blocks=2, block={"x": 4}, halo={"x": [1, 2]}, projected_bytes=3e6)
    html = cast("Any", plan)._repr_html_()
    assert html.startswith('<table class="halocline-plan">')
    assert "<tr><th>target</th><td>&lt;cpu&gt;</td></tr>" in html
    assert "<tr><th>halo</th><td>x 1+2</td></tr>" in html
    assert "<tr><th>memory</th><td>3 MB</td></tr>" in html
