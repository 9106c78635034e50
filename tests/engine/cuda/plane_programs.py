"""Programs that read far along all axes."""

from __future__ import annotations

from itertools import product

__all__ = ["BOX", "PROGRAMS", "program", "star"]


def program(value: str, interval: str = "...") -> str:
    return (
        "def planes(u: Field[float64], v: Field[float64], w: float64):\n"
        f"    with computation(PARALLEL), interval({interval}):\n        v = {value}\n"
    )


def star(radius: int) -> str:
    offsets = (
        ",".join(str(sign * n if axis == along else 0) for axis in range(3))
        for n in range(1, radius + 1)
        for along in range(3)
        for sign in (-1, 1)
    )
    return " + ".join(("u", *(f"u[{offset}]" for offset in offsets)))


BOX = " + ".join(f"u[{i},{j},{k}]" for k, j, i in product((-1, 0, 1), repeat=3))
PROGRAMS = {
    "seven": program(f"w * ({star(1)})"),
    "star": program(f"w * ({star(4)})"),
    "box": program(f"w * ({BOX})"),
    "aside": program("u[3,-2,-1] - w * u[4,1,2] + u[5,0,0]"),
    "inside": program("u[-1,0,0] - w * u[0,2,0] + v", "2, -1"),
    "ends": (
        "def planes(u: Field[float64], v: Field[float64], w: float64):\n"
        "    with computation(PARALLEL):\n"
        "        with interval(0, 1):\n            v = w * u[0,0,1] - u[1,0,0]\n"
        "        with interval(1, -1):\n            v = u[0,0,1] - w * u[0,0,-1] + u[0,1,0]\n"
        "        with interval(-1, None):\n            v = u[-1,0,0] - w * u[0,0,-1]\n"
    ),
    "some": (
        "def planes(u: Field[float64], v: Field[float64], w: float64):\n"
        "    with computation(PARALLEL), interval(...):\n"
        "        if u[4,0,0] > w:\n            v = u[0,-3,0] + u[-2,0,1]\n"
    ),
    "two": (
        "def planes(u: Field[float64], v: Field[float64], w: float64):\n"
        "    with computation(PARALLEL), interval(...):\n"
        "        t = u[-1,0,0] * u[0,1,1] + w\n"
        "    with computation(FORWARD), interval(...):\n        s = t\n"
        "    with computation(PARALLEL), interval(...):\n"
        "        v = s[1,0,0] - s[-2,1,0] * u + t[0,-1,0]\n"
    ),
}
