"""Commands that there are not, answered with the right one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from halocline.command.render import render_error
from halocline.errors import ArgumentError
from halocline_engine.interface.refusals import nearest

__all__ = ["Commands", "refuse"]

_MEANT: Mapping[str, str] = {
    **dict.fromkeys(("list", "jobs", "ps", "history", "queue"), "ls"),
    **dict.fromkeys(("status", "state", "info", "inspect", "describe", "job", "get"), "show ID"),
    **dict.fromkeys(("log", "events"), "logs ID"),
    **dict.fromkeys(("follow", "tail", "watch"), "logs ID --follow"),
    **dict.fromkeys(("stop", "kill", "abort", "dismiss"), "cancel ID"),
    **dict.fromkeys(("delete", "remove", "del"), "rm ID"),
    **dict.fromkeys(("result", "results", "fetch", "export", "save"), "download ID"),
    **dict.fromkeys(("exec", "execute", "start", "launch", "stencil"), "run PROGRAM DATASET"),
    **dict.fromkeys(("create", "send", "sbatch"), "submit PROGRAM DATASET"),
    **dict.fromkeys(("dry-run", "explain", "check"), "plan PROGRAM DATASET"),
    **dict.fromkeys(("rerun", "resubmit", "retry", "again"), "clone ID"),
    **dict.fromkeys(("put", "add"), "upload FILE"),
    "dataset": "datasets",
    "benchmark": "bench",
    "version": "--version",
    "help": "--help",
}
_OF_UPLOADS: Mapping[str, str] = {
    **dict.fromkeys(("list", "show"), "uploads ls"),
    **dict.fromkeys(("delete", "remove", "del"), "uploads rm ID"),
    **dict.fromkeys(("add", "put", "create", "send", "upload"), "upload FILE"),
}
#: Commands of the program that runs a service.
_OF_SERVER = ("up", "api", "dispatcher", "scheduler", "worker", "migrate", "doctor", "keys")
#: Processes, whose inputs stand in a file.
_PROCESSES = (
    *("column", "sequence", "tridiagonal", "pentadiagonal", "factor", "solve", "tree", "gather"),
    *("scatter", "regrid", "neighbours", "matmul"),
)


class Commands(TyperGroup):
    """A group of commands that answers an unknown one with the one that is meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the words begin with, or end for one that there is not."""
        name = args[0]
        is_known = name.startswith("-") or self.get_command(ctx, name) is not None
        if not is_known and not ctx.resilient_parsing:
            group = ctx.command_path.partition(" ")[2]
            refuse(_unknown(group, name, sorted(self.commands)), as_json="--json" in args)
        return super().resolve_command(ctx, args)


def _unknown(group: str, name: str, known: Sequence[str]) -> ArgumentError:
    """Return the error for an unknown command of a group, "" for the program itself."""
    whole = f"{group} {name}".strip()
    meant = (_OF_UPLOADS if group else _MEANT).get(name)
    if meant is None and (close := nearest(name, known)):
        meant = f"{group} {close}".strip()
    if meant is None and not group and name in _PROCESSES:
        meant = f"run INPUTS.json --process {name}"
    program = "halocline"
    if meant is None and not group and name in _OF_SERVER:
        program, meant = "halocline-server", name
    hint = f"Write {program} {meant}." if meant else f"There are {', '.join(known)}."
    return ArgumentError(f"There is no command 'halocline {whole}'.", hint=hint)


def refuse(error: ArgumentError, *, as_json: bool) -> None:
    """Write why a command line is wrong, and end with the status of that."""
    typer.echo(render_error(error, as_json), err=True)
    raise SystemExit(2)
