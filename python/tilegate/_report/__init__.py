# SPDX-License-Identifier: Apache-2.0
"""Benchmark results as one self-contained HTML page (tables against peers and goals, and plots), or
as Markdown tables. Only the page needs matplotlib."""

from .markdown import tables
from .results import read

__all__ = ["page", "read", "tables"]


def page(files) -> str:
    """Raises ImportError without matplotlib."""
    from . import html

    return html.page(files)
