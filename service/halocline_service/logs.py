"""Logs of processes on standard error: one JSON object a line, or text on a terminal.

What libraries log by Python's own means (uvicorn, warnings) takes the same form. Errors are
written with their traceback and never with the values of variables, which may be data or secrets.
"""

from __future__ import annotations

import logging
import ssl
import sys
import threading
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Any, Literal, TypeAlias

import structlog
from structlog.tracebacks import ExceptionDictTransformer

__all__ = ["Form", "configure", "dask_setup"]

Form: TypeAlias = Literal["auto", "json", "text"]

#: Loggers of Dask's schedulers and workers with redundant messages.
_DASK = ("distributed.comm.tcp", "distributed.worker")

_Fields: TypeAlias = MutableMapping[str, Any]
_Processor: TypeAlias = Callable[[Any, str, Any], Any]


def configure(process: str, *, form: Form = "auto", access: bool = False) -> None:
    """Set up logging for this process; called once, by the command.

    'auto' is text on a terminal and JSON elsewhere. With `access`, uvicorn's lines about requests
    are written too.
    """
    as_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    begun = _begun(process)
    ended = _json() if as_json else _text()
    structlog.configure(
        processors=[*begun, *ended], logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*begun, _request],
        pass_foreign_args=True,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ended],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("uvicorn.access").setLevel(logging.INFO if access else logging.WARNING)
    logging.captureWarnings(True)
    sys.excepthook = _unhandled
    threading.excepthook = _unhandled_in_thread


def dask_setup(_server: Any) -> None:
    """Filter the logs of a scheduler or a worker; called by Dask, which preloads this module."""
    for name in _DASK:
        logging.getLogger(name).addFilter(_is_informative)


def _is_informative(record: logging.LogRecord) -> bool:
    """Return whether a record of Dask adds to the logs of the service.

    Errors of jobs are logged by the dispatcher. A client of Dask abandons its first attempts to
    connect to a busy scheduler and repeats them, which the scheduler takes for failed handshakes.
    """
    if str(record.msg).startswith("Compute Failed"):
        return False
    reasons = record.args if isinstance(record.args, tuple) else ()
    return not any(isinstance(reason, ssl.SSLEOFError) for reason in reasons)


def _begun(process: str) -> list[_Processor]:
    def named(_logger: Any, _method: str, fields: _Fields) -> _Fields:
        fields.setdefault("process", process)  # not a context variable: threads do not inherit it
        return fields

    return [
        structlog.contextvars.merge_contextvars,
        named,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _json() -> list[_Processor]:
    traceback = ExceptionDictTransformer(show_locals=False)
    return [
        structlog.processors.ExceptionRenderer(traceback),
        structlog.processors.JSONRenderer(),
    ]


def _text() -> list[_Processor]:
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]


def _request(_logger: Any, _method: str, fields: _Fields) -> _Fields:
    """Give the parts of uvicorn's line about a request their names."""
    parts = fields.pop("positional_args", ())
    names = ("client", "method", "path", "http_version", "status")
    if fields["_record"].name == "uvicorn.access" and len(parts) == len(names):
        fields.update(zip(names, parts, strict=True), event="request")
    return fields


def _unhandled(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    structlog.get_logger().critical("unhandled error", exc_info=(kind, error, trace))


def _unhandled_in_thread(arguments: threading.ExceptHookArgs) -> None:
    error = arguments.exc_value
    if error is not None:
        told = (arguments.exc_type, error, arguments.exc_traceback)
        name = arguments.thread.name if arguments.thread else ""
        structlog.get_logger().critical("unhandled error", thread=name, exc_info=told)
