"""The examples of the documentation run."""

from __future__ import annotations

import ast
import gc
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from lowered import lower
from typer.main import get_command

from halocline.command.base import app as client_app
from halocline.command.cli import main
from halocline.command.jobfile import read_job_file
from halocline_engine.analysis.dependence import check
from halocline_engine.analysis.extents import analyse
from halocline_engine.errors import ProgramError
from halocline_engine.language.gtscript import parse
from halocline_engine.program import compile_program
from halocline_service.commands import app as server_app

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


@pytest.mark.filterwarnings("ignore::ResourceWarning")
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
    gc.collect()  # of the lazy result, whose connections are left to the end
    output = capsys.readouterr().out
    assert output == 2 * "0.0446\n"  # in this process, then through the service
    assert all(text.endswith("0.0446\n") for text in blocks("README.md", "text"))


def test_the_error_of_the_page_is_what_the_command_says(
    service: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prompt, shown = blocks("README.md", "console")[-1].split("\n", 1)
    program = blocks("README.md", "python")[0].split("def smooth")[1].split("\n\n\n")[0]
    imports = "import numpy as np\n\nfrom halocline.gtscript import *\n\n\n"
    text = f"{imports}def smooth{program}\n".replace("t + strength", "t + strenght")
    (tmp_path / "smooth.py").write_text(text)
    dataset: Any = xr.Dataset({"t": (("y", "x"), np.ones((3, 4)))})
    dataset.to_netcdf(tmp_path / "data.nc")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main([*shlex.split(prompt.removeprefix("$ halocline ")), "--url", service])
    assert end.value.code == 3
    assert capsys.readouterr().err == shown


def _options(group: Any, words: list[str]) -> set[str]:
    """Return the options of the command that the words begin with; fail if there is none."""
    command = group.commands[words[0]]
    if hasattr(command, "commands"):
        return _options(command, words[1:])
    return {option for parameter in command.params for option in parameter.opts}


def test_commands_and_their_options_exist() -> None:
    groups = {"halocline": get_command(client_app), "halocline-server": get_command(server_app)}
    checked = 0
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        for text in blocks(name, "(?:sh|sh client|console)"):
            for words in re.findall(
                r"(?<![\w/.-])(halocline(?:-server)?) +([a-z][^;#|\n]*)", text.replace("\\\n", " ")
            ):
                parts = words[1].split()
                given = {part.split("=")[0] for part in parts if part.startswith("--")}
                assert given <= _options(groups[words[0]], parts), (name, words)
                checked += 1
    assert checked > 20


def test_the_job_file_of_the_page_is_one(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(blocks("docs/python.md", "toml")[1])
    (tmp_path / "diffusion.py").write_text((ROOT / "demo/diffusion.py").read_text())
    assert read_job_file(tmp_path / "job.toml").job_name == "diffusion"


def test_all_python_is_python() -> None:
    for page in PAGES:
        for text in blocks(str(page.relative_to(ROOT)), "python"):
            ast.parse(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_every_function_and_type_of_the_language_is_in_its_reference() -> None:
    from halocline_engine.ir.functions import FUNCTIONS
    from halocline_engine.ir.types import DType

    words = set(re.findall(r"\w+", (ROOT / "docs/language.md").read_text("utf-8")))
    assert set(FUNCTIONS) - {"pow"} <= words
    assert {dtype.value for dtype in DType} <= words
