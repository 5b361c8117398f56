# SPDX-License-Identifier: Apache-2.0
"""A thousand calls leave no memory behind, on the GPU or on the host."""

import pathlib
import resource

import pytest
import tilegate

torch = pytest.importorskip("torch")
from decode_case import DecodeCase, set_values  # noqa: E402

CALLS = 1000
SLACK_BYTES = 16 << 20  # a leak of one small tensor or plan a call passes it


def _host_bytes():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _decode():
    case = DecodeCase(max_pages=64)
    set_values(case.lens, [1000, 500, 3])
    return lambda: case(return_lse=True, backend="cuda")


def _planned():
    case = DecodeCase(max_pages=64)
    set_values(case.lens, [1000, 500, 3])
    arguments = case.arguments()
    return lambda: tilegate.plan(
        tilegate.batch_decode_paged, backend="cuda", **arguments).run(**arguments)


def _dense():
    q, k, v = (torch.randn(1, 64, 4, 64, device="cuda").half() for _ in range(3))
    return lambda: tilegate.batch_prefill_ragged(q, k, v)


def _refused():
    case = DecodeCase()
    arguments = case.arguments() | dict(kv_lens=case.lens.cpu())

    def call():
        with pytest.raises(ValueError):
            tilegate.batch_decode_paged(**arguments)

    return call


@pytest.mark.parametrize("make", [_decode, _planned, _dense, _refused])
def test_a_thousand_calls_leave_no_memory_behind(make):
    if make is _dense and not tilegate.backends()["cudnn"][0]:
        pytest.skip(f"the cudnn backend is off: {tilegate.backends()['cudnn'][1]}")
    call = make()
    for _ in range(100):
        call()
    torch.cuda.synchronize()
    tensors, free, host = (
        torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0], _host_bytes())
    for _ in range(CALLS):
        call()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == tensors
    assert free - torch.cuda.mem_get_info()[0] < SLACK_BYTES
    assert _host_bytes() - host < SLACK_BYTES
