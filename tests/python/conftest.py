# SPDX-License-Identifier: Apache-2.0
"""Every test of a call runs once for each array framework that is installed."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import frameworks  # noqa: E402

_FOUND = frameworks.available()


@pytest.fixture(params=sorted(_FOUND), scope="session")
def framework(request):
    """(name, from_numpy, to_numpy)."""
    return (request.param, *_FOUND[request.param])
