"""A private PostgreSQL server in a temporary folder, for as long as a session of tests lasts.

It listens on a socket in that folder and on nothing else, and keeps nothing over a power cut, so
that it is quick. The server refuses to run as root; it is run as Debian's `postgres` or `nobody`
then.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import create_engine, text

_QUICK = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
}


def binaries() -> Path | None:
    """Give the folder of the newest server's programs; Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    kept = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3])
    )
    return kept[-1].parent if kept else None


class Server:
    """A server that can be stopped and started again; its databases stay."""

    def __init__(self, folder: Path, programs: Path, account: dict[str, Any]) -> None:
        self._folder = folder
        self._programs = programs
        self._account = account
        self._data = folder / "data"
        self._log = folder / "log"

    def url(self, database: str) -> str:
        """Give a database's address as SQLAlchemy writes it."""
        return f"postgresql://postgres@/{database}?host={self._folder}"

    def make(self) -> None:
        """Make the files of the server."""
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync"]
        self._run("initdb", "--pgdata", str(self._data), *options)

    def start(self) -> None:
        """Start it, and return when it answers."""
        settings = " ".join(f"-c {name}='{value}'" for name, value in _QUICK.items())
        self._control("start", f"--options=-k {self._folder} {settings}", f"--log={self._log}")

    def stop(self) -> None:
        """End it at once, and with it every connection; nothing happens where it is not there."""
        if (self._data / "postmaster.pid").exists():
            self._control("stop", "--mode=fast")

    def crash(self) -> None:
        """End all of its processes with SIGKILL; nothing is written any more."""
        pid = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        everyone = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        for process in everyone:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(everyone, timeout=10)

    def create(self, template: str = "template1") -> str:
        """Make a database and give its name."""
        name = f"t{uuid.uuid4().hex}"
        self._tell(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, name: str) -> None:
        """Delete a database, whoever is connected to it."""
        self._tell(f"DROP DATABASE {name} WITH (FORCE)")

    def _tell(self, statement: str) -> None:
        engine = create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()

    def _control(self, what: str, *words: str) -> None:
        self._run("pg_ctl", "--wait", "--silent", "--pgdata", str(self._data), *words, what)

    def _run(self, program: str, *words: str) -> None:
        # What the server prints goes to its log; a pipe that it inherits would never be closed.
        subprocess.run(
            [self._programs / program, *words],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            **self._account,
        )


@contextmanager
def running(programs: Path) -> Generator[Server]:
    """Run a server; it and its files are gone in the end."""
    # Not under pytest's folder, which only its owner may enter; and a socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="hc-pg-"))
    server = Server(folder, programs, _account(folder))
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _account(folder: Path) -> dict[str, Any]:
    """Say as whom to run the server, and give them the folder."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, found.pw_uid, found.pw_gid)
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise LookupError("The server must not run as root, and there is no other user.")
