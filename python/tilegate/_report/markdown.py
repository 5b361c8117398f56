# SPDX-License-Identifier: Apache-2.0
"""Results as Markdown tables, a file, op and scope at a time: rows are shapes and columns are
backends, ours first, then the ratio to the best peer, what `auto` chose and what that choice costs,
and at the end peers whose work differs from the row's.
Needs nothing outside the standard library, so it also runs where a benchmark ran."""

from __future__ import annotations

import pathlib

from .results import Results, Row, differs

_NOTE = (
    "Microseconds a call: medians over the samples of both passes, for ours and peers alike. Ratio:"
    " our best over the best peer of the same row and run that does the same work; goals are ratios"
    " to that peer. Columns with a note in brackets are of other work and in no ratio. auto / best:"
    " `auto` over our best backend that was named."
)


def tables(files: list[Results]) -> str:
    return "\n".join(_file(results) for results in files)


def _file(results: Results) -> str:
    parts = [f"## {pathlib.Path(results.path).stem}\n", *_facts(results), f"\n{_NOTE}\n"]
    for op in results.ops():
        for scope in results.scopes():
            rows = [row for row in results.rows if row.op == op and row.scope == scope]
            if rows:
                parts += [f"\n### {op}, {scope[0]}, {scope[1]}\n", *_table(rows)]
    parts += _declined(results)
    return "\n".join(parts) + "\n"


def _facts(results: Results) -> list[str]:
    document = results.document
    environment = document["environment"]
    keys = ("machine", "gpu", "driver", "runtime", "commit", "date")
    known = [f"{key} {environment[key]}" for key in keys if environment.get(key)]
    lines = [f"- {', '.join(known)}."]
    if environment.get("command"):
        lines.append(f"- Command: `{environment['command']}`.")
    lines.append(f"- {results.samples()}; {document['timing_scope']}.")
    for peer in document["peers"]:
        versions = ", ".join(f"{name} {it}" for name, it in peer.get("versions", {}).items() if it)
        lines.append(f"- Peer {peer['name']}: {versions or 'off: ' + str(peer.get('reason'))}.")
    lines += _ceilings(document.get("ceilings", {}))
    if not document.get("complete", True):
        lines.append("- The run was stopped; these are the rows it finished.")
    return lines


def _ceilings(ceilings: dict) -> list[str]:
    kinds = (("gb_per_s", "GB/s", "memory_from"), ("tflop_per_s", "TFLOP/s", "compute_from"))
    known = [
        f"{ceilings[key]:.1f} {unit} ({ceilings.get(source)})"
        for key, unit, source in kinds
        if ceilings.get(key)
    ]
    return [f"- Ceilings of the same run: {', '.join(known)}."] if known else []


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(entry: dict) -> str:
    note = differs(entry)
    return f"{entry['backend']} ({note})" if note else entry["backend"]


def _columns(entries: list[dict]) -> list[str]:
    """In the order in which the rows name them."""
    return list(dict.fromkeys(_head(entry) for entry in entries))


def _table(rows: list[Row]) -> list[str]:
    ours = _columns([entry for row in rows for entry in row.ours()])
    all_peers = [entry for row in rows for entry in row.peers()]
    peers = _columns([entry for entry in all_peers if not differs(entry)])
    others = _columns([entry for entry in all_peers if differs(entry)])
    heads = ["shape", *ours, *peers]
    if peers:
        heads.append("ratio")
    if any(row.goal_ms() for row in rows):
        heads += ["goal", "to goal"]
    if "auto" in ours:
        heads += ["auto is", "auto / best"]
    heads += others
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return [_line(heads), _line(rule), *(_line(_cells(row, heads)) for row in rows)]


def _cells(row: Row, heads: list[str]) -> list[str]:
    entries = {_head(entry): entry for entry in (*row.peers(), *row.ours())}
    best, peer, goal = _best(row.ours()), row.best_peer(), row.goal_ms()
    extra = {
        "shape": row.name,
        "ratio": _ratio(best, peer),
        "goal": _time(goal),
        "to goal": _ratio(best, {"median_ms": goal} if goal else None),
        "auto is": entries["auto"]["kernel"] or "" if "auto" in entries else "",
        "auto / best": _ratio(entries.get("auto"), _best(row.ours(), without="auto")),
    }
    return [
        extra[head] if head in extra else _time(entries[head]["median_ms"])
        if head in entries else "" for head in heads
    ]


def _best(entries: list[dict], without: str = "") -> dict | None:
    named = [entry for entry in entries if entry["backend"] != without]
    return min(named, key=lambda entry: entry["median_ms"], default=None)


def _time(median_ms: float | None) -> str:
    if median_ms is None:
        return ""
    microseconds = 1e3 * median_ms
    return f"{microseconds:.2f}" if microseconds < 100.0 else f"{microseconds:.1f}"


def _ratio(mine: dict | None, other: dict | None) -> str:
    if mine is None or other is None:
        return ""
    return f"{mine['median_ms'] / other['median_ms']:.3f}"


def _declined(results: Results) -> list[str]:
    """A line a backend and reason, with the number of rows it concerns."""
    counts: dict[tuple[str, str], int] = {}
    for one in results.document["declined"]:
        key = one["backend"], one["reason"]
        counts[key] = counts.get(key, 0) + 1
    if not counts:
        return []
    lines = [f"- {backend}, rows {count}: {reason}" for (backend, reason), count in counts.items()]
    return ["\nNot served:\n", *lines]
