# SPDX-License-Identifier: Apache-2.0
"""Plots as inline SVG: for every row of an op, each backend's share of the ceiling that bounds it,
and its time beside the best peer's."""

from __future__ import annotations

import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from .results import Row, differs  # noqa: E402

# Ours are filled circles in these colours, peers open shapes in greys and browns.
_OURS = ("#0b5fa5", "#d1495b", "#2a9d5c", "#7b4fb3", "#c77f00")
_PEERS = ("#555555", "#8a6d3b", "#777799", "#99775f", "#444466", "#887788")
_SHAPES = ("s", "D", "^", "v", "P", "X")


def _styles(rows: list[Row]) -> dict[str, dict]:
    """One style a backend, the same in every plot of a page section."""
    ours = dict.fromkeys(e["backend"] for row in rows for e in row.ours())
    peers = dict.fromkeys(e["backend"] for row in rows for e in row.peers())
    styles = {}
    for i, name in enumerate(ours):
        styles[name] = {"color": _OURS[i % len(_OURS)], "marker": "o"}
    for i, name in enumerate(peers):
        colour = _PEERS[i % len(_PEERS)]
        styles[name] = {"edgecolors": colour, "facecolors": "none",
                        "marker": _SHAPES[i % len(_SHAPES)]}
    return styles


def _svg(figure) -> str:
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tilegate"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg"):]


def _dots(rows: list[Row], value, label: str, line: float) -> str:
    """A line of dots a row: value(entry, row) on x where it is not None."""
    styles = _styles(rows)
    height = 1.1 + 0.3 * len(rows)
    with matplotlib.rc_context({"font.family": "sans-serif", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(7.6, height))
        for name, style in styles.items():
            points = [(value(entry, row), y) for y, row in enumerate(rows)
                      for entry in (*row.ours(), *row.peers()) if entry["backend"] == name]
            points = [point for point in points if point[0] is not None]
            if points:
                axes.scatter(*zip(*points, strict=True), s=34, label=name, zorder=3, **style)
        axes.axvline(line, color="#999999", linewidth=0.8, linestyle="--")
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.set_xlabel(label)
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        axes.tick_params(axis="y", length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return _svg(figure)


def ceiling_plot(rows: list[Row]) -> str:
    return _dots(rows, lambda entry, row: entry["ceiling_share"],
                 "share of the ceiling measured in the same run (right is better)", 1.0)


def peer_plot(rows: list[Row]) -> str:
    """Only for rows with a peer; empty without any."""
    compared = [row for row in rows if row.best_peer() is not None]
    if not compared:
        return ""

    def speed(entry: dict, row: Row) -> float | None:
        return None if differs(entry) else row.best_peer()["median_ms"] / entry["median_ms"]

    return _dots(compared, speed, "speed, the best peer of the row being 1 (right is better)", 1.0)
