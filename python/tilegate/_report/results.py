# SPDX-License-Identifier: Apache-2.0
"""Result files of `tilegate bench`, and what their entries say together: for every row and scope
our times, the best peer of the same run, and the goal scaled to that peer. Peers whose work differs
from the row's are shown and compared with nothing."""

from __future__ import annotations

import dataclasses
import json
import math
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


_NUMBER = (int, float)
_NONE = type(None)
# Keys and the kinds of their values: what every file and entry has, and what some have.
_FILE = {"environment": dict, "timing_scope": str, "warmups": int, "repeats": int, "results": list,
         "declined": list, "peers": list}
_FILE_MAY_HAVE = {"ceilings": dict, "scope_seconds": (*_NUMBER, _NONE), "complete": bool}
_CEILINGS_MAY_HAVE = {"gb_per_s": (*_NUMBER, _NONE), "tflop_per_s": (*_NUMBER, _NONE)}
_DECLINED = {"name": str, "backend": str, "reason": str}
_ENTRY = {"name": str, "op": str, "backend": str, "peer": bool, "kernel": (str, _NONE),
          "timing": str, "l2": str, "median_ms": _NUMBER, "p20_ms": _NUMBER, "p80_ms": _NUMBER,
          "tflop_per_s": _NUMBER, "gb_per_s": _NUMBER, "ceiling_share": (*_NUMBER, _NONE),
          "bound_by": (str, _NONE), "goal_ms": (*_NUMBER, _NONE),
          "goal_peer_ms": (*_NUMBER, _NONE), "samples_ms": list}
_ENTRY_MAY_HAVE = {"rule": str, "differs": (str, _NONE)}


def _refuse(path: str, what: str, value):
    text = json.dumps(value)
    text = text if len(text) <= 60 else f"{text[:60]} .."
    raise ValueError(f"{path} must be a result of tilegate bench, got {what} {text}")


def _require(path: str, what: str, mapping, has: dict, may_have=None) -> None:
    """Raises ValueError where `mapping`, called `what`, is not a dictionary of such values."""
    if not isinstance(mapping, dict):
        _refuse(path, what, mapping)
    for key in has:
        if key not in mapping:
            raise ValueError(f"{path} must be a result of tilegate bench, got no {key}")
    for key, kind in (has | (may_have or {})).items():
        value = mapping.get(key)
        if key not in mapping or (isinstance(value, bool) and kind is bool):
            continue
        if isinstance(value, bool) or not isinstance(value, kind):
            _refuse(path, key, value)


def _is_time(value) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, bool) and 0 < value < math.inf


def _require_file(path: str, document) -> None:
    _require(path, "a document", document, _FILE, _FILE_MAY_HAVE)
    _require(path, "environment", document["environment"], {}, {"backends": dict})
    _require(path, "ceilings", document.get("ceilings", {}), {}, _CEILINGS_MAY_HAVE)
    for peer in document["peers"]:
        _require(path, "a peer", peer, {"name": str}, {"versions": dict})
    for one in document["declined"]:
        _require(path, "a declined row", one, _DECLINED)


def _is_measured(path: str, entry) -> bool:
    """Whether an entry has a time. Raises ValueError where it is none of the program's."""
    if isinstance(entry, dict) and entry.get("median_ms", 0) is None:
        return False
    _require(path, "an entry", entry, _ENTRY, _ENTRY_MAY_HAVE)
    for key in ("median_ms", "goal_ms", "goal_peer_ms"):
        if entry[key] is not None and not _is_time(entry[key]):
            _refuse(path, key, entry[key])
    if not entry["samples_ms"] or not all(map(_is_time, entry["samples_ms"])):
        _refuse(path, "samples_ms", entry["samples_ms"])
    return True


def read(path: str) -> Results:
    """Entries without a time are left out.

    Raises OSError, or ValueError when the file is no result of tilegate bench.
    """
    try:
        document = json.loads(pathlib.Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be JSON, got an error: {error}") from None
    _require_file(path, document)
    rows: dict[tuple, Row] = {}
    for entry in filter(lambda entry: _is_measured(path, entry), document["results"]):
        scope = entry["timing"], entry["l2"]
        op = f"{entry['op']} {entry['rule']}" if "rule" in entry else entry["op"]
        row = rows.setdefault((entry["name"], scope), Row(entry["name"], op, scope))
        row.entries.append(entry)
    return Results(path, document, list(rows.values()))
