"""Certificates of the cluster: made for one user alone, renewed in time, and needed."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from halocline_service import identity as identities
from halocline_service import machine
from halocline_service.commands import app
from halocline_service.identity import Identity, IdentityError, make_identity, read_identity


def call(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output or str(done.exception or "")


def server(identity: Identity) -> tuple[int, Callable[[], None]]:
    """Listen as Dask does: to those who show the certificate, and speak first."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(identity.trusted))
    context.load_cert_chain(identity.file)
    context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            with listener, context.wrap_socket(listener.accept()[0], server_side=True) as stream:
                stream.send(b"hello")
        except OSError:
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    return listener.getsockname()[1], thread.join


def test_a_certificate_is_for_one_user_and_made_once(tmp_path: Path) -> None:
    file = tmp_path / "tls" / "cluster.pem"
    before = os.umask(0)
    try:
        assert make_identity(file)
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["cluster.pem"]
    text = file.read_bytes()
    assert not make_identity(file)
    assert file.read_bytes() == text
    assert "PRIVATE KEY" in text.decode()


def test_it_is_renewed_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cluster.pem"
    make_identity(file)
    text = file.read_bytes()
    for years, written in ((8.9, False), (9.1, True)):

        class Later(datetime):
            @classmethod
            def now(cls, tz: object = None) -> datetime:
                return datetime.now(UTC) + timedelta(days=365 * years)  # noqa: B023

        monkeypatch.setattr(identities, "datetime", Later)
        assert make_identity(file) is written
        assert (file.read_bytes() != text) is written


def test_only_those_who_have_it_are_answered(tmp_path: Path) -> None:
    for name in ("ours.pem", "strange.pem"):
        make_identity(tmp_path / name)
    ours, strange = (read_identity(tmp_path / name) for name in ("ours.pem", "strange.pem"))
    for there, who, answered in (
        (ours, ours, True),
        (ours, strange, False),
        (strange, ours, False),
    ):
        port, wait = server(there)
        assert machine.answers("127.0.0.1", port, who) is answered
        wait()
    assert not machine.answers("127.0.0.1", port, ours)


def test_a_certificate_that_cannot_serve_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cluster.pem"
    with pytest.raises(IdentityError) as caught:
        read_identity(file)
    assert str(caught.value) == (
        f"There is no certificate '{file}', and a cluster without one is open to all."
    )
    assert caught.value.hint == (
        "Run 'halocline-server certificate' on one machine, copy the file to the others, and name "
        "it by HALOCLINE_TLS_IDENTITY."
    )
    make_identity(file)
    with pytest.raises(IdentityError, match=f"There is no certificate '{tmp_path}/other.pem'"):
        read_identity(file, tmp_path / "other.pem")
    file.chmod(0o644)
    with pytest.raises(IdentityError) as caught:
        read_identity(file)
    assert str(caught.value) == f"The key in '{file}' can be read by every user of this machine."
    assert caught.value.hint == f"Run 'chmod 600 {file}', or make another one."
    file.chmod(0o600)
    file.write_text("nonsense")
    with pytest.raises(IdentityError, match=r"^The certificate '.*' cannot be used: "):
        read_identity(file)
    with pytest.raises(IdentityError, match=r"^The certificate '.*' cannot be used: "):
        make_identity(file)


@pytest.mark.parametrize(
    "words",
    [
        ("scheduler", "--host", "0.0.0.0"),
        ("scheduler",),
        ("worker", "--scheduler", "tcp://127.0.0.1:8786"),
        ("reach", "--scheduler", "tls://127.0.0.1:8786"),
    ],
)
def test_nothing_of_the_cluster_starts_without_it(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALOCLINE_DATA_DIR", str(tmp_path))
    status, text = call(*words)
    assert status == 1
    assert text.startswith(f"There is no certificate '{tmp_path}/tls/cluster.pem'")


def test_the_command_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "some" / "file.pem"
    monkeypatch.setenv("HALOCLINE_TLS_IDENTITY", str(file))
    assert call("certificate") == (
        0,
        f"Made '{file}', with its key: whoever has it can run anything here.\n",
    )
    assert call("certificate") == (0, f"'{file}' is there already.\n")
    port = machine.free_port("127.0.0.1")
    status, text = call("reach", "--scheduler", f"tcp://127.0.0.1:{port}")
    assert (status, text) == (
        1,
        f"The scheduler at 'tcp://127.0.0.1:{port}' does not answer, or does not trust us.\n",
    )
    port, wait = server(read_identity(file))
    assert call("reach", "--scheduler", f"tls://127.0.0.1:{port}") == (0, "")
    wait()


@pytest.mark.parametrize("address", ["127.0.0.1:8786", "tls://host", "http://host:1"])
def test_an_address_that_is_none_is_said(address: str, tmp_path: Path) -> None:
    status, text = call("worker", "--scheduler", address)
    assert (status, text) == (
        2,
        f"The address of a scheduler must be like 'tls://host:8786', got '{address}'.\n",
    )
