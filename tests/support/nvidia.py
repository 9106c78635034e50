"""Many generated programs through NVIDIA's compiler at once: it starts once for each device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from cubin import Resources, resources
from kept import device_code

__all__ = ["ARCHITECTURES", "Needs", "compiled", "compiled_everywhere", "table"]

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
#: What each kernel needs, by the number of its source and its name.
Needs = dict[tuple[int, str], Resources]
_EXTERN = 'extern "C" '
#: A kernel of a namespace, as compilers write its name.
_NAMED = re.compile(r"_ZN\d+source_(\d+)_\d+(kernel\d+)E")


def compiled(sources: Iterable[str], architecture: str) -> Needs:
    """Compile generated sources for a device, each in a namespace of its own.

    That is why kernels lose their C names; the rest of the text is as it was generated.
    """
    parts = list(sources)
    text = "".join(
        f"namespace source_{number}_ {{\n{part.replace(_EXTERN, '')}\n}}\n"
        for number, part in enumerate(parts)
    )
    found = {_name(name): used for name, used in resources(device_code(text, architecture)).items()}
    assert len(found) == sum(part.count("__global__") for part in parts)
    return found


def compiled_everywhere(sources: Iterable[str]) -> dict[str, Needs]:
    """Compile generated sources for every device that there is code for, by architecture."""
    parts = list(sources)
    with ThreadPoolExecutor(2) as pool:
        every = pool.map(partial(compiled, parts), ARCHITECTURES)
        return dict(zip(ARCHITECTURES, every, strict=True))


def table(needs: dict[str, Needs], names: Sequence[str]) -> str:
    """Return registers of a thread, with "+" and bytes of its stack if it has any.

    There is a line for each kernel, with the name of its source.
    """
    lines = ["".join(f"{architecture:>10}" for architecture in needs)]
    for number, kernel in sorted(next(iter(needs.values()))):
        used = [found[number, kernel] for found in needs.values()]
        texts = (
            f"{one.registers}+{one.stack}" if one.stack else f"{one.registers}" for one in used
        )
        lines.append("".join(f"{text:>10}" for text in texts) + f"  {kernel} of {names[number]}")
    return "\n".join(lines)


def _name(mangled: str) -> tuple[int, str]:
    match = _NAMED.match(mangled)
    assert match is not None, mangled
    return int(match[1]), match[2]
