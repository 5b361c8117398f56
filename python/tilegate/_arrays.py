# SPDX-License-Identifier: Apache-2.0
"""What tilegate needs of an array framework: where an array lives, and new arrays like it.

torch, numpy (with ml_dtypes.bfloat16), cupy and jax are told apart by the module of the array's
type, so none of them is imported unless the caller already did.
"""

from __future__ import annotations

import contextlib
import functools
import sys

import numpy as np
import tvm_ffi

from . import _library

_FRAMEWORKS = ("torch", "numpy", "cupy", "jax")
_MAX_RANK = 6
_DTYPES = ("float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool")
_framework_of_type: dict[type, str] = {}


def framework_of(array, name: str = "arrays") -> str:
    """"torch", "numpy", "cupy" or "jax". Raises ValueError, for argument `name`, otherwise."""
    kind = type(array)
    known = _framework_of_type.get(kind)
    if known is not None:
        return known
    root = kind.__module__.partition(".")[0]
    root = "jax" if root == "jaxlib" else root
    if root not in _FRAMEWORKS:
        raise ValueError(f"{name} must be a torch, numpy, cupy or jax array, got {kind.__name__}")
    _framework_of_type[kind] = root
    return root


def device_of(array) -> tuple[str, int]:
    """("cpu" | "cuda", index). Raises ValueError for any other device."""
    framework = framework_of(array)
    if framework == "torch":
        if array.is_cuda:
            return "cuda", array.get_device()
        if not array.is_cpu:
            raise ValueError(f"arrays must be on a CPU or a CUDA GPU, got {array.device}")
        return "cpu", 0
    if framework == "cupy":
        return "cuda", array.device.id
    if framework == "jax":
        device = next(iter(array.devices()))
        return ("cuda", device.local_hardware_id) if device.platform == "gpu" else ("cpu", 0)
    return "cpu", 0


_name_of_dtype: dict = {}


def dtype_name(array) -> str:
    """"float32", "bfloat16", ..."""
    return name_of_dtype(array.dtype)


def name_of_dtype(dtype) -> str:
    """The name of a dtype of any framework; foreign byte order stays in it (">f4")."""
    known = _name_of_dtype.get(dtype)
    if known is None:
        text = dtype.__name__ if isinstance(dtype, type) else str(dtype)
        known = _name_of_dtype[dtype] = text.removeprefix("torch.")
    return known


def full_like(array, shape, dtype: str | None, value: float | None):
    """A new array of array's framework and device, without a dtype of its dtype too.

    Without a value its elements are not written; a jax array is in any case, and before it is seen.
    """
    framework = framework_of(array)
    if framework == "torch":
        if value is None and dtype is None:
            return array.new_empty(*shape)  # sizes one by one: torch reads a tuple more slowly
        torch = sys.modules["torch"]
        dtype = array.dtype if dtype is None else getattr(torch, dtype)
        if value is None:
            return torch.empty(*shape, dtype=dtype, device=array.device)
        return array.new_full(shape, value, dtype=dtype)
    dtype = array.dtype if dtype is None else _numpy_dtype(dtype)
    if framework == "jax":
        jax = sys.modules["jax"]
        made = jax.numpy.full(shape, value or 0.0, dtype=dtype, device=array.device)
        return made.block_until_ready()
    module = sys.modules[framework]
    if value is None:
        return module.empty(shape, dtype)
    if value == 0.0:
        return module.zeros(shape, dtype)
    return module.full(shape, value, dtype=dtype)


@functools.cache
def _numpy_dtype(dtype: str):
    if dtype != "bfloat16":
        return np.dtype(dtype)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def require_rank(name: str, array, allowed) -> None:
    """Raises ValueError unless `array` is an array of one of the ranks `allowed`."""
    if array is None:
        raise ValueError(f"{name} must have rank {' or '.join(map(str, allowed))}, got none")
    if type(array) not in _framework_of_type:
        framework_of(array, name)
    if array.ndim not in allowed:
        raise ValueError(f"{name} must have rank {' or '.join(map(str, allowed))}, "
                         f"got {tuple(array.shape)}")


def require_same_device(name: str, array, other_name: str, other) -> None:
    """Raises ValueError unless `array` lives where `other` does."""
    own, wanted = device_of(array), device_of(other)
    if own != wanted:
        own, wanted = (kind if kind == "cpu" else f"{kind}:{i}" for kind, i in (own, wanted))
        raise ValueError(f"{name} must be on {wanted} like {other_name}, got {own}")


# Types whose arrays the compiled library takes without a look at them here: it refuses what it
# cannot take, and torch's stream is found by tvm-ffi.
_plain = {type(None), np.ndarray}


def are_plain(arrays) -> bool:
    """Whether the compiled library may be given these arrays as they are.

    jax's never: they must be waited for. Of all others the first one speaks for all.
    """
    if "jax" in sys.modules:
        return _plain.issuperset(map(type, arrays))
    return type(arrays[0]) in _plain


def plain(array, name: str):
    """What the compiled library takes for one array."""
    return array if type(array) in _plain else to_ffi((array,), (name,))[0]


def to_ffi(arrays, names) -> list:
    """What the compiled library takes for the arguments `names`: mostly the arrays themselves.

    An absent one stays None. Raises ValueError that names the array that it would not take.
    """
    found = list(arrays)
    for i, array in enumerate(found):
        if array is None:
            continue
        try:
            convert = _conversions[type(array), array.dtype]
        except (KeyError, AttributeError, TypeError):
            convert = _new_conversion(array, names[i])
        if not 0 < array.ndim <= _MAX_RANK:
            raise ValueError(f"{names[i]} must have rank 1..{_MAX_RANK}, "
                             f"got {tuple(array.shape)}")
        if convert is not None:
            found[i] = convert(array)
    return found


_conversions: dict = {}  # (type, dtype) of every kind of array that was seen


def _new_conversion(array, name: str):
    framework = framework_of(array, name)
    dtype = dtype_name(array)
    if dtype not in _DTYPES:
        raise ValueError(f"{name} must be one of {', '.join(_DTYPES)}, got {dtype}")
    if framework == "torch" and type(array) is sys.modules["torch"].Tensor:
        _plain.add(type(array))
        _written_in_place.add(type(array))
    convert = _CONVERSIONS[framework]
    if framework in ("numpy", "cupy") and dtype == "bfloat16":
        convert = _as_words
    _conversions[type(array), array.dtype] = convert
    return convert


def _as_words(array):
    return array.view(np.uint16)  # DLPack of numpy has no bfloat16


def _detached(array):
    device_of(array)
    return array.detach() if array.requires_grad else array


def _ready(array):
    return tvm_ffi.from_dlpack(array.block_until_ready())


_CONVERSIONS = {"numpy": None, "cupy": None, "torch": _detached, "jax": _ready}


_written_in_place = {type(None)}  # types of which every array can be


def require_writable(name: str, array) -> None:
    """Raises ValueError for an output, given by the caller, that cannot be written in place."""
    if type(array) in _written_in_place:
        return
    framework = framework_of(array, name)
    if framework == "numpy" and not array.flags.writeable:
        raise ValueError(f"{name} must be writable, got a read-only array")
    if framework == "jax":
        raise ValueError(f"{name} must be absent with jax, whose arrays cannot be written in place")


def require_all_writable(names, arrays) -> None:
    """require_writable() of each."""
    if not _written_in_place.issuperset(map(type, arrays)):
        for name, array in zip(names, arrays, strict=True):
            require_writable(name, array)


def exportable(array, name: str):
    """A copy of what numpy does not export for being read-only. Outputs were checked before."""
    if not isinstance(array, np.ndarray):
        return array
    if any(stride % array.itemsize for stride in array.strides):
        raise ValueError(f"{name} must have strides of whole elements, got {array.strides} bytes "
                         f"for {dtype_name(array)}")
    return array if array.flags.writeable else array.copy()


_OWN_STREAM = contextlib.nullcontext()


def stream_of(lead, name: str):
    """A context in which calls use the current stream of the framework of argument `name`.

    tvm-ffi finds torch's by itself. jax has no stream to follow and reads from others than a call
    writes on: its calls are done when they return.
    """
    framework = framework_of(lead, name)
    if framework == "cupy":
        stream = sys.modules["cupy"].cuda.get_current_stream().ptr
        return tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", lead.device.id), stream)
    if framework == "jax":
        kind, index = device_of(lead)
        if kind == "cuda":
            return _waited_for(index)
    return _OWN_STREAM


@contextlib.contextmanager
def _waited_for(index: int):
    yield
    _library.wait_for_gpu(index)
