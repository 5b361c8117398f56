# SPDX-License-Identifier: Apache-2.0
"""Benchmark results as one self-contained HTML page: tables against peers and goals, and plots."""

from .html import page
from .results import read

__all__ = ["page", "read"]
