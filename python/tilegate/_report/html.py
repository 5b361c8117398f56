# SPDX-License-Identifier: Apache-2.0
"""The page: per file where it was measured, then an op and scope at a time a table and plots."""

from __future__ import annotations

import html
import pathlib

from . import plots
from .results import Results, Row, differs

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d1d1f; margin: 2rem auto; max-width: 76rem;
       padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; margin: 0.6rem 0 1rem; font-variant-numeric: tabular-nums;
        display: block; overflow-x: auto; }
th, td { padding: 0.2rem 0.7rem; text-align: right; white-space: nowrap;
         border-bottom: 1px solid #e3e3e6; }
th { color: #555; font-weight: 600; } th:first-child, td:first-child, td.text, th.text
{ text-align: left; }
td.good { color: #17743a; font-weight: 600; } td.bad { color: #b3261e; font-weight: 600; }
tr.first td { border-top: 2px solid #c9c9ce; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1rem; margin: 0.5rem 0; }
dt { color: #555; } dd { margin: 0; overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; } p.note { color: #555; max-width: 60rem; }
"""

_NOTE = (
    "Times are medians a call, with the 20th and 80th percentile, over the samples of both passes"
    " where a row ran twice; the difference between the passes is beside them. Ratio is our time"
    " over the best peer's of the same row and run: below 1 is faster. A peer with a note in"
    " brackets does other work and is in no ratio. A goal is a ratio to the best peer; rows without"
    " a peer are held against the goal's own time."
)


def page(files: list[Results]) -> str:
    body = "".join(_file(results) for results in files)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>tilegate benchmarks</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>tilegate benchmarks</h1>\n<p class="note">{_NOTE}</p>\n{body}</body>\n</html>\n'
    )


def _escape(value) -> str:
    return html.escape(str(value))


def _file(results: Results) -> str:
    parts = [f"<h2>{_escape(pathlib.Path(results.path).name)}</h2>\n", _facts(results)]
    for op in results.ops():
        for scope in results.scopes():
            rows = [row for row in results.rows if row.op == op and row.scope == scope]
            if rows:
                parts.append(_section(op, scope, rows))
    parts.append(_declined(results))
    return "".join(parts)


def _facts(results: Results) -> str:
    document = results.document
    facts = {key: value for key, value in document["environment"].items() if key != "backends"}
    for name, detail in document["environment"].get("backends", {}).items():
        facts[f"backend {name}"] = detail
    for peer in document["peers"]:
        versions = ", ".join(f"{k} {v}" for k, v in peer.get("versions", {}).items())
        facts[f"peer {peer['name']}"] = versions or f"off: {peer.get('reason')}"
    for key, value in document.get("ceilings", {}).items():
        facts[f"ceiling {key}"] = f"{value:.4g}" if isinstance(value, float) else value
    facts["timing"] = document["timing_scope"]
    facts["samples"] = results.samples()
    if not document.get("complete", True):
        facts["complete"] = "no: the run was interrupted; these are its finished rows"
    items = "".join(
        f"<dt>{_escape(key)}</dt><dd>{_escape(value)}</dd>"
        for key, value in facts.items()
        if value not in (None, "")
    )
    return f"<dl>{items}</dl>\n"


def _section(op: str, scope: tuple[str, str], rows: list[Row]) -> str:
    heads = ["shape", "backend", "kernel", "ms", "p20 - p80", "passes", "GB/s", "TFLOP/s",
             "of ceiling", "ratio", "goal ms", "to goal"]
    text = ("shape", "backend", "kernel")
    cells = "".join(
        f'<th class="text">{head}</th>' if head in text else f"<th>{head}</th>" for head in heads
    )
    body = "".join(_row(row) for row in rows)
    return (
        f"<h3>{_escape(op)}, {_escape(scope[0])}, {_escape(scope[1])}</h3>\n"
        f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>\n"
        f"{plots.peer_plot(rows)}{plots.ceiling_plot(rows)}\n"
    )


def _row(row: Row) -> str:
    entries = [*row.ours(), *sorted(row.peers(), key=lambda entry: entry["median_ms"])]
    lines = []
    for i, entry in enumerate(entries):
        first = ' class="first"' if i == 0 else ""
        name = _escape(row.name) if i == 0 else ""
        lines.append(f"<tr{first}><td>{name}</td>{_cells(row, entry)}</tr>")
    return "".join(lines)


def _ratio(value: float | None, limit: float = 1.0) -> str:
    if value is None:
        return "<td></td>"
    kind = "good" if value <= limit else "bad"
    return f'<td class="{kind}">{value:.3f}</td>'


def _cells(row: Row, entry: dict) -> str:
    ours = not entry["peer"]
    median, peer, goal = entry["median_ms"], row.best_peer(), row.goal_ms()
    drift = row.drift(entry["backend"])
    note = f" ({differs(entry)})" if differs(entry) else ""
    share = entry["ceiling_share"]
    bound = f"{100 * share:.1f} % {_escape(entry['bound_by'])}" if share is not None else ""
    return (
        f'<td class="text">{_escape(entry["backend"] + note)}</td>'
        f'<td class="text">{_escape(entry["kernel"] or "")}</td>'
        f"<td>{median:.4f}</td><td>{entry['p20_ms']:.4f} - {entry['p80_ms']:.4f}</td>"
        f"<td>{f'{100 * drift:.1f} %' if drift is not None else ''}</td>"
        f"<td>{entry['gb_per_s']:.0f}</td><td>{entry['tflop_per_s']:.2f}</td><td>{bound}</td>"
        + _ratio(median / peer["median_ms"] if ours and peer else None)
        + (f"<td>{goal:.4f}</td>" if ours and goal else "<td></td>")
        + _ratio(median / goal if ours and goal else None)
    )


def _declined(results: Results) -> str:
    if not results.document["declined"]:
        return ""
    lines = "".join(
        f'<tr><td>{_escape(one["name"])}</td><td class="text">{_escape(one["backend"])}</td>'
        f'<td class="text">{_escape(one["reason"])}</td></tr>'
        for one in results.document["declined"]
    )
    return (
        '<h3>Not served</h3>\n<table><thead><tr><th>shape</th><th class="text">backend</th>'
        f'<th class="text">reason</th></tr></thead><tbody>{lines}</tbody></table>\n'
    )
