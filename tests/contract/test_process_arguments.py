"""All interfaces take the same arguments, with the same defaults, and describe each of them."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

import halocline_engine as he
from halocline import AsyncClient, Client
from halocline.accessor import HaloclineAccessor
from halocline.command.cli import app
from halocline_engine.interface.absent import Door, way_out
from halocline_engine.interface.uncompiled import READING
from halocline_service.document import job_file_schema
from halocline_service.processes.describe import input_descriptions
from halocline_service.processes.table import PROCESSES

ROOT = Path(__file__).parents[2]
#: Where the library works, whom it tells, and what it keeps: not for who asks a service.
OF_THE_LIBRARY = {"cluster", "output", "options", "on_event", "progress", "cancelled"}
OF_SOME = {"workspace", "plans"}
OF_THE_CLIENT = {"job_name", "dry_run", "labels"}
COMPUTED = sorted(name for name, one in PROCESSES.items() if one.inline is None and name != "plan")
REQUIRED = inspect.Parameter.empty
#: Options of the command that take several words of an argument, which has another ending.
OPTIONS = {
    "field": "fields",
    "scalar": "scalars",
    "external": "externals",
    "dtype": "dtypes",
    "chunk": "chunks",
    "label": "labels",
    "position": "positions",
}
#: What the command has besides: where it asks, what it prints, and what a file holds.
OF_THE_COMMAND = {"program", "dataset", "process", "output", "quiet", "url", "as_json", "wait"}
#: Arguments of `stencil` that stand in the file of a job only.
OF_FILES = {"until", "diagnostics"}


def defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    return {name: one.default for name, one in parameters.items() if name != "self"}


def library(name: str) -> dict[str, Any]:
    """Return the arguments of a process, with those that compile a program and choose an order."""
    found = defaults(getattr(he, "run" if name == "stencil" else name))
    if name == "stencil":
        reading = defaults(he.stencil)
        found |= {each: reading[each] for each in READING} | {"order": he.Options().order}
    return found


def asked(name: str) -> dict[str, Any]:
    fields = PROCESSES[name].inputs.model_fields
    return {each: REQUIRED if f.is_required() else f.default for each, f in fields.items()}


def described(function: Any) -> dict[str, str]:
    """Return what the docstring says of each argument, by name."""
    text = inspect.getdoc(function) or ""
    _, _, rest = text.partition("Parameters\n----------\n")
    rest = re.split(r"\n\n[A-Z]\w+\n-+\n", rest)[0]
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", rest):
        head, _, told = entry.partition("\n")
        for name in head.partition(" : ")[0].split(", "):
            found[name] = f"{head.partition(' : ')[2]}\n{told}".strip()
    return found


@pytest.mark.parametrize("name", COMPUTED)
def test_all_take_the_same(name: str) -> None:
    own, wanted, client = asked(name), library(name), defaults(getattr(Client, name))
    assert OF_THE_LIBRARY <= wanted.keys() - own.keys() <= OF_THE_LIBRARY | OF_SOME
    assert client.keys() - own.keys() == OF_THE_CLIENT
    for each, default in own.items():
        assert wanted[each] == default, each
        assert client[each] == default, each


@pytest.mark.parametrize("name", COMPUTED)
def test_who_has_not_got_an_argument_says_the_way_out(name: str) -> None:
    for each in library(name).keys() - asked(name).keys():
        assert way_out(Door.SERVICE, each, "x"), each
        assert way_out(Door.REQUEST, each) or each == "plans", each
    for each in (*OF_THE_CLIENT, *READING, "order"):
        assert way_out(Door.LIBRARY, each, "x"), each


@pytest.mark.parametrize("name", COMPUTED)
def test_datasets_and_awaited_clients_take_what_clients_take(name: str) -> None:
    client, accessor = (defaults(getattr(kind, name)) for kind in (Client, HaloclineAccessor))
    assert defaults(getattr(AsyncClient, name)) == client
    assert inspect.getdoc(getattr(AsyncClient, name)) == inspect.getdoc(getattr(Client, name))
    del client["dataset"]
    assert accessor.pop("client") is None
    assert accessor == client


@pytest.mark.parametrize("name", COMPUTED)
def test_each_argument_is_described(name: str) -> None:
    function = getattr(he, "run" if name == "stencil" else name)
    here, there = described(function), described(getattr(Client, name))
    assert set(defaults(function)) <= set(here)
    assert set(defaults(getattr(Client, name))) <= set(there)
    for each, told in {**here, **there}.items():
        assert told.endswith("."), (each, told)
    for each in asked(name).keys() & here.keys():
        heads = [one[each].partition("\n")[0].partition("default: ") for one in (here, there)]
        assert heads[0][1:] == heads[1][1:], each
    told = input_descriptions(PROCESSES[name])
    assert told.keys() == asked(name).keys()
    for each, one in told.items():
        assert one["title"], each
        assert one["description"].endswith("."), each


def test_the_command_has_the_same() -> None:
    commands: Any = typer.main.get_command(app)
    wanted = asked("stencil").keys() | {"job_name", "labels"} | OF_FILES
    for name in ("run", "submit", "plan"):
        options = {one.name: one for one in commands.commands[name].params}
        own = {OPTIONS.get(each, each) for each in options.keys() - OF_THE_COMMAND}
        assert own | OF_FILES == wanted - {"program", "dataset"}, name
        for each in options.values():
            if each.param_type_name == "option":
                assert each.help, each.name


def test_job_files_have_the_same() -> None:
    schema = json.loads(job_file_schema())
    assert (ROOT / "docs/job-file.schema.json").read_text("utf-8") == job_file_schema()
    members = {"$schema", "process", "inputs", "job_name", "labels", "output"}
    assert schema["properties"].keys() == members
    assert schema["properties"]["process"]["enum"] == [*dict.fromkeys(PROCESSES)][:-2]
    for rule in schema["allOf"]:
        name = rule["if"]["properties"]["process"]["const"]
        inputs = rule["then"]["properties"]["inputs"]["properties"]
        assert inputs.keys() == asked(name).keys()
        for each, default in asked(name).items():
            if default is not REQUIRED:
                assert inputs[each].get("default") == default, each
