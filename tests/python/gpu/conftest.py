# SPDX-License-Identifier: Apache-2.0
"""These tests run where torch finds a GPU that the library can use; elsewhere they say why not."""

import sys
from pathlib import Path

import pytest
import tilegate

sys.path.insert(0, str(Path(__file__).parent.parent))  # the oracle, from any folder


def _missing():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        return "torch finds no GPU"
    usable, text = tilegate.backends()["cuda"]
    return None if usable else f"the cuda backend is off: {text}"


@pytest.fixture(scope="session", autouse=True)
def _gpu():
    reason = _missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def cudnn():
    """Skips where the cudnn backend is off."""
    usable, text = tilegate.backends()["cudnn"]
    if not usable:
        pytest.skip(f"the cudnn backend is off: {text}")
