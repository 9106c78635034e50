"""Write the tables of docs/columns/*.md and their pictures: how fast the errors of operators fall.

    python tests/benchmarks/column_pages.py [--check] [--fast]

The cases are in tests/support/column_orders.py and are computed by the reference. What stands
between the markers of a page is replaced, and a picture is drawn from the numbers of its table.
With `--check` nothing is written, and the exit status says whether pages and pictures are up to
date; with `--fast` the two coarsest grids are computed, and the other numbers of a table believed.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from column_orders import FAMILIES, LEVELS, Case, errors_of

__all__ = ["main"]

DOCS = Path(__file__).parents[2] / "docs"
START, END = "<!-- measured by tests/benchmarks/column_pages.py -->", "<!-- end -->"
COLOURS = ("#0b6e99", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#be123c")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 400, 60, 20, 250, 40


def table(cases: Sequence[Case], errors: Sequence[Sequence[float]]) -> str:
    """Return a Markdown table with an error for each number of levels, and the last order."""
    head = ["case", "expression", *(f"{n} levels" for n in LEVELS), "order"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for case, found in zip(cases, errors, strict=True):
        order = math.log2(found[-2] / found[-1])
        row = [
            case.label,
            f"`{case.text}`",
            *(f"{error:.2e}" for error in found),
            f"{order:.2f}",
        ]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def known(page: str, cases: Sequence[Case]) -> list[list[float]]:
    """Return the errors in the table of a page."""
    found: list[list[float]] = []
    for case in cases:
        (line,) = re.findall(rf"^\| {re.escape(case.label)} \|.*$", page, re.MULTILINE)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found.append([float(cell) for cell in cells[2 : 2 + len(LEVELS)]])
    return found


def picture(cases: Sequence[Case], errors: Sequence[Sequence[float]]) -> str:
    """Return the errors over the number of levels, both logarithmic, as SVG."""
    values = [error for found in errors for error in found]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    first, last = math.log2(LEVELS[0]), math.log2(LEVELS[-1])

    def x(levels: float) -> float:
        return LEFT + (math.log2(levels) - first) / (last - first) * (right - LEFT)

    def y(error: float) -> float:
        return TOP + (high - math.log10(error)) / (high - low) * (bottom - TOP)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for power in range(low, high + 1):
        at = y(10.0**power)
        lines.append(f'<path d="M{LEFT} {at:.1f}H{right}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">1e{power}</text>')
    for levels in LEVELS:
        at = x(levels)
        lines.append(f'<path d="M{at:.1f} {TOP}V{bottom}" stroke="#eee"/>')
        lines.append(f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{levels}</text>')
    lines.append(f'<text x="{(LEFT + right) / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle">')
    lines[-1] += "levels</text>"
    for number, (case, found) in enumerate(zip(cases, errors, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        points = [(x(n), y(error)) for n, error in zip(LEVELS, found, strict=True)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        at = TOP + 14 + 28 * number
        order = math.log2(found[-2] / found[-1])
        lines.append(
            f'<rect x="{right + 12}" y="{at - 8}" width="10" height="10" fill="{colour}"/>'
        )
        lines.append(f'<text x="{right + 28}" y="{at}">{case.label}</text>')
        lines.append(f'<text x="{right + 28}" y="{at + 12}" fill="#666">order {order:.2f}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def files(*, fast: bool) -> Iterator[tuple[Path, str]]:
    """Yield every page and every picture as it should be."""
    for family, cases in FAMILIES.items():
        path = DOCS / "columns" / f"{family}.md"
        page = path.read_text("utf-8")
        if fast:
            old = known(page, cases)
            new = [errors_of(case, LEVELS[:2]) for case in cases]
            errors = [[*a, *b[2:]] for a, b in zip(new, old, strict=True)]
        else:
            errors = [errors_of(case) for case in cases]
        errors = [[float(f"{error:.2e}") for error in found] for found in errors]
        inside = re.compile(f"{re.escape(START)}.*?{re.escape(END)}", re.DOTALL)
        text = f"{START}\n{table(cases, errors)}\n{END}"
        made, count = inside.subn(lambda _, text=text: text, page)
        if count != 1:
            raise ValueError(f"{path.name} has {count} places for the table, expected 1")
        yield path, made
        yield DOCS / "images" / f"columns-{family}.svg", picture(cases, errors)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Write the pages of column operators.")
    parser.add_argument("--check", action="store_true", help="write nothing, say what is old")
    parser.add_argument("--fast", action="store_true", help="compute the two coarsest grids only")
    options = parser.parse_args(arguments)
    old = 0
    for path, text in files(fast=options.fast):
        if path.exists() and path.read_text("utf-8") == text:
            continue
        old += 1
        if options.check:
            print(f"{path.relative_to(DOCS.parent)} is not what the cases give")
        else:
            path.write_text(text, "utf-8")
    return 1 if old and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
