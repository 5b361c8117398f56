# SPDX-License-Identifier: Apache-2.0
"""Result files of `tilegate bench`, and what their entries say together: for every row and scope
our times, the best peer of the same run, and the goal scaled to that peer."""

from __future__ import annotations

import dataclasses
import json
import pathlib


@dataclasses.dataclass
class Row:
    """All entries of one shape in one scope."""

    name: str
    op: str
    scope: tuple[str, str]  # timing, l2
    entries: list[dict] = dataclasses.field(default_factory=list)

    def ours(self) -> list[dict]:
        """One entry a backend: of its two passes the faster one."""
        best: dict[str, dict] = {}
        for entry in self.entries:
            if entry["peer"]:
                continue
            known = best.get(entry["backend"])
            if known is None or entry["median_ms"] < known["median_ms"]:
                best[entry["backend"]] = entry
        return list(best.values())

    def peers(self) -> list[dict]:
        return [entry for entry in self.entries if entry["peer"]]

    def best_peer(self) -> dict | None:
        return min(self.peers(), key=lambda entry: entry["median_ms"], default=None)

    def drift(self, backend: str) -> float | None:
        """How far our two passes around the peers differ, as a share of the faster."""
        medians = [e["median_ms"] for e in self.entries if e["backend"] == backend]
        if len(medians) < 2:
            return None
        return max(medians) / min(medians) - 1.0

    def goal_ms(self) -> float | None:
        """Goals are ratios to the best peer of a row; without a peer in the run, times as set."""
        entry = self.entries[0]
        if entry["goal_ms"] is None:
            return None
        peer = self.best_peer()
        if peer is None or entry["goal_peer_ms"] is None:
            return entry["goal_ms"]
        return entry["goal_ms"] / entry["goal_peer_ms"] * peer["median_ms"]


@dataclasses.dataclass
class Results:
    """One file."""

    path: str
    document: dict
    rows: list[Row]

    def ops(self) -> list[str]:
        return list(dict.fromkeys(row.op for row in self.rows))

    def scopes(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys(row.scope for row in self.rows))


_FILE_KEYS = ("environment", "timing_scope", "warmups", "repeats", "results", "declined", "peers")
_ENTRY_KEYS = ("name", "op", "backend", "peer", "kernel", "timing", "l2", "median_ms", "p20_ms",
               "p80_ms", "tflop_per_s", "gb_per_s", "ceiling_share", "bound_by", "goal_ms",
               "goal_peer_ms")


def _require(path: str, mapping, keys) -> None:
    for key in keys:
        if not isinstance(mapping, dict) or key not in mapping:
            raise ValueError(f"{path} must be a result of tilegate bench, got no {key}")


def read(path: str) -> Results:
    """Raises OSError, or ValueError when the file is no result of tilegate bench."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} must be JSON, got an error: {error}") from None
    _require(path, document, _FILE_KEYS)
    rows: dict[tuple, Row] = {}
    for entry in document["results"]:
        _require(path, entry, _ENTRY_KEYS)
        scope = entry["timing"], entry["l2"]
        op = f"{entry['op']} {entry['rule']}" if "rule" in entry else entry["op"]
        row = rows.setdefault((entry["name"], scope), Row(entry["name"], op, scope))
        row.entries.append(entry)
    return Results(path, document, list(rows.values()))
