"""What a notebook shows of plans."""

from __future__ import annotations

from typing import Any, cast

from halocline.plan import Plan


def test_a_plan_is_a_table() -> None:
    plan = Plan(target="<cpu>", blocks=2, block={"x": 4}, halo={"x": [1, 2]}, projected_bytes=3e6)
    html = cast("Any", plan)._repr_html_()
    assert html.startswith('<table class="halocline-plan">')
    assert "<tr><th>target</th><td>&lt;cpu&gt;</td></tr>" in html
    assert "<tr><th>halo</th><td>x 1+2</td></tr>" in html
    assert "<tr><th>memory</th><td>3 MB</td></tr>" in html
