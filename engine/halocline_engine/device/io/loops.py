"""Copies between a device and files or arrays of the host, in loops that need no interpreter.

Values go through small page-locked buffers, which stay in the caches of the core that copies: so a
byte of a file is read from memory once and sent from a cache. While the device takes or fills one
buffer of a ring, the core fills or empties the next.

A copy is described by `FIELDS` numbers: see `Field`. What a loop returns is 0, or `SHORT` where a
file is not there or ends before the values do, or an error of the driver, or, less than that, one
of the system: `SHORT` less its number.
"""

from __future__ import annotations

import errno
import os
from enum import IntEnum
from typing import Any

from halocline_engine.device.launch.calls import CALLS, call_int, call_word, compiled, peek_int

__all__ = ["FIELDS", "NUMBERS", "SHORT", "Field", "do_copy", "wait_event"]


class Field(IntEnum):
    """The numbers of a copy of rows: they begin `PITCH` bytes apart here, `FAR` on the device.

    `PATH` is the address of a file's name, or 0: then `START` is an address and no offset. A file
    that is written has `SIZE` bytes. `AFTER` is an event that is waited for, or 0. `STATUS` and
    `LEFT` are addresses: for what came of it, and of how many copies of its kind are to be made.
    When there are none any more, `THEN` is recorded, if it is not 0.
    """

    OUT = 0
    PATH = 1
    SIZE = 2
    START = 3
    PITCH = 4
    ROWS = 5
    WIDTH = 6
    DEVICE = 7
    FAR = 8
    STREAM = 9
    AFTER = 10
    THEN = 11
    STATUS = 12
    LEFT = 13


#: How many numbers a copy has, and a `CUDA_MEMCPY2D`.
FIELDS, NUMBERS = 14, 16
SHORT = -1

#: In that: kind, address and pitch, where it is copied from and to.
_FROM, _TO = (2, 3, 4, 6), (9, 10, 11, 13)
_HOST, _DEVICE = 1, 2
_READ, _WRITE = os.O_RDONLY | os.O_CLOEXEC, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_MODE = 0o666
_INTERRUPTED, _ABSENT = errno.EINTR, errno.ENOENT

_COPY, _RECORD, _AWAIT, _PREAD, _PWRITE, _MEMCPY, _ERRNO, _OPEN, _CLOSE, _TRUNCATE = range(10)
assert CALLS[_TRUNCATE] == "ftruncate"

# Numba takes numbers of modules, but no members of enumerations.
_OUT, _PATH, _SIZE, _START, _PITCH, _ROWS, _WIDTH, _PLACE, _FAR, _STREAM, _AFTER = (
    int(one) for one in list(Field)[:11]
)


@compiled
def wait_event(calls: Any, event: Any) -> Any:
    """Wait for an event of the device."""
    return call_int(calls[_AWAIT], event, 0, 0, 0)


@compiled
def _failure(calls: Any) -> Any:
    """Return the system's number for what went wrong."""
    return peek_int(call_word(calls[_ERRNO], 0, 0, 0, 0))


@compiled
def _bytes(calls: Any, file: Any, host: Any, buffer: Any, size: Any, out: Any) -> Any:
    """Copy bytes between a buffer and a file, or memory, to the buffer unless `out`."""
    if file < 0:
        if out:
            call_word(calls[_MEMCPY], host, buffer, size, 0)
        else:
            call_word(calls[_MEMCPY], buffer, host, size, 0)
        return 0
    done = 0
    while done < size:
        if out:
            count = call_word(calls[_PWRITE], file, buffer + done, size - done, host + done)
        else:
            count = call_word(calls[_PREAD], file, buffer + done, size - done, host + done)
        if count > 0:
            done += count
        elif count == 0:
            return SHORT
        else:
            number = _failure(calls)
            if number != _INTERRUPTED:
                return SHORT - number
    return 0


@compiled
def _rows(
    calls: Any, file: Any, host: Any, pitch: Any, rows: Any, width: Any, buffer: Any, out: Any
) -> Any:
    """Copy rows between a buffer, where they lie densely, and the host."""
    if pitch == width or rows == 1:
        return _bytes(calls, file, host, buffer, rows * width, out)
    for row in range(rows):
        state = _bytes(calls, file, host + row * pitch, buffer + row * width, width, out)
        if state != 0:
            return state
    return 0


@compiled
def _queue(
    calls: Any,
    copy: Any,
    host: Any,
    device: Any,
    far: Any,
    rows: Any,
    width: Any,
    event: Any,
    stream: Any,
    out: Any,
) -> Any:
    """Queue the copy of rows between a dense buffer and the device, and an event behind it."""
    for side in range(2):
        kind, at_host, at_device, pitch = _TO if side else _FROM
        if (side == 1) == (out != 0):
            copy[kind], copy[at_host], copy[pitch] = _HOST, host, width
        else:
            copy[kind], copy[at_device], copy[pitch] = _DEVICE, device, far
    copy[14], copy[15] = width, rows
    state = call_int(calls[_COPY], copy.ctypes.data, stream, 0, 0)
    return state if state != 0 else call_int(calls[_RECORD], event, stream, 0, 0)


@compiled
def _step(job: Any, size: Any, step: Any) -> Any:
    """Return the rows and bytes of a row with which a step deals: first ones and how many.

    Before them, how many steps there are.
    """
    rows, width = job[_ROWS], job[_WIDTH]
    tall = max(1, size // width)
    across = (width + size - 1) // size
    row, at = step // across * tall, step % across * size
    steps = (rows + tall - 1) // tall * across
    return steps, row, at, min(tall, rows - row), min(size, width - at)


@compiled
def _send(calls: Any, job: Any, file: Any, buffers: Any, events: Any, turn: Any, copy: Any) -> Any:
    steps = _step(job, turn[1], 0)[0]
    for step in range(steps):
        _, row, at, high, wide = _step(job, turn[1], step)
        one = turn[0] % len(buffers)
        turn[0] += 1
        state = wait_event(calls, events[one])
        if state == 0:
            host = job[_START] + row * job[_PITCH] + at
            state = _rows(calls, file, host, job[_PITCH], high, wide, buffers[one], 0)
        if state == 0:
            there, far, stream = job[_PLACE] + row * job[_FAR] + at, job[_FAR], job[_STREAM]
            state = _queue(
                calls, copy, buffers[one], there, far, high, wide, events[one], stream, 0
            )
        if state != 0:
            return state
    return 0


@compiled
def _fetch(calls: Any, job: Any, file: Any, buffers: Any, events: Any, turn: Any, copy: Any) -> Any:
    steps = _step(job, turn[1], 0)[0]
    ahead = len(buffers) - 1
    failed = 0
    for last in range(steps + ahead):
        if last < steps and failed == 0:
            _, row, at, high, wide = _step(job, turn[1], last)
            one = last % len(buffers)
            there, far, stream = job[_PLACE] + row * job[_FAR] + at, job[_FAR], job[_STREAM]
            # What was sent before may still be read from there.
            failed = wait_event(calls, events[one])
            if failed == 0:
                failed = _queue(
                    calls, copy, buffers[one], there, far, high, wide, events[one], stream, 1
                )
        step = last - ahead
        if step < 0:
            continue
        # Where something failed, copies that are under way still use the buffers.
        one = step % len(buffers)
        state = wait_event(calls, events[one])
        failed = failed if failed != 0 else state
        if failed == 0:
            _, row, at, high, wide = _step(job, turn[1], step)
            host = job[_START] + row * job[_PITCH] + at
            failed = _rows(calls, file, host, job[_PITCH], high, wide, buffers[one], 1)
    return failed


@compiled
def do_copy(calls: Any, job: Any, buffers: Any, events: Any, turn: Any, copy: Any) -> Any:
    """Do a copy through a ring of buffers; return what came of it.

    What is sent has been read then, and its copy is queued; what is fetched is where it belongs.
    `turn` counts the buffers that were used to send, and says their size; `copy` is for what the
    driver is told.
    """
    state = wait_event(calls, job[_AFTER]) if job[_AFTER] != 0 else 0
    if state != 0:
        return state
    out, file = job[_OUT] != 0, -1
    if job[_PATH] != 0:
        file = call_int(calls[_OPEN], job[_PATH], _WRITE if out else _READ, _MODE, 0)
        if file < 0:
            number = _failure(calls)
            return SHORT if number == _ABSENT and not out else SHORT - number
    if out:
        if file >= 0 and call_int(calls[_TRUNCATE], file, job[_SIZE], 0, 0) != 0:
            state = SHORT - _failure(calls)
        if state == 0:
            state = _fetch(calls, job, file, buffers, events, turn, copy)
    else:
        state = _send(calls, job, file, buffers, events, turn, copy)
    if file >= 0 and call_int(calls[_CLOSE], file, 0, 0, 0) != 0 and out and state == 0:
        state = SHORT - _failure(calls)
    return state
