"""Instructions for programmatic dependent launch."""

from __future__ import annotations

__all__ = ["ANNOUNCE", "WAIT"]

#: What a kernel begins with that may be launched before the one in front of it is complete.
WAIT = (
    "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900",
    '  asm volatile("griddepcontrol.wait;" ::: "memory");',
    "#endif",
)

#: What a kernel begins with during which the one behind it may be brought to the processors. That
#: waits by itself: what is short leaves it room, what is long had better keep it.
ANNOUNCE = (
    WAIT[0],
    '  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");',
    WAIT[2],
)
