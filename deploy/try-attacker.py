"""Lets one key attack an installation by hard and odd requests while another has small jobs run.

    python deploy/try-attacker.py [--requests 200] [--seed 1]

It starts an installation in a temporary folder. Status 1 where a small job took more than 10 s
longer than on the quiet installation, an answer was 500, 502 or 504, or the other key was answered
503 or 507.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

_LATE = 10.0
_NEVER = frozenset({500, 502, 504})
_NOT_FOR_OTHERS = _NEVER | {503, 507}
_HEAD = "def f(t: Field[np.float64], out: Field[np.float64]):\n"
_BODY = "    with computation(PARALLEL), interval(...):\n        x = t\n"
_SERVER = (sys.executable, "-m", "halocline_service.cli")


@dataclass
class Caller:
    """Requests with one key; `statuses` counts the answers."""

    port: int
    key: str
    statuses: Counter[int] = field(default_factory=Counter[int])

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        seconds: float = 60,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Send a request; status 0 stands for no answer in time."""
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        given |= headers or {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            connection.request(method, path, sent, given)
            answer = connection.getresponse()
            status, data = answer.status, answer.read()
        except (OSError, http.client.HTTPException, ValueError):
            status, data = 0, b""
        finally:
            connection.close()
        self.statuses[status] += 1
        with suppress(ValueError):
            return status, json.loads(data)
        return status, None


def _constant(draw: random.Random) -> str:
    big = 10 ** draw.randint(6, 12)
    forms = ["round(5, -{n})", "round(7.5, -{n})", "2 ** {n}", "pow(3, {n})", "10.0 ** {n}"]
    forms += [
        "round(9, {n})",
        "pow(7, 8, {n})",
        "1 / {n} ** 900",
        "-(-5) ** {n}",
        "math.gamma({n})",
    ]
    return f"X = {draw.choice(forms).format(n=big)}\n{_HEAD}{_BODY}        out = x * X\n"


def _loops(draw: random.Random) -> str:
    depth, counters = draw.randint(10, 55), draw.randint(0, 5)
    lines = [f"        v{each}: int64 = {each}" for each in range(counters)]
    for level in range(depth):
        indent = " " * 4 * (level + 2)
        lines.append(f"{indent}{draw.choice(['while', 'if', 'while'])} x < {level}.0:")
        lines += [
            f"{indent}    v{each} = min(v{each} + v{(each + 1) % counters}, {draw.randint(1, 999)})"
            for each in range(counters)
        ]
    lines.append(f"{' ' * 4 * (depth + 2)}x = x + 1.0")
    return _HEAD + _BODY + "\n".join(lines) + "\n        out = x\n"


def _wide(draw: random.Random) -> str:
    count = draw.randint(500, 8000)
    term = draw.choice(["(x * x + {n}.0)", "t[{o}, 0, 0]", "sqrt(x + {n}.0)", "min(x, {n}.0)"])
    lines = [
        f"        x{n} = {'x' if n == 0 else f'x{n - 1}'} + {term.format(n=n, o=n % 60)}"
        for n in range(count)
    ]
    return _HEAD + _BODY + "\n".join(lines) + f"\n        out = x{count - 1}\n"


def _functions(draw: random.Random) -> str:
    depth, calls = draw.randint(5, 40), draw.randint(2, 4)
    lines = ["def g0(a):\n    return a + 1.0\n"]
    for level in range(1, depth):
        inner = " + ".join([f"g{level - 1}(a)"] * calls)
        lines.append(f"def g{level}(a):\n    return {inner}\n")
    return "\n".join(lines) + _HEAD + _BODY + f"        out = g{depth - 1}(x)\n"


def _deep(draw: random.Random) -> str:
    opened, depth = draw.choice(["()", "[]"]), draw.choice([40, 63, 100, 5000])
    inner = opened[0] * depth + "x" + opened[1] * depth
    form = draw.choice(["{}", "-" * depth + "x", "not " * depth + "x", "x" + " ** x" * depth])
    return _HEAD + _BODY + f"        out = {form.format(inner)}\n"


_PROGRAMS: tuple[Callable[[random.Random], str], ...] = (
    _constant,
    _loops,
    _wide,
    _functions,
    _deep,
)


def _hard_program(eve: Caller, draw: random.Random) -> None:
    program = draw.choice(_PROGRAMS)(draw)
    body = {"inputs": {"program": program, "dataset": "x.zarr"}}
    process = draw.choice(["stencil/check", "stencil/execution", "plan/check"])
    if process == "plan/check":
        body = {"inputs": {"process": "stencil", "inputs": body["inputs"]}}
    eve("POST", f"/processes/{process}", body, seconds=draw.choice([1, 5, 40]))


def _hard_expression(eve: Caller, draw: random.Random) -> None:
    depth = draw.choice([10, 60, 500])
    text = "d(" * depth + "t" + ")" * depth if draw.random() < 0.5 else "t" + " + t" * depth * 40
    body = {"inputs": {"expression": text, "dataset": "x.zarr"}}
    eve("POST", "/processes/column/check", body, seconds=20)


def _odd_json(eve: Caller, draw: random.Random) -> None:
    depth = draw.choice([65, 900, 100_000])
    inner = draw.choice([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
    inner = draw.choice([inner, b"9" * draw.choice([301, 5000, 200_000]), b'"' + b"\\u0000" * 9])
    name = draw.choice([b"inputs", b"outputs", b"x"])
    path = draw.choice(["/processes/plan/check", "/processes/echo/execution", "/uploads"])
    eve("POST", path, b'{"%s": {"a": %s}}' % (name, inner))


def _odd_header(eve: Caller, draw: random.Random) -> None:
    number = draw.choice(["9" * 5000, "²", "-1", "1e9", "0x10", "٣".encode().decode("latin-1")])
    name = draw.choice(["Last-Event-ID", "Range", "If-None-Match", "If-Modified-Since", "Prefer"])
    eve("GET", draw.choice(["/jobs", f"/jobs/{_ID}/events", "/datasets"]), headers={name: number})


_ID = "00000000-0000-7000-8000-000000000001"


def _odd_query(eve: Caller, draw: random.Random) -> None:
    value = draw.choice(["9" * 5000, "%00", "-1", "1e400", "%F0%9F", "[" * 500, "0001-01-01"])
    name = draw.choice(
        ["limit", "offset", "before", "datetime", "minDuration", "job_name", "label"]
    )
    eve("GET", f"/jobs?{name}={value}", seconds=10)


def _opened(eve: Caller) -> str:
    """Open an upload; give its identifier, or one of none where no more are allowed."""
    status, made = eve("POST", "/uploads", {})
    return str(made["id"]) if status == 201 else _ID


def _odd_keys(eve: Caller, draw: random.Random) -> None:
    upload = _opened(eve)
    keys = ["/".join(["a"] * draw.choice([30, 40, 41, 512])), "zarr.json.part/x", ".zmetadata/x"]
    keys += ["zarr.json/x", ".zgroup", "zarr.json", "t/zarr.json", f"{draw.randint(0, 9)}/c/0"]
    for key in draw.sample(keys, 4):
        content = draw.choice([b"1", b"{}", b'{"zarr_format": 3, "node_type": "group"}'])
        content = draw.choice([content, b"[" * 100_000, b"\xff" * 2**20])
        eve("PUT", f"/uploads/{upload}.zarr/{key}", content)
    eve("POST", f"/uploads/{upload}/complete")
    if draw.random() < 0.7:
        eve("DELETE", f"/uploads/{upload}")


def _silent(eve: Caller, draw: random.Random) -> None:
    upload = _opened(eve)
    head = (
        f"PUT /uploads/{upload}.zarr/c{draw.randint(0, 99)} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {eve.key}\r\nContent-Length: {512 * 2**20}\r\n\r\nx"
    )
    with suppress(OSError), socket.create_connection(("127.0.0.1", eve.port), 5) as peer:
        peer.sendall(head.encode())
        time.sleep(draw.uniform(0, 8))


def _store(shape: tuple[int, int], chunk: tuple[int, int]) -> dict[str, bytes]:
    """Return the metadata of a store with the variable `t(y, x)`, by key."""
    array = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 1.5,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
        "dimension_names": ["y", "x"],
    }
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    return {"zarr.json": json.dumps(group).encode(), "t/zarr.json": json.dumps(array).encode()}


def _uploaded(caller: Caller, files: dict[str, bytes]) -> str:
    upload = _opened(caller)
    for key, content in files.items():
        caller("PUT", f"/uploads/{upload}.zarr/{key}", content)
    caller("POST", f"/uploads/{upload}/complete")
    return f"upload:{upload}"


def _submit_double(caller: Caller, dataset: str) -> tuple[int, Any]:
    inputs = {"program": f"{_HEAD}{_BODY}        out = x + x\n", "dataset": dataset}
    headers = {"Prefer": "respond-async"}
    return caller("POST", "/processes/stencil/execution", {"inputs": inputs}, headers=headers)


def _many_chunks(eve: Caller, draw: random.Random) -> None:
    count = 10 ** draw.randint(4, 7)
    status, made = _submit_double(eve, _uploaded(eve, _store((count, 8), (1, 8))))
    time.sleep(draw.uniform(0, 8))
    if status == 201:
        eve("DELETE", f"/jobs/{made['jobID']}")


def _large_metadata(eve: Caller, draw: random.Random) -> None:
    inner = draw.choice([b" " * 2**26, b'"' + b"x" * 2**25 + b'"', b"[" + b"1," * 2**22 + b"1]"])
    _uploaded(eve, {"zarr.json": b'{"zarr_format": 3, "attributes": {"a": ' + inner + b"}}"})


def _many_jobs(eve: Caller, draw: random.Random) -> None:
    body = {"inputs": {"string": "x" * draw.choice([1, 10_000]), "pause": draw.randint(0, 20)}}
    eve(
        "POST",
        "/processes/echo/execution",
        body,
        headers={"Prefer": draw.choice(["respond-async", "wait"])},
    )


_ATTACKS: tuple[Callable[[Caller, random.Random], None], ...] = (
    *(_hard_program,) * 4,
    _hard_expression,
    _odd_json,
    _odd_header,
    _odd_query,
    _odd_keys,
    _silent,
    _many_chunks,
    _large_metadata,
    _many_jobs,
)


@contextmanager
def _started() -> Generator[tuple[int, dict[str, str]]]:
    """Start an installation; give its port and keys."""
    with tempfile.TemporaryDirectory() as folder:
        data = ["--data-dir", f"{folder}/data"]
        environment = {**os.environ, "HALOCLINE_AUTH": "keys"}
        command = [*_SERVER, "up", "--port", "0", "--workers", "1", "--gpus", "0", *data]
        up = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert up.stdout is not None
        try:
            line = up.stdout.readline()
            if "Halocline is at" not in line:
                raise SystemExit("halocline-server up did not start.")
            port = int(line.split(";")[0].rsplit(":", 1)[1])
            create = [*_SERVER, "key", "create", *data, "--owner"]
            keys = {
                owner: subprocess.check_output([*create, owner], env=environment, text=True).strip()
                for owner in ("eve", "ann")
            }
            yield port, keys
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(60)
            up.stdout.close()


def _job_seconds(ann: Caller, dataset: str) -> float:
    """Return the seconds that a small stencil job takes, infinite if it did not succeed."""
    began = time.monotonic()
    status, made = _submit_double(ann, dataset)
    while status == 201 and time.monotonic() - began < 120:
        found, told = ann("GET", f"/jobs/{made['jobID']}")
        if found == 200 and told["status"] == "successful":
            ann("GET", "/livez")
            return time.monotonic() - began
        time.sleep(0.1)
    return float("inf")


def main() -> int:
    """Attack, print the figures, and return the status."""
    parser = argparse.ArgumentParser(description="Attack an installation by one key's requests.")
    parser.add_argument("--requests", type=int, default=200, help="attacks that are drawn")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with _started() as (port, keys):
        eve, ann = Caller(port, keys["eve"]), Caller(port, keys["ann"])
        dataset = _uploaded(ann, _store((8, 8), (8, 8)))
        _job_seconds(ann, dataset)  # compiles
        quiet = max(_job_seconds(ann, dataset) for _ in range(3))
        draw = random.Random(asked.seed)
        attacks = [(draw.choice(_ATTACKS), draw.randint(0, 2**32)) for _ in range(asked.requests)]
        lock = threading.Lock()

        def attack() -> None:
            while True:
                with lock:
                    if not attacks:
                        return
                    kind, seed = attacks.pop()
                kind(eve, random.Random(seed))

        threads = [threading.Thread(target=attack, daemon=True) for _ in range(8)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        waits: list[float] = []
        while any(thread.is_alive() for thread in threads):
            waits.append(_job_seconds(ann, dataset))
            time.sleep(0.5)
        seconds = time.monotonic() - began
    waits.sort()
    bad = [status for status in eve.statuses if status in _NEVER]
    bad += [status for status in ann.statuses if status in _NOT_FOR_OTHERS]
    held = bool(waits) and waits[-1] <= quiet + _LATE and not bad
    print(f"{asked.requests} attacks of one key in {seconds:.0f} s: {dict(eve.statuses)}")
    print(f"{len(waits)} small jobs of another key: {dict(ann.statuses)}")
    middle = waits[len(waits) // 2] if waits else float("nan")
    print(f"quiet {quiet:.1f} s; attacked: median {middle:.1f} s, longest {waits[-1]:.1f} s")
    print("held" if held else f"BAD: {bad or 'a job was late'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
