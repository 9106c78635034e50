"""Read what kernels need out of compiled device code, which is an ELF file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

__all__ = ["Resources", "resources"]

_SIZED = 0x04
_FRAME_SIZE, _REGISTERS = 0x11, 0x2F
_FUNCTION = 2


@dataclass(frozen=True)
class Resources:
    """Registers of a thread, and bytes of its stack: 0 where nothing was spilled."""

    registers: int = 0
    stack: int = 0


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    link: int
    data: bytes


def resources(cubin: bytes) -> dict[str, Resources]:
    """Return what each kernel needs, by name."""
    sections = list(_sections(cubin))
    table = next(section for section in sections if section.name == ".symtab")
    names = sections[table.link].data
    symbols = [
        (_text(names, name), info & 15)
        for name, info, *_ in struct.iter_unpack("<IBBHQQ", table.data)
    ]
    kernels = {s.name.removeprefix(".text.") for s in sections if s.name.startswith(".text.")}
    found: dict[str, Resources] = {name: Resources() for name in kernels}
    info = next(section.data for section in sections if section.name == ".nv.info")
    for attribute, symbol, value in _attributes(info):
        name, kind = symbols[symbol]
        if kind == _FUNCTION and name in found:
            if attribute == _REGISTERS:
                found[name] = replace(found[name], registers=value)
            elif attribute == _FRAME_SIZE:
                found[name] = replace(found[name], stack=value)
    return found


def _sections(cubin: bytes) -> Iterator[_Section]:
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, strings = struct.unpack_from("<HHH", cubin, 0x3A)
    heads = [struct.unpack_from("<IIQQQQII", cubin, start + n * size) for n in range(count)]
    offset, length = heads[strings][4:6]
    names = cubin[offset : offset + length]
    for name, kind, _, _, offset, length, link, _ in heads:
        yield _Section(_text(names, name), kind, link, cubin[offset : offset + length])


def _text(table: bytes, start: int) -> str:
    return table[start : table.index(b"\0", start)].decode()


def _attributes(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield attribute, symbol and value of every entry that holds two numbers."""
    at = 0
    while at < len(data):
        form, attribute, length = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            if length == 8:
                symbol, value = struct.unpack_from("<II", data, at)
                yield attribute, symbol, value
            at += length
