# SPDX-License-Identifier: Apache-2.0
"""Array frameworks under test: (name, from_numpy, to_numpy). A missing one is left out by name."""

import importlib.util

import ml_dtypes
import numpy as np


def _numpy():
    return lambda x: x, lambda x: np.asarray(x)


def _jax():
    import jax.numpy as jnp

    return jnp.asarray, lambda x: np.asarray(x)


def _torch(device):
    import torch

    def to_torch(x):
        if x.dtype == ml_dtypes.bfloat16:
            bits = torch.from_numpy(x.view(np.int16).copy())
            return bits.view(torch.bfloat16).to(device)
        return torch.from_numpy(x.copy()).to(device)

    def to_numpy(x):
        return x.detach().cpu().float().numpy() if x.is_floating_point() else x.cpu().numpy()

    return to_torch, to_numpy


def _cupy():
    import cupy

    return cupy.asarray, lambda x: cupy.asnumpy(x)


def _has_gpu():
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def available():
    """{name: (from_numpy, to_numpy)}; GPU ones only where there is a GPU."""
    found = {"numpy": _numpy()}
    if importlib.util.find_spec("jax") is not None:
        found["jax"] = _jax()
    if importlib.util.find_spec("torch") is not None:
        found["torch"] = _torch("cpu")
        if _has_gpu():
            found["torch-cuda"] = _torch("cuda")
    if importlib.util.find_spec("cupy") is not None and _has_gpu():
        found["cupy"] = _cupy()
    return found
