"""Every block of Python in the documentation runs and prints what stands behind it.

The blocks of a page run one after the other, in one folder and with the names of those before. What
is printed is compared with the block `text` that follows. Marks of blocks say more: `python client`
talks to a service, `python gt4py` needs that package, `python reject` is a program that is refused
(`test_docs.py`), `python long` prints more than a page shows, and `python cuda` and `python other`
are not run, because they need a GPU or another tool.
"""

from __future__ import annotations

import contextlib
import gc
import io
import re
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

# A request to a Zarr store leaves its connection pool to the interpreter's end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(
    r"^```python( \w+)?\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)
#: Programs in the language, which are compiled one by one.
_PROGRAMS = {"language.md", "differences-from-gt4py.md"}

Block = tuple[str, str, str]


def blocks(page: Path) -> list[Block]:
    """Return mark, code and output of the blocks of Python."""
    found = _BLOCK.findall(page.read_text("utf-8"))
    return [(mark.strip(), code, shown) for mark, code, shown in found]


PAGES = {
    path.relative_to(ROOT / "docs").as_posix(): found
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if path.name not in _PROGRAMS and (found := blocks(path))
}
WITH_SERVICE = {
    name for name, found in PAGES.items() if any(mark == "client" for mark, *_ in found)
}


def run(found: list[Block]) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for number, (mark, code, shown) in enumerate(found):
        if mark in {"", "client", "long"} or (mark == "gt4py" and find_spec("gt4py")):
            path = Path(f"block_{number}.py")  # where functions of a page are read from
            path.write_text(code)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                if mark == "gt4py":
                    warnings.simplefilter("ignore")
                exec(compile(code, path, "exec"), names)  # noqa: S102 - our own text
            if mark != "long":
                assert printed.getvalue() == shown
    names.clear()
    gc.collect()  # of lazy results, whose connections are left to the end


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")


@pytest.mark.parametrize("name", sorted(PAGES.keys() - WITH_SERVICE))
def test_a_page(name: str) -> None:
    run(PAGES[name])


@pytest.mark.parametrize("name", sorted(WITH_SERVICE))
def test_a_page_with_a_service(name: str, service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALOCLINE_URL", service)
    run(PAGES[name])
