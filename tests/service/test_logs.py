"""What processes log: one JSON object a line, no values of variables, uvicorn in the same form."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from deadlines import until

from halocline_service.machine import free_port

_TELL = """
import logging, sys, threading, warnings
import structlog
from halocline_service import logs
logs.configure("tester", form=sys.argv[1])

def fail():
    key = "hc_SECRET"
    data = {"password": "SECRET"}
    raise ValueError("It is wrong.")

log = structlog.get_logger()
try:
    fail()
except ValueError:
    log.exception("it failed", job_id="j")
    logging.getLogger("library").exception("a library\\nfailed")
warnings.warn("old", stacklevel=1)
thread = threading.Thread(target=fail, name="job-1")
thread.start(); thread.join()
thread = threading.Thread(target=lambda: log.info("from a thread"))
thread.start(); thread.join()
fail()
"""

_FAULTY = """
import sys
from halocline_service import commands
from halocline_service.store.sql.jobs import SqlJobs

def fail(self, query):
    key = "hc_SECRET"
    raise ValueError("It is wrong.")

SqlJobs.list = fail
commands.app(["api"])
"""


def told(form: str) -> str:
    command = [sys.executable, "-c", _TELL, form]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


@pytest.mark.parametrize("form", ["json", "auto"])
def test_every_line_is_json_without_values_of_variables(form: str) -> None:
    text = told(form)
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    assert [line["event"].partition(": ")[0] for line in lines] == [
        "it failed",
        "a library\nfailed",
        "<string>:18",
        "unhandled error",
        "from a thread",
        "unhandled error",
    ]
    assert {line["process"] for line in lines} == {"tester"}
    assert all(line["timestamp"].endswith("Z") and line["level"] for line in lines)
    for line in (lines[0], lines[1], lines[3], lines[5]):
        (error,) = line["exception"]
        assert (error["exc_type"], error["exc_value"]) == ("ValueError", "It is wrong.")
        assert error["frames"][-1]["name"] == "fail"
    assert lines[0]["job_id"] == "j"
    assert lines[3]["thread"] == "job-1"
    assert "SECRET" not in text
    assert "locals" not in text


def test_text_is_for_people_and_tells_no_values_either() -> None:
    text = told("text")
    assert "it failed" in text
    assert "in fail\n" in text
    assert text.count("ValueError: It is wrong.") == 4
    assert "SECRET" not in text.replace('key = "hc_SECRET"', "").replace('"SECRET"', "")
    assert not text.startswith("{")


def test_the_api_logs_requests_and_faults_as_json(tmp_path: Path) -> None:
    port = free_port("127.0.0.1")
    environment = {
        "HALOCLINE_DATA_DIR": str(tmp_path),
        "HALOCLINE_PORT": str(port),
        "HALOCLINE_ACCESS_LOG": "true",
    }
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", _FAULTY], env=os.environ | environment, stderr=file
        )
    try:
        until(lambda: _is_alive(port))
        with pytest.raises(urllib.error.HTTPError, match="500"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/jobs?limit=3")
    finally:
        process.terminate()
        process.wait(20)
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    (asked,) = [line for line in lines if line.get("path") == "/jobs?limit=3"]
    assert (asked["event"], asked["method"], asked["status"]) == ("request", "GET", 500)
    assert re.fullmatch(r"127\.0\.0\.1:\d+", asked["client"])
    (fault,) = [line for line in lines if "exception" in line]
    assert fault["exception"][0]["exc_value"] == "It is wrong."
    assert "SECRET" not in log.read_text()


def _is_alive(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=2).close()
    except OSError:
        return False
    return True
