"""The examples of the documentation run."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

from halocline.command.jobfile import read_job_file
from halocline_engine.analysis.dependence import check
from halocline_engine.analysis.extents import analyse
from halocline_engine.errors import ProgramError
from halocline_engine.ir.lower.program import lower
from halocline_engine.language.gtscript import parse
from halocline_engine.program import compile_program

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / name for name in ("docs", "engine", "service", "deploy")]
PAGES = sorted([*ROOT.glob("*.md"), *(page for at in FOLDERS for page in at.rglob("*.md"))])


def blocks(page: str, kind: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", blocks("docs/language.md", "python"))
def test_programs_of_the_language_reference_are_accepted(text: str) -> None:
    program = lower(parse(text))
    check(program)
    analyse(program)


@pytest.mark.parametrize(
    "text",
    blocks("docs/language.md", "python reject")
    + blocks("docs/differences-from-gt4py.md", "python reject"),
)
def test_what_the_language_reference_calls_an_error_is_one(text: str) -> None:
    with pytest.raises(ProgramError):
        compile_program(text, target="reference")


def test_the_quick_start_works(
    service: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "quick_start.py"
    path.write_text("\n".join(blocks("README.md", "python")))
    monkeypatch.setenv("HALOCLINE_URL", service)
    runpy.run_path(str(path))
    output = capsys.readouterr().out
    assert output == "0.0446\n"
    assert output in blocks("README.md", "text")[0]


def test_the_job_file_of_the_page_is_one(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(blocks("docs/python.md", "toml")[1])
    (tmp_path / "diffusion.py").write_text((ROOT / "demo/diffusion.py").read_text())
    assert read_job_file(tmp_path / "job.toml").name == "diffusion"


def test_all_python_is_python() -> None:
    for page in PAGES:
        for text in blocks(str(page.relative_to(ROOT)), "python"):
            ast.parse(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_every_function_and_type_of_the_language_is_in_its_reference() -> None:
    from halocline_engine.ir.nodes import FUNCTIONS
    from halocline_engine.ir.types import DType

    words = set(re.findall(r"\w+", (ROOT / "docs/language.md").read_text("utf-8")))
    assert set(FUNCTIONS) - {"pow"} <= words
    assert {dtype.value for dtype in DType} <= words
