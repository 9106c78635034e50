"""Known faults of NVIDIA's compiler, recognised in the PTX of a translation unit.

Up to CUDA 13.3, ptxas joins two minimums or maximums of integers of up to 32 bits into one
instruction of three operands, and may drop the negation of an operand: ``max(max(~x, -n), m)`` is
computed as ``max(max(~x, n), m)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

__all__ = ["FIRST_RIGHT", "loses_negations"]

#: The first version of CUDA without the fault.
FIRST_RIGHT = (13, 4)

_EXTREME = re.compile(r"(?:min|max)\.[su](?:16|16x2|32)")
_NEGATION = re.compile(r"(?:neg|not)\.[sb](?:16|16x2|32)")
#: Instructions that negate if one operand is 0 or -1.
_MAY_NEGATE = {
    re.compile(r"sub\.s(?:16|32)"): ("0", "-1"),
    re.compile(r"xor\.b(?:16|32)|mul\.lo\.s(?:16|32)"): ("-1",),
}
#: Instructions behind which an operand is followed; those that change its width are among them.
_COPY = re.compile(r"(?:mov|cvt)\..*")
_INSTRUCTION = re.compile(
    r"^\s*(?:@!?%\w+\s+)?([\w.:]+)\s+(%\w+)\s*,\s*([^;{}\[\]]+);", re.MULTILINE
)

#: The opcode and the operands of each definition of a register.
_Definitions = Mapping[str, list[tuple[str, tuple[str, ...]]]]


def loses_negations(ptx: str) -> bool:
    """Return whether a unit nests minimums or maximums, one operand of which is negated.

    True for some units that ptxas translates correctly.
    """
    return any(_nests_negation(_definitions(body)) for body in re.split(r"\.entry |\.func ", ptx))


def _definitions(body: str) -> _Definitions:
    definitions: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for opcode, target, operands in _INSTRUCTION.findall(body):
        given = tuple(operand.strip() for operand in operands.split(","))
        definitions.setdefault(target, []).append((opcode, given))
    return definitions


def _nests_negation(definitions: _Definitions) -> bool:
    for several in definitions.values():
        for opcode, operands in several:
            if _EXTREME.fullmatch(opcode):
                inner = [
                    given
                    for operand in operands
                    for inside, given in _sources(operand, definitions)
                    if inside == opcode
                ]
                if inner and any(
                    _is_negated(leaf, definitions) for leaf in (*operands, *sum(inner, ()))
                ):
                    return True
    return False


def _sources(register: str, definitions: _Definitions) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the definitions of a register, through copies."""
    pending, seen = [register], {register}
    while pending:
        for opcode, operands in definitions.get(pending.pop(), ()):
            if _COPY.fullmatch(opcode):
                pending += [one for one in operands if one not in seen]
                seen.update(operands)
            else:
                yield opcode, operands


def _is_negated(register: str, definitions: _Definitions) -> bool:
    for opcode, operands in _sources(register, definitions):
        if _NEGATION.fullmatch(opcode):
            return True
        for pattern, values in _MAY_NEGATE.items():
            if pattern.fullmatch(opcode) and not set(values).isdisjoint(operands):
                return True
    return False
