"""A Halocline service of the demo's own, as a child process on a free loopback port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["running_service"]

_START_SECONDS = 120.0
_STOP_SECONDS = 40.0


@contextmanager
def running_service(folder: Path) -> Generator[str]:
    """Start `halocline-server up` with its data under `folder`; yield its address; stop it.

    What it prints goes to `folder/service.log`. Raises RuntimeError if it does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "halocline_service.cli", "up", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--data-dir", str(folder / "data")]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HALOCLINE_")}
    log = folder / "service.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
        )
        try:
            _wait_until_ready(process, url, log)
            yield url
        finally:
            _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if _is_ready(url):
            return
        time.sleep(0.1)
    raise RuntimeError(f"The service did not start. Its log, '{log}':\n{log.read_text()[-4000:]}")


def _is_ready(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/readyz", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
