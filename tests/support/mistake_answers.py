"""Answers that each interface gives to a mistake, and what all of them must have."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx2
from mistakes import Mistake, sea

import halocline as hc
import halocline_engine as he
from halocline.command.cli import main
from halocline_engine.interface.words import OPTIONS, Interface

__all__ = ["DOORS", "Answer", "Place", "faults_of", "raised", "run_command"]

_BESIDE = {"regrid": "weights", "neighbours": "mesh"}


@dataclass(frozen=True)
class Answer:
    """What somebody reads; `computed` says that a job was made, or blocks were computed."""

    interface: Interface
    message: str
    hint: str
    computed: bool = False

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


@dataclass(frozen=True)
class Place:
    """A service, a dataset that it has, and a folder for files."""

    client: hc.Client
    url: str
    reference: str
    folder: Path

    def is_idle(self) -> bool:
        """Whether no job was made, and nothing sent that is not to be kept."""
        return not self.client.jobs() and all(each["kept"] for each in self.client.uploads.list())


def by_library(mistake: Mistake, place: Place) -> Answer:
    """Call the function of the engine."""
    del place
    function: Any = he.run if mistake.process == "stencil" else getattr(he, mistake.process)
    told: list[str] = []

    def hear(event: Any) -> None:
        told.append(event.kind)

    def call(**inputs: Any) -> object:
        return function(**inputs, on_event=hear)

    answer = raised(lambda: call(**_with_data(mistake, sea())))
    return Answer(answer.interface, answer.message, answer.hint, "block_finished" in told)


def by_client(mistake: Mistake, place: Place) -> Answer:
    """Call the method of the client with a dataset that is here."""
    method: Any = getattr(place.client, mistake.process)
    answer = raised(lambda: method(**_with_data(mistake, sea())))
    return Answer(answer.interface, answer.message, answer.hint, not place.is_idle())


def by_rest(mistake: Mistake, place: Place) -> Answer:
    """Ask for the execution of a process."""
    return _asked(mistake, place, "execution", {}, lambda body: body)


def by_page(mistake: Mistake, place: Place) -> Answer:
    """Ask for a check as the form of the page does."""
    headers = {"Halocline-Interface": "page"}
    return _asked(mistake, place, "check", headers, lambda body: body.get("problem", {}))


def by_command(mistake: Mistake, place: Place) -> Answer:
    """Submit by the command, with a file that is here."""
    data = place.folder / "sea.nc"
    if not data.exists():
        dataset: Any = sea()
        dataset.to_netcdf(data)
    if mistake.process == "stencil":
        words = _words(mistake.inputs, place.folder / "smooth.py")
        words.insert(1, str(data))
    else:
        file = place.folder / "inputs.json"
        file.write_text(json.dumps(_with_data(mistake, str(data))))
        words = [str(file), "--process", mistake.process]
    return run_command(["submit", *words], place)


def run_command(words: list[str], place: Place) -> Answer:
    """Run the command in this process, and read standard error."""
    told, written = io.StringIO(), io.StringIO()
    status: object = 0
    with redirect_stderr(told), redirect_stdout(written):
        try:
            main([*words, "--url", place.url])
        except SystemExit as end:
            status = end.code
    lines = told.getvalue().split("\nhint: ")
    if status == 0:
        return Answer(Interface.COMMAND, f"Exit 0: {written.getvalue()}", "", computed=True)
    return Answer(Interface.COMMAND, lines[0], " ".join(lines[1:]), not place.is_idle())


def _with_data(mistake: Mistake, dataset: Any) -> dict[str, Any]:
    beside = _BESIDE.get(mistake.process)
    return {"dataset": dataset, **({beside: dataset} if beside else {}), **mistake.inputs}


def raised(call: Callable[[], object]) -> Answer:
    try:
        return Answer(Interface.PYTHON, f"No error: {call()!r:.80}", "")
    except (hc.HaloclineError, he.HaloclineError) as error:
        return Answer(Interface.PYTHON, error.message, error.hint)
    except Exception as error:
        return Answer(Interface.PYTHON, f"{type(error).__name__} {error}", "")


def _asked(
    mistake: Mistake,
    place: Place,
    what: str,
    headers: Mapping[str, str],
    problem_of: Callable[[dict[str, Any]], Mapping[str, Any]],
) -> Answer:
    inputs = _with_data(mistake, place.reference)
    url = f"{place.url}/processes/{mistake.process}/{what}"
    body = httpx2.post(url, json={"inputs": inputs}, headers=dict(headers), trust_env=False).json()
    problem = problem_of(body)
    interface = Interface(headers.get("Halocline-Interface", "json"))
    message = str(problem.get("detail", f"No error: {body}"))
    return Answer(interface, message, str(problem.get("hint", "")), not place.is_idle())


def _words(inputs: dict[str, Any], file: Path) -> list[str]:
    """Return inputs of a stencil as words of the command."""
    file.write_text(inputs.pop("program"))
    words = [str(file)]
    for name, value in inputs.items():
        option = OPTIONS[name]
        if not isinstance(value, dict):
            words += [option, str(value)]
            continue
        for key, one in cast("dict[str, Any]", value).items():
            sides = cast("dict[str, Any]", one) if isinstance(one, dict) else {"": one}
            for side, each in sides.items():
                words += [option, f"{key}{side and '.' + side}={each}"]
    return words


#: What asks, by the name of the interface.
DOORS: Mapping[str, Callable[[Mistake, Place], Answer]] = {
    "library": by_library,
    "client": by_client,
    "command": by_command,
    "rest": by_rest,
    "page": by_page,
}

_PYTHON = re.compile(rf"\b(?:{'|'.join(OPTIONS)})=[{{\['\"]|\b[Aa]rgument '")
_DIALECTS: Mapping[Interface, re.Pattern[str]] = {
    Interface.PYTHON: re.compile(r"--[a-z]|\b(?:GET|POST|PUT|DELETE) /|\b[Ii]nput '"),
    Interface.COMMAND: re.compile(rf"{_PYTHON.pattern}|\b(?:GET|POST|PUT|DELETE) /"),
    Interface.JSON: re.compile(rf"{_PYTHON.pattern}|--[a-z]"),
    Interface.PAGE: re.compile(
        rf"{_PYTHON.pattern}|--[a-z]|\b(?:GET|POST|PUT|DELETE) /|\b[Ii]nput '"
    ),
}
_RAW = re.compile(r"Traceback|\b[A-Z]\w+(?:Error|Exception)\b|unexpected keyword|object at 0x")
_ENGLISH = re.compile(r"no sense|nothing here|, which '|\bwhoever\b|which there is not")


def faults_of(answer: Answer, mistake: Mistake) -> list[str]:
    """Return what is wrong with an answer."""
    text = str(answer)
    faults = ["computed before the answer"] if answer.computed else []
    if answer.message.startswith("No error"):
        return [*faults, "no answer"]
    if not answer.message.rstrip().endswith((".", "^", "?", "│", "╯")) and "error:" not in text:
        faults.append("no sentence")
    if not answer.hint and "Try '" not in text:
        faults.append("no way out")
    faults += [f"does not name {word}" for word in mistake.words if word not in text]
    for what, pattern in (
        ("words of another interface", _DIALECTS[answer.interface]),
        ("raw", _RAW),
        ("English", _ENGLISH),
    ):
        if match := pattern.search(text):
            faults.append(f"{what}: {match[0]}")
    return faults
