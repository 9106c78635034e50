"""Tables of solves, indirect access, column operators, blocks and tuning for the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean, median
from typing import Any

import indirect_verdicts
import solves_figures

__all__ = [
    "blocks_table",
    "columns_table",
    "corpus_table",
    "indirect_table",
    "solves_table",
    "table",
    "tuning_table",
]

Record = Mapping[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def solves_table(record: Record) -> str:
    """Return what each batch of systems reached, what it must, and the best peer."""
    rows: list[tuple[str, ...]] = []
    for part, case, own in _cases(record):
        ours = [f for f in own if f["how"].startswith((solves_figures.USUAL, "times"))]
        peers = [f for f in own if f["how"].startswith(solves_figures.PEER)]
        if ours:
            best = max(ours, key=lambda f: f["share"])
            unit = " times" if best["how"].startswith(solves_figures.TIMES) else ""
            must = f"{solves_figures.required(part, case):.2f}{unit}"
            share = f"{best['share']:.3f}{unit}"
            rows.append(
                (part, case, f"{best['milliseconds']:.3f}", share, must, _best(peers, best))
            )
    return _with_origin(record, table(("layout", "batch", "ms", "share", "must", "peer"), rows))


def indirect_table(record: Record) -> str:
    """Return what each access reached, what it must, and the best peer."""
    rows: list[tuple[str, ...]] = []
    for part, case, own in _cases(record):
        usual = [f for f in own if f["how"].startswith(indirect_verdicts.USUAL)]
        peers = [f for f in own if f["how"].startswith((*indirect_verdicts.PEERS, "SciPy"))]
        for f in usual[:1]:
            must = indirect_verdicts.required(part, case)
            asked = f"{must:.2f}" if must else "-"
            share = f"{f['share']:.3f}"
            rows.append((part, case, f"{f['milliseconds']:.3f}", share, asked, _best(peers, f)))
    return _with_origin(record, table(("access", "elements", "ms", "share", "must", "peer"), rows))


def corpus_table(record: Record) -> str:
    """Return what programs reached of the attainable, and each that is below 0.6, worst first."""
    orders = {"KJI": "I fastest", "IJK": "K fastest"}
    kinds = [(layout, dtype) for layout in orders for dtype in ("float64", "float32")]
    shares: dict[str, dict[tuple[str, str], float]] = {}
    for f in record["figures"]:
        shares.setdefault(f["name"], {})[f["layout"], f["dtype"]] = f["attainable"]
    rows: list[tuple[str, ...]] = []
    for kind in kinds:
        some = [found[kind] for found in shares.values() if kind in found]
        low, high = (sum(one < bound for one in some) for bound in (0.6, 0.85))
        of_all = (f"{median(some):.2f}", f"{geometric_mean(some):.2f}", str(high), str(low))
        rows.append((f"{orders[kind[0]]}, {kind[1]}", str(len(some)), *of_all))
    head = ("order of axes, type", "programs", "median", "mean", "below 0.85", "below 0.6")
    worst = sorted(shares.items(), key=lambda one: min(one[1].values()))
    slow = [
        (f"`{name}`", *(f"{found[kind]:.2f}" if kind in found else "-" for kind in kinds))
        for name, found in worst
        if min(found.values()) < 0.6
    ]
    names = ("program", *(f"{orders[layout]}, {dtype}" for layout, dtype in kinds))
    copied = f"copies {record['copy'] / 1e3:.2f} TB/s"
    origin = f"{record['device']} ({copied}); {record['date']}; commit `{record['commit']}`."
    return "\n\n".join((origin, table(head, rows), table(names, slow)))


def blocks_table(record: Record) -> str:
    """Return the shares of blocks in row order and in strips, and of steps that turn."""
    rows: list[tuple[str, ...]] = []
    for f in record["figures"]:
        shares = {int(number): share for number, share in f["strips"].items()}
        best = max(shares, key=lambda number: shares[number])
        chosen = "-" if f["chosen"] is None else str(f["chosen"])
        share = shares[best if f["chosen"] is None else f["chosen"]]
        place = (f["case"], f["dtype"], " x ".join(map(str, f["domain"])), f["tile"])
        gain = f"{share / shares[1]:.2f}"
        rows.append((*place, f"{shares[1]:.3f}", f"{shares[best]:.3f} ({best})", chosen, gain))
    head = ("work", "type", "size", "tile", "rows", "best (strips)", "chosen", "gain")
    turns = [
        (
            f["case"],
            f["dtype"],
            " x ".join(map(str, f["domain"])),
            f"{f['forward']:.3f}",
            f"{f['turning']:.3f}",
        )
        for f in record["steps"]
    ]
    steps = table(("steps of", "type", "size", "one way", "turning"), turns)
    return f"{_with_origin(record, table(head, rows))}\n\n{steps}"


def columns_table(record: Record) -> str:
    """Return the share of each variant by levels and type, a table for each layout."""
    shares: dict[str, dict[tuple[int, str], dict[str, float]]] = {}
    for f in record["lines"]:
        of_layout = shares.setdefault(f["layout"], {})
        of_layout.setdefault((f["levels"], f["dtype"]), {})[f["variant"]] = f["share"]
    tables = [f"`{record['text']}`"]
    for layout, found in shares.items():
        names = list(dict.fromkeys(name for one in found.values() for name in one))
        rows = [
            (layout, *map(str, key), *(f"{one[n]:.3f}" if n in one else "-" for n in names))
            for key, one in found.items()
        ]
        tables.append(table(("along", "levels", "type", *names), rows))
    return _with_origin(record, "\n\n".join(tables))


def tuning_table(record: Record) -> str:
    """Return how much faster tuning made each program, and how long it took."""
    rows = [
        (
            f["case"],
            f["dtype"],
            " x ".join(map(str, f["domain"])),
            f"{f['default']:.3f}",
            f"{f['gain']:.3f}",
            f"{f['wall']:.1f}",
        )
        for f in record["figures"]
    ]
    head = ("work", "type", "size", "ms as the model says", "gain", "seconds of tuning")
    return _with_origin(record, table(head, rows))


def _cases(record: Record) -> Iterable[tuple[str, str, list[Record]]]:
    found: dict[tuple[str, str], list[Record]] = {}
    for f in record["figures"]:
        found.setdefault((f["part"], f["case"]), []).append(f)
    for (part, case), own in found.items():
        yield part, case, own


def _best(peers: Sequence[Record], own: Record) -> str:
    """Return the share of the best peer, or how much longer one without a share takes."""
    if not peers:
        return "-"
    best = max(peers, key=lambda f: f["share"])
    name = best["how"].removeprefix("peer ")
    if not best["share"]:
        return f"{name}, {best['milliseconds'] / own['milliseconds']:.0f} times as long"
    return f"{best['share']:.3f} {name}"


def _with_origin(record: Record, text: str) -> str:
    """Return a text behind what it is from, and what its file says of that."""
    name = record["device"]["name"]
    origin = " ".join(
        (f"{name}; {record['date'][:10]}; {_commit(record)}.", *record.get("notes", ()))
    )
    return f"{origin}\n\n{text}"


def _commit(record: Record) -> str:
    commit = str(record["commit"])
    return commit if " " in commit else f"commit `{commit}`"
