# SPDX-License-Identifier: Apache-2.0
"""What a GPU call refuses: the right exception, with a sentence that names the argument."""

import pytest
import tilegate

torch = pytest.importorskip("torch")
from decode_case import DecodeCase, set_values  # noqa: E402


def _shifted(tensor):
    """The same values at an address one element past an aligned one."""
    room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    room[1:].copy_(tensor.flatten())
    return room[1:].view(tensor.shape)


def _pitched(tensor):
    """The same values with rows one element apart."""
    room = torch.empty(*tensor.shape[:-1], tensor.shape[-1] + 1, dtype=tensor.dtype,
                       device=tensor.device)
    room[..., :-1] = tensor
    return room[..., :-1]


CHANGES = {
    "lengths on the CPU": ("kv_lens", lambda x: x.cpu(), ValueError, "kv_lens"),
    "tables on the CPU": ("block_tables", lambda x: x.cpu(), ValueError, "block_tables"),
    "a cache on the CPU": ("v_cache", lambda x: x.cpu(), ValueError, "v_cache"),
    "q on the CPU": ("q", lambda x: x.cpu(), ValueError, "k_cache"),
    "out on the CPU": ("out", lambda x: x.cpu(), ValueError, "out"),
    "q of float64": ("q", lambda x: x.double(), ValueError, "q"),
    "k_cache of another dtype": ("k_cache", lambda x: x.half(), ValueError, "k_cache"),
    "lengths of float32": ("kv_lens", lambda x: x.float(), ValueError, "kv_lens"),
    "q of rank 4": ("q", lambda x: x[None], ValueError, "q"),
    "q every other element": (
        "q", lambda x: x.repeat_interleave(2, -1)[..., ::2], ValueError, "q"),
    "k_cache every other element": (
        "k_cache", lambda x: x.repeat_interleave(2, -1)[..., ::2], ValueError, "k_cache"),
    "overlapping out": ("out", lambda x: x[:1].expand(x.shape), ValueError, "out"),
    "misaligned q": ("q", _shifted, NotImplementedError, "q"),
    "misaligned k_cache": ("k_cache", _shifted, NotImplementedError, "k_cache"),
    "pitch of k_cache": ("k_cache", _pitched, NotImplementedError, "k_cache"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_refusals_name_the_argument(what):
    name, change, exception, named = CHANGES[what]
    case = DecodeCase()
    set_values(case.lens, [3, 40, 100])
    arguments = case.arguments() | dict(out=torch.full_like(case.q, 7.0))
    arguments[name] = change(arguments[name])
    with pytest.raises(exception) as error:
        tilegate.batch_decode_paged(**arguments, backend="cuda")
    sentence = str(error.value)
    assert f"{named} must " in sentence, sentence
    print(f"{what}: {exception.__name__}: {sentence}")
    torch.cuda.synchronize()
    assert what.startswith(("out", "overlapping")) or (arguments["out"] == 7.0).all()


def test_float32_decode_lists_why_no_backend_serves():
    case = DecodeCase(dtype=torch.float32)
    with pytest.raises(NotImplementedError, match="cuda.decode.*float32"):
        case(backend="cuda")


def test_backends_of_the_cpu_do_not_take_gpu_tensors():
    case = DecodeCase()
    for backend in ("cpu", "reference"):
        with pytest.raises(NotImplementedError, match=backend):
            case(backend=backend)


def test_plans_refuse_other_layouts_options_and_small_workspaces():
    case = DecodeCase()
    set_values(case.lens, [3, 40, 100])
    arguments = case.arguments()
    plan = tilegate.plan(tilegate.batch_decode_paged, backend="cuda", **arguments)
    assert plan.workspace_bytes > 0
    row = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")
    with pytest.raises(MemoryError, match="workspace"):
        plan.run(**arguments, workspace=row[:-1])
    with pytest.raises(ValueError, match="workspace"):
        plan.run(**arguments, workspace=_shifted(row))
    with pytest.raises(ValueError, match="workspace"):
        plan.run(**arguments, workspace=row.cpu())
    with pytest.raises(TypeError, match="backend"):
        plan.run(**arguments, workspace=row, backend="auto")
    with pytest.raises(ValueError, match="q must be"):
        plan.run(**arguments | dict(q=_pitched(case.q)), workspace=row)
    with pytest.raises(ValueError, match="lse must be"):
        plan.run(**arguments, lse=torch.empty(3, 8, device="cuda"), workspace=row)
    assert torch.equal(plan.run(**arguments, workspace=row), case(backend="cuda"))


def test_tensors_of_two_gpus_are_refused():
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs 2 GPUs, found {torch.cuda.device_count()}")
    case = DecodeCase()
    arguments = case.arguments()
    arguments["k_cache"] = arguments["k_cache"].to("cuda:1")
    with pytest.raises(ValueError, match="k_cache"):
        tilegate.batch_decode_paged(**arguments)


def test_a_call_on_the_second_gpu_stays_there():
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs 2 GPUs, found {torch.cuda.device_count()}")
    x = torch.ones(2, 2, 2, 64, dtype=torch.float16, device="cuda:1")
    o, lse = tilegate.merge_states(x, torch.zeros(2, 2, 2, device="cuda:1"))
    assert o.device == x.device and lse.device == x.device
    assert (o == 1.0).all()
    assert torch.cuda.current_device() == 0
