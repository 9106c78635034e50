"""Makes ../coast.js from `land-110m.json` of the npm package world-atlas 2.0.2.

Run as `python coast.py path/to/land-110m.json > ../coast.js`.
"""

import json
import sys
from itertools import accumulate
from pathlib import Path

HEAD = """\
// Coastlines of the world: Natural Earth 1:110m land 4.1.0, which is in the public domain, as
// redistributed by the npm package world-atlas 2.0.2. Each line is a longitude and a latitude in
// tenths of a degree, then the steps to the points that follow. Made by make/coast.py.
"""


def lines(document):
    """Yield the arcs of the land as points in tenths of a degree."""
    scale, shift = document["transform"]["scale"], document["transform"]["translate"]
    for arc in document["arcs"]:
        points = zip(*(accumulate(axis) for axis in zip(*arc, strict=True)), strict=True)
        degrees = [(x * scale[0] + shift[0], y * scale[1] + shift[1]) for x, y in points]
        yield [(round(10 * x), round(10 * y)) for x, y in degrees]


def pieces(points):
    """Yield the parts of a line that are no edge of the map."""
    part = []
    for point in points:
        is_edge = bool(part) and (
            (abs(point[0]) >= 1799 and abs(part[-1][0]) >= 1799)
            or (point[1] <= -899 and part[-1][1] <= -899)
        )
        if is_edge:
            yield part
            part = []
        if not part or part[-1] != point:
            part.append(point)
    yield part


def main():
    document = json.loads(Path(sys.argv[1]).read_text())
    kept = [part for line in lines(document) for part in pieces(line) if len(part) > 2]
    flat = []
    for (x, y), *rest in kept:
        line, at = [x, y], (x, y)
        for point in rest:
            line += [point[0] - at[0], point[1] - at[1]]
            at = point
        flat.append(line)
    print(HEAD + "export const COAST = " + json.dumps(flat, separators=(",", ":")) + ";")


main()
