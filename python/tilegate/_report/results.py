# SPDX-License-Identifier: Apache-2.0
"""Result files of `tilegate bench`, and what their entries say together: for every row and scope
our times, the best peer of the same run, and the goal scaled to that peer. Peers whose work differs
from the row's are shown and compared with nothing."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics


def _merged(passes: list[dict]) -> dict:
    """One entry of a backend's passes, over the samples of all of them."""
    if len(passes) == 1:
        return passes[0]
    samples = sorted(sample for entry in passes for sample in entry["samples_ms"])
    median = statistics.median(samples)
    first = passes[0]
    faster = first["median_ms"] / median
    share = first["ceiling_share"]
    return first | {
        "median_ms": median,
        "p20_ms": samples[round(0.2 * (len(samples) - 1))],
        "p80_ms": samples[round(0.8 * (len(samples) - 1))],
        "tflop_per_s": first["tflop_per_s"] * faster,
        "gb_per_s": first["gb_per_s"] * faster,
        "ceiling_share": share and share * faster,
    }


@dataclasses.dataclass
class Row:
    """All entries of one shape in one scope."""

    name: str
    op: str
    scope: tuple[str, str]  # timing, l2
    entries: list[dict] = dataclasses.field(default_factory=list)

    def _entrants(self, peer: bool) -> list[dict]:
        """One entry a backend, its passes together."""
        passes: dict[str, list[dict]] = {}
        for entry in self.entries:
            if entry["peer"] == peer:
                passes.setdefault(entry["backend"], []).append(entry)
        return [_merged(entries) for entries in passes.values()]

    def ours(self) -> list[dict]:
        return self._entrants(peer=False)

    def peers(self) -> list[dict]:
        """All of them, also those of other work."""
        return self._entrants(peer=True)

    def best_peer(self) -> dict | None:
        """Of those that do the row's work."""
        rivals = [entry for entry in self.peers() if differs(entry) is None]
        return min(rivals, key=lambda entry: entry["median_ms"], default=None)

    def drift(self, backend: str) -> float | None:
        """How far the two passes of a backend differ, as a share of the faster."""
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

    def samples(self) -> str:
        repeats, warmups = self.document["repeats"], self.document["warmups"]
        text = f"a pass: {repeats} samples after {warmups} warm-ups"
        seconds = self.document.get("scope_seconds")
        return f"{text}, fewer once a scope took {seconds:g} s" if seconds else text

    def scopes(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys(row.scope for row in self.rows))


def differs(entry: dict) -> str | None:
    """How a peer's work differs from the row's; None where it is the same."""
    return entry.get("differs")


_FILE_KEYS = ("environment", "timing_scope", "warmups", "repeats", "results", "declined", "peers")
_ENTRY_KEYS = ("name", "op", "backend", "peer", "kernel", "timing", "l2", "median_ms", "p20_ms",
               "p80_ms", "tflop_per_s", "gb_per_s", "ceiling_share", "bound_by", "goal_ms",
               "goal_peer_ms", "samples_ms")


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
