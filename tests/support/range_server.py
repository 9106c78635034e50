"""A web server of the files in a folder that answers ranges, for datasets read over HTTP."""

from __future__ import annotations

import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

__all__ = ["serving_files"]


class _Files(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments: object, asked: list[str], **options: object) -> None:
        self._asked = asked
        super().__init__(*arguments, **options)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        pass

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        self._asked.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        path = Path(self.translate_path(self.path))
        if self.path.startswith("/elsewhere/"):
            self._send(302, b"", {"Location": self.path.removeprefix("/elsewhere")})
            return
        if not path.is_file():
            self._send(404, b"", {})
            return
        content = path.read_bytes()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self._send(200, content if with_body else b"", {}, len(content))
            return
        first = int(wanted[1])
        part = content[first : int(wanted[2] or len(content)) + 1]
        of = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
        self._send(206, part if with_body else b"", {"Content-Range": of}, len(part))

    def _send(self, code: int, body: bytes, more: dict[str, str], size: int = 0) -> None:
        self.send_response(code)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(size))
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving_files(folder: Path) -> Generator[tuple[str, list[str]]]:
    """Serve a folder; give the address, and the list of what is asked for."""
    asked: list[str] = []
    handler = partial(_Files, directory=str(folder), asked=asked)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
