# SPDX-License-Identifier: Apache-2.0
"""Errors become Python's exceptions and say what was wrong; nothing else leaks."""

import re

import numpy as np
import pytest
import tilegate
from tilegate import _arrays, _library


def _dense(rows=4):
    rng = np.random.default_rng(0)
    return [rng.standard_normal((1, rows, 2, 64)).astype(np.float32) for _ in range(3)]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"window_left": -2}, ("window_left", "-2")),
        ({"backend": "fast"}, ("backend", "fast")),
        ({"lse_base": "log10"}, ("lse_base", "log10")),
        ({"logits_soft_cap": -1.0}, ("logits_soft_cap", "-1")),
        ({"sinks": np.zeros(3, np.float32)}, ("sinks", "[2]", "[3]")),
    ],
)
def test_value_errors_name_argument_and_value(change, names):
    with pytest.raises(ValueError) as error:
        tilegate.batch_prefill_ragged(*_dense(), **change)
    for name in names:
        assert name in str(error.value)


def test_offsets_are_checked_on_the_cpu():
    q, k, v = (x[0] for x in _dense())
    with pytest.raises(ValueError, match="qo_indptr must start at 0, got 1"):
        tilegate.batch_prefill_ragged(
            q, k, v, np.array([1, 4], np.int32), np.array([0, 4], np.int32))


def test_unsupported_lists_the_reason():
    with pytest.raises(NotImplementedError, match="cudnn"):
        tilegate.batch_prefill_ragged(*_dense(), backend="cudnn")


def test_uint16_is_not_taken_for_bfloat16():
    q, k, v = _dense()
    with pytest.raises(ValueError, match="uint16"):
        tilegate.batch_prefill_ragged(q.astype(np.uint16), k, v)


def test_read_only_inputs_work_and_read_only_outputs_do_not():
    q, k, v = _dense()
    want = tilegate.batch_prefill_ragged(q, k, v)
    out = np.zeros_like(q)
    for array in (q, k, v, out):
        array.flags.writeable = False
    assert (tilegate.batch_prefill_ragged(q, k, v) == want).all()
    with pytest.raises(ValueError, match="out must be writable"):
        tilegate.batch_prefill_ragged(q, k, v, out=out)


def test_unknown_argument_is_a_type_error():
    q, k, v = (x[0] for x in _dense())
    with pytest.raises(TypeError, match="chunk_size"):
        tilegate.chunk_gated_delta_rule(q, k, v, chunk_size=64)


def test_lists_are_not_arrays():
    q, k, v = _dense()
    with pytest.raises((ValueError, AttributeError)):
        tilegate.batch_prefill_ragged(q.tolist(), k, v)


def test_backends_say_why_one_is_off():
    for usable, text in tilegate.backends().values():
        assert text, "every backend says what it is or why it is off"
        assert isinstance(usable, bool)


def test_thread_count_changes_no_bits():
    q, k, v = _dense(rows=130)
    results = []
    for threads in (1, 2, 3):
        tilegate.set_num_threads(threads)
        assert 1 <= tilegate.get_num_threads() <= threads  # never more than the machine has
        results.append(tilegate.batch_prefill_ragged(q, k, v, causal=True))
    tilegate.set_num_threads(0)
    assert (results[0] == results[1]).all() and (results[0] == results[2]).all()


@pytest.mark.parametrize(
    "threads", [-1, 2**31, 2**32 + 1, 2**40 + 1, -(2**40) + 1, 2**64, -(2**64)])
def test_thread_count_out_of_range_is_refused(threads):
    tilegate.set_num_threads(1)
    with pytest.raises(ValueError) as error:
        tilegate.set_num_threads(threads)
    assert str(error.value) == f"num_threads must be 0..2147483647, got {threads}"
    assert tilegate.get_num_threads() == 1
    tilegate.set_num_threads(0)


@pytest.mark.parametrize("threads", [1.5, "2", None])
def test_thread_count_is_an_integer(threads):
    with pytest.raises(TypeError, match="^num_threads must be an integer, got "):
        tilegate.set_num_threads(threads)


def test_compiled_entries_cut_no_integer():
    with pytest.raises(ValueError, match=r"^num_threads must be 0\.\.2147483647, got 10995116"):
        _library._set_threads(_library.thread.contexts, 2**40 + 1)
    with pytest.raises(ValueError, match=r"^device must be 0\.\.2147483647, got 4294967296$"):
        _library.wait_for_gpu(2**32)


def _small_table(batch=1):
    return {"block_tables": np.zeros((batch, 1), np.int32), "kv_lens": np.ones(batch, np.int32)}


def test_errors_name_arguments_as_python_does():
    q, k, v = _dense()
    with pytest.raises(ValueError, match="^out must "):
        tilegate.batch_prefill_ragged(q, k, v, out=np.zeros((1, 4, 2, 32), np.float32))
    rows, cache = np.zeros((1, 2, 64), np.float32), np.zeros((1, 4, 2, 64), np.float32)
    with pytest.raises(ValueError, match="^out must "):
        tilegate.batch_decode_paged(rows, cache, cache, **_small_table(), out=rows[:, :1])
    with pytest.raises(ValueError, match="^out must "):
        tilegate.batch_prefill_paged(rows, cache, cache, qo_indptr=np.array([0, 1], np.int32),
                                     **_small_table(), out=rows.astype(np.float16))
    parts = np.zeros((3, 2, 2, 8), np.float32)
    with pytest.raises(ValueError, match="^out must "):
        tilegate.merge_states(parts, parts[..., 0], out=np.zeros((3, 2, 7), np.float32))
    with pytest.raises(ValueError, match="^out must "):
        tilegate.chunk_gated_delta_rule(q, k, v, out=q[..., :32])
    read_only = np.zeros_like(q)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="^out must be writable"):
        tilegate.chunk_gated_delta_rule(q, k, v, out=read_only)
    for wrong in ([1.0], np.zeros_like(q, np.float64)):
        with pytest.raises(ValueError, match="^out must be "):
            tilegate.chunk_gated_delta_rule(q, k, v, out=wrong)


def test_plans_and_refusals_name_arguments_as_python_does():
    q, k, v = _dense()
    plan = tilegate.plan(tilegate.batch_prefill_ragged, q, k, v)
    wide = np.zeros((1, 4, 2, 128), np.float32)
    with pytest.raises(ValueError) as error:
        plan.run(q, k, v, out=wide[..., ::1][..., :64])
    assert re.search(r"\bout\b", str(error.value)) and not re.search(r"\bo\b", str(error.value))


def test_names_that_one_function_alone_has():
    q, k, v = (x[0] for x in _dense())
    with pytest.raises(TypeError, match="^use_qk_l2norm_in_kernel must be True or False, got 2"):
        tilegate.chunk_gated_delta_rule(q, k, v, use_qk_l2norm_in_kernel=2)
    x, gate, head = np.zeros((1, 1, 2, 16), np.float32), np.zeros((1, 1, 2)), np.zeros(2)
    gate, head = gate.astype(np.float32), head.astype(np.float32)
    with pytest.raises(TypeError, match="^use_qk_l2norm must be True or False, got 2"):
        tilegate.gated_delta_rule_decode(x, x, x, np.zeros((1, 2, 16, 16), np.float32), head, gate,
                                         head, gate, use_qk_l2norm=2)


def test_state_of_another_device_is_named(monkeypatch):
    x, gate = np.zeros((1, 1, 2, 16), np.float32), np.zeros((1, 1, 2), np.float32)
    state, head = np.zeros((1, 2, 16, 16), np.float32), np.zeros(2, np.float32)
    monkeypatch.setattr(_arrays, "device_of",  # no array of a second device is in every machine
                        lambda array: ("cuda", 1) if array is state else ("cpu", 0))
    with pytest.raises(ValueError, match="^state must be on cpu like q, got cuda:1$"):
        tilegate.gated_delta_rule_decode(x, x, x, state, head, gate, head, gate)


def test_explain_names_kernel_and_rejections_and_runs_nothing():
    q, k, v = _dense()
    out = np.full_like(q, 7.0)
    text = tilegate.explain(tilegate.batch_prefill_ragged, q, k, v, out=out)
    assert "chosen: cpu.flash" in text and "bits: " in text
    assert (out == 7.0).all()
    forced = tilegate.explain(
        tilegate.batch_prefill_ragged, q, k, v, out=out, backend="reference")
    assert "chosen: reference.attention" in forced
    assert "rejected: cpu.flash" in forced
    tilegate.batch_prefill_ragged(q, k, v, out=out)
    assert (out != 7.0).any()


@pytest.mark.parametrize("name", ["q", "k", "v", "sinks", "out"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros((1, 4, 2, 64)), "float64"),
        (np.zeros((1, 4, 2, 64), ">f4"), ">f4"),
        (np.zeros((1, 4, 2, 64), np.uint16), "uint16"),
        (np.zeros((1,) * 7, np.float32), "(1, 1, 1, 1, 1, 1, 1)"),
        (np.float32(3), "()"),
        ([1.0], "list"),
    ],
)
def test_arrays_that_cannot_be_taken_are_named(name, value, words):
    arguments = dict(zip("qkv", _dense(), strict=True))
    arguments[name] = value
    with pytest.raises(ValueError, match=f"^{name} must ") as error:
        tilegate.batch_prefill_ragged(**arguments)
    assert words in str(error.value) or "read-only" in str(error.value)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"window_left": 1.5}, TypeError),
        ({"window_left": 2**64}, ValueError),
        ({"causal": 2}, TypeError),
        ({"causal": None}, TypeError),
        ({"scale": "a"}, TypeError),
        ({"scale": 1e300}, ValueError),
        ({"logits_soft_cap": [1.0]}, TypeError),
        ({"backend": None}, TypeError),
        ({"return_lse": np.ones(2)}, TypeError),
        ({"scale": np.ones(2)}, TypeError),
        ({"fixed_split_size": np.ones(2)}, TypeError),
        ({"lse_base": np.ones(2)}, ValueError),
    ],
)
def test_options_of_another_kind_are_named(change, error):
    (name,) = change
    with pytest.raises(error, match=f"^{name} must "):
        tilegate.batch_prefill_ragged(*_dense(), **change)


def test_append_refuses_an_unknown_layout():
    cache = np.zeros((1, 4, 2, 8), np.float32)
    tokens = np.zeros((1, 2, 8), np.float32)
    table = {"block_tables": np.zeros((1, 1), np.int32), "kv_lens": np.ones(1, np.int32)}
    with pytest.raises(ValueError, match="kv_layout must be one of 'NHD', 'HND', got 'nhd'"):
        tilegate.append_paged_kv(tokens, tokens, np.zeros(1, np.int32), cache, cache.copy(),
                                 kv_layout="nhd", **table)


def test_missing_arrays_of_the_delta_rule_are_named():
    q, k, v = (x[0] for x in _dense())
    for name in "qkv":
        arguments = dict(q=q, k=k, v=v)
        arguments[name] = None
        with pytest.raises(ValueError, match=f"^{name} must "):
            tilegate.chunk_gated_delta_rule(**arguments)
    with pytest.raises(ValueError, match="^cu_seqlens must "):
        tilegate.chunk_gated_delta_rule(q, k, v, cu_seqlens=np.int32(4), output_final_state=True)


def test_state_dtype_is_checked():
    q, k, v = (x[0] for x in _dense())
    with pytest.raises(ValueError, match="state_dtype must be one of .*, got float64"):
        tilegate.chunk_gated_delta_rule(q, k, v, state_dtype="float64")
    state = np.zeros((1, 2, 64, 64), np.float32)
    with pytest.raises(ValueError, match="state_dtype must be that of output_state, float32"):
        tilegate.chunk_gated_delta_rule(q, k, v, output_final_state=True, output_state=state,
                                        state_dtype="float16")


def test_k_major_state_is_named_with_its_own_shape():
    x = np.zeros((1, 1, 2, 16), np.float32)
    gate = np.zeros((1, 1, 2), np.float32)
    head = np.zeros(2, np.float32)
    with pytest.raises(ValueError, match=r"^state must be float32 \(1, 2, 16, 16\)"):
        tilegate.gated_delta_rule_decode(x, x, x, np.zeros((1, 2, 16, 8), np.float32), head, gate,
                                         head, gate)
