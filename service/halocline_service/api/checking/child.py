"""A process that checks inputs, one request after the other, as the API asks for it.

Requests and outcomes are lines of JSON. The system ends the process where a check takes more
seconds of a processor than are allowed, even within one call of a library written in C.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from math import ceil
from typing import BinaryIO

import structlog

from halocline_service import logs
from halocline_service.api.checking import fitting
from halocline_service.api.checking.described import describe_dataset
from halocline_service.api.checking.inputs import JsonObject, checked
from halocline_service.exports.limits import limit_growth
from halocline_service.lifetime import end_with

__all__ = ["main", "serve"]

_log = structlog.get_logger()


def main() -> None:
    """Serve the API process that started this one: `seconds` and `memory` are arguments."""
    end_with(os.getppid())
    logs.configure("check", form="auto")
    asked, told = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what prints does no harm
    _warm()
    limit_growth(int(sys.argv[2]))
    told.write(b"{}\n")  # ready
    told.flush()
    serve(asked, told, float(sys.argv[1]))


def serve(asked: BinaryIO, told: BinaryIO, seconds: float) -> None:
    """Check until the API ends, each request within some seconds of a processor."""
    for line in asked:
        _limit_time(seconds)
        told.write(json.dumps(_outcome(line)).encode() + b"\n")
        told.flush()


def _outcome(line: bytes) -> JsonObject:
    """Return the outcome of a request; `limit` names one that was met, `fault` is one of ours."""
    try:
        request = json.loads(line)
        if "dataset" in request:
            return describe_dataset(request["dataset"], request["largest_chunk"])
        asked = (request["process"], request["inputs"])
        if "datasets" in request:
            return fitting.fitted(*asked, request["datasets"])
        return checked(*asked, facts=request["facts"])
    except MemoryError:
        return {"limit": "memory"}
    except RecursionError:
        return {"limit": "depth"}
    except Exception:
        _log.exception("check failed")
        return {"fault": True}


def _limit_time(seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = ceil(used.ru_utime + used.ru_stime + seconds)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _warm() -> None:
    """Load what checks need."""
    text = "def f(a: Field[float]):\n    with computation(PARALLEL), interval(...):\n        a = a"
    checked("stencil", {"program": text, "dataset": "-"}, facts=True)
    checked("column", {"expression": "a", "dataset": "-"}, facts=True)
    fitting.warm()


if __name__ == "__main__":
    main()
