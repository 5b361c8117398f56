# SPDX-License-Identifier: Apache-2.0
"""Every operation with torch tensors on the GPU, against float64 numpy or torch's own attention."""

import math

import numpy as np
import oracle
import pytest
import tilegate

torch = pytest.importorskip("torch")
from decode_case import PAGE, DecodeCase, assert_near, set_values  # noqa: E402

# |x - float64| of outputs of order 1.
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_decode(dtype, layout, index_dtype):
    case = DecodeCase(dtype=dtype, layout=layout, index_dtype=index_dtype)
    set_values(case.lens, [1, 37, 190])
    o, lse = case(return_lse=True, backend="cuda")
    assert o.device == case.q.device and o.dtype == dtype
    assert lse.device == case.q.device and lse.dtype == torch.float32
    want, want_lse = case.answer()
    assert_near(o, want, TOLERANCE[dtype])
    assert_near(lse, want_lse, 1e-2)


def test_append_then_decode():
    case = DecodeCase(batch=2)
    set_values(case.lens, [33, 80])
    tokens, requests, positions = [], [], []
    for request, length in enumerate(case.lens.tolist()):
        requests += [request] * length
        positions += range(length)
        tokens.append(torch.randn(length, case.heads_kv, case.head_dim, device="cuda"))
    k, v = torch.cat(tokens).to(case.dtype), torch.cat(tokens).mul(0.5).to(case.dtype)
    case.k.fill_(math.nan)
    case.v.fill_(math.nan)

    def index(values):
        return torch.tensor(values, dtype=torch.int32, device="cuda")

    skipped = index([-1, *positions[1:]])
    tilegate.append_paged_kv(k, v, skipped, case.k, case.v, batch_indices=index(requests),
                             block_tables=case.tables, kv_lens=case.lens)
    assert case.k[case.tables[0, 0], 0].isnan().all()
    tilegate.append_paged_kv(k, v, index(positions), case.k, case.v,
                             batch_indices=index(requests), block_tables=case.tables,
                             kv_lens=case.lens)
    first = case.k[case.tables[0, 0].item()]
    assert torch.equal(first, k[:PAGE])
    assert_near(case(), case.answer()[0], TOLERANCE[case.dtype])


def test_merge():
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((6 if i == 0 else 32, 4, 64)) for i in range(3))
    (o0, s0), (o1, s1) = (oracle.attention(q, k[p], v[p]) for p in (slice(16), slice(16, 32)))
    parts = torch.tensor(np.stack([o0, o1], 1), dtype=torch.float16, device="cuda")
    scores = torch.tensor(np.stack([s0, s1], 1), dtype=torch.float32, device="cuda")
    o, lse = tilegate.merge_states(parts, scores)
    want, want_lse = oracle.attention(q, k, v)
    assert_near(o, want, 4e-3)
    assert_near(lse, want_lse, 1e-4)


def _delta_inputs(batch, tokens, heads, dim=128, dtype=torch.bfloat16):
    make = torch.Generator("cuda").manual_seed(7)

    def normal(*shape, of=dtype):
        return torch.randn(shape, generator=make, device="cuda").to(of)

    q, k, v = (normal(batch, tokens, heads, dim) for _ in range(3))
    a, b = normal(batch, tokens, heads), normal(batch, tokens, heads)
    return dict(q=q, k=k, v=v, a=a, b=b, A_log=normal(heads, of=torch.float32).mul_(0.1),
                dt_bias=normal(heads, of=torch.float32).mul_(0.1))


def _delta_answer(x, row, state):
    """o and state of sequence `row` in float64."""
    x = {name: tensor.double().cpu().numpy() for name, tensor in x.items()}
    a = x["a"][row] + x["dt_bias"]
    alpha = np.exp(-np.exp(x["A_log"]) * np.log1p(np.exp(a)))
    beta = 1 / (1 + np.exp(-x["b"][row]))
    return oracle.delta_rule(x["q"][row], x["k"][row], x["v"][row], alpha, beta,
                             state.double().cpu().numpy(), l2norm=True)


@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tokens", [1, 4])
def test_delta_decode_in_a_pool(state_dtype, tokens):
    x = _delta_inputs(3, tokens, 4)
    pool = torch.randn(5, 4, 128, 128, device="cuda").mul_(0.1).to(state_dtype)
    before = pool.clone()
    slots = torch.tensor([4, -1, 0], dtype=torch.int32, device="cuda")
    o = tilegate.gated_delta_rule_decode_pretranspose(
        state_pool=pool, state_indices=slots, backend="cuda", **x)
    assert o.device == pool.device and (o[1] == 0).all()
    assert torch.equal(pool[1:4], before[1:4])
    for row, slot in ((0, 4), (2, 0)):
        want, state = _delta_answer(x, row, before[slot])
        assert_near(o[row], want, 1e-2)
        assert_near(pool[slot], state, 2e-2 if state_dtype == torch.bfloat16 else 1e-4)


def test_delta_decode_with_keys_first():
    x = _delta_inputs(2, 1, 4)
    state = torch.randn(2, 4, 128, 128, device="cuda").mul_(0.1)
    before = state.clone()
    o, after = tilegate.gated_delta_rule_decode(state=state, **x)
    assert torch.equal(state, before)
    for row in range(2):
        want, new = _delta_answer(x, row, before[row].transpose(-1, -2))
        assert_near(o[row], want, 1e-2)
        assert_near(after[row].transpose(-1, -2), new, 1e-4)


def test_kda_step():
    x = _delta_inputs(2, 1, 4)
    g = -torch.rand(2, 1, 4, 128, device="cuda")
    beta = torch.rand(2, 1, 4, device="cuda")
    state = torch.randn(2, 4, 128, 128, device="cuda").mul_(0.1)
    o, after = tilegate.recurrent_kda(
        x["q"], x["k"], x["v"], g, beta, initial_state=state, output_final_state=True,
        use_qk_l2norm_in_kernel=True, backend="cuda")
    assert after.device == state.device
    for row in range(2):
        q, k, v, alpha, b = (y[row].double().cpu().numpy()
                             for y in (x["q"], x["k"], x["v"], g.exp(), beta))
        want, new = oracle.delta_rule(q, k, v, alpha, b, state[row].double().cpu().numpy(),
                                      l2norm=True)
        assert_near(o[row], want, 1e-2)
        assert_near(after[row], new, 1e-4)


def test_verify_then_commit_is_the_accepted_steps():
    tokens, accepted = 4, 3
    x = _delta_inputs(1, tokens, 4)
    start = torch.randn(1, 4, 128, 128, device="cuda").mul_(0.1)
    slot = torch.zeros(1, dtype=torch.int32, device="cuda")
    records = dict(record_k=torch.zeros(1, tokens, 4, 128, device="cuda"),
                   record_d=torch.zeros(1, tokens, 4, 128, device="cuda"),
                   record_decay=torch.zeros(1, tokens, 4, device="cuda"))
    pool = start.clone()
    tilegate.gated_delta_rule_decode_pretranspose(
        state_pool=pool, state_indices=slot, disable_state_update=True, **records, **x)
    assert torch.equal(pool, start)
    tilegate.commit(pool, slot, *records.values(),
                    torch.tensor([accepted], dtype=torch.int32, device="cuda"))
    first = {name: y[:, :accepted] if y.dim() > 1 else y for name, y in x.items()}
    assert_near(pool[0], _delta_answer(first, 0, start[0])[1], 1e-4)


def _sdpa(q, k, v, causal):
    """[B, S, H, D] through torch's attention in float32; causal is bottom-right aligned."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    mask = None
    if causal:
        rows, keys = q.shape[2], k.shape[2]
        mask = torch.ones(rows, keys, dtype=torch.bool, device="cuda").tril(keys - rows)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_dense_prefill_through_cudnn(cudnn, causal, dtype):
    q = torch.randn(2, 96, 8, 128, device="cuda").to(dtype)
    k, v = (torch.randn(2, 160, 2, 128, device="cuda").to(dtype) for _ in range(2))
    o, lse = tilegate.batch_prefill_ragged(q, k, v, causal=causal, return_lse=True,
                                           backend="cudnn")
    assert o.device == q.device and lse.shape == (2 * 96, 8)
    want = _sdpa(q, k, v, causal)
    assert_near(o, want.double().cpu().numpy(), TOLERANCE[dtype])


def test_ragged_and_paged_prefill_through_cudnn(cudnn):
    lens, heads = [20, 64], (4, 2)
    q = torch.randn(sum(lens), heads[0], 128, device="cuda").half()
    k, v = (torch.randn(sum(lens), heads[1], 128, device="cuda").half() for _ in range(2))
    indptr = torch.tensor([0, 20, 84], dtype=torch.int32, device="cuda")
    o = tilegate.batch_prefill_ragged(q, k, v, indptr, indptr, causal=True, max_qo_len=64,
                                      max_kv_len=64)
    pages = [-(-n // PAGE) for n in lens]
    caches = torch.zeros(2, sum(pages), PAGE, heads[1], 128, device="cuda").half()
    table = torch.zeros(2, max(pages), dtype=torch.int32, device="cuda")
    for i, n in enumerate(lens):
        own = slice(sum(pages[:i]), sum(pages[:i + 1]))
        table[i, :pages[i]] = torch.arange(own.start, own.stop)
        for cache, x in zip(caches, (k, v), strict=True):
            cache[own].view(-1, heads[1], 128)[:n] = x[indptr[i]:indptr[i] + n]
    paged = tilegate.batch_prefill_paged(
        q, caches[0], caches[1], qo_indptr=indptr, block_tables=table,
        kv_lens=torch.tensor(lens, dtype=torch.int32, device="cuda"), causal=True, max_qo_len=64,
        max_kv_len=64)
    for i in range(2):
        own = slice(*indptr[i:i + 2].tolist())
        want = _sdpa(*(x[None, own] for x in (q, k, v)), True)[0].double().cpu().numpy()
        assert_near(o[own], want, TOLERANCE[q.dtype])
        assert_near(paged[own], want, TOLERANCE[q.dtype])


def test_views_give_the_bits_of_copies():
    case = DecodeCase()
    set_values(case.lens, [5, 64, 100])
    want = case()
    packed = torch.empty(3, case.heads + 4, case.head_dim, dtype=case.dtype, device="cuda")
    packed[:, :case.heads] = case.q
    pool = torch.stack([case.k, case.v], 1)
    args = case.arguments() | dict(q=packed[:, :case.heads], k_cache=None, v_cache=None)
    assert torch.equal(tilegate.batch_decode_paged(**args, kv_cache=pool), want)
    args = case.arguments() | dict(k_cache=pool[:, 0], v_cache=pool[:, 1])
    assert torch.equal(tilegate.batch_decode_paged(**args), want)
    wide = torch.zeros(3, 2, dtype=torch.int64, device="cuda")
    wide[:, 1] = case.lens
    args = case.arguments() | dict(kv_lens=wide[:, 1], block_tables=case.tables.long())
    assert torch.equal(tilegate.batch_decode_paged(**args), want)


def test_gradients_are_not_in_the_way():
    case = DecodeCase()
    set_values(case.lens, [1, 2, 3])
    want = case()
    case.q.requires_grad_()
    got = case()
    assert torch.equal(got, want) and not got.requires_grad
