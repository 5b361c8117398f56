# SPDX-License-Identifier: Apache-2.0
"""FlashInfer as a peer, through its public Python calls: fa2, fa3 and cuDNN attention, gated delta
rule prefill and decode. Plans, workspace, offsets and tables are made before timing."""

from peer_protocol import Declined, serve, version_of

WORKSPACE_BYTES = 256 << 20


class Peer:
    def __init__(self):
        import flashinfer
        import torch

        if not torch.cuda.is_available():
            raise Declined("it needs an NVIDIA GPU")
        self.torch = torch
        self.flashinfer = flashinfer
        self.versions = version_of(
            "flashinfer-python", "torch", "nvidia-cudnn-frontend", "nvidia-cutlass-dsl"
        )
        self.versions["cudnn"] = torch.backends.cudnn.version()

    def variants(self, shape):
        named = {
            "prefill": [("fa2", self._ragged("fa2")), ("fa3", self._ragged("fa3")),
                        ("cudnn", self._cudnn_prefill)],
            "decode": [("fa2-tc", self._decode), ("cudnn", self._cudnn_decode)],
            "linear-prefill": [("gdn", self._gdn_prefill)],
            "linear-decode": [("gdn", self._gdn_decode)],
        }
        return named.get(shape["op"], [("paged", self._no_call)])

    @staticmethod
    def _no_call(request):
        raise Declined(f"{request['shape']['op']} is not compared with it")

    def _workspace(self, request):
        return self.torch.empty(WORKSPACE_BYTES, dtype=self.torch.uint8, device=request["device"])

    def _ragged(self, backend):
        def prepare(request):
            import peer_tensors as tensors

            s = request["shape"]
            q, k, v = (x.flatten(0, 1) for x in tensors.dense_qkv(request))
            wrapper = self.flashinfer.BatchPrefillWithRaggedKVCacheWrapper(
                self._workspace(request), "NHD", backend=backend
            )
            wrapper.plan(
                tensors.offsets(request, [s["query_length"]] * s["batch_size"]),
                tensors.offsets(request, [s["kv_length"]] * s["batch_size"]),
                s["num_heads"],
                s["num_kv_heads"],
                s["head_size"],
                causal=s["causal"],
                q_data_type=q.dtype,
                kv_data_type=q.dtype,
            )
            out = self.torch.empty_like(q)
            return lambda: wrapper.run(q, k, v, out=out)

        return prepare

    def _cudnn_prefill(self, request):
        import peer_tensors as tensors

        s = request["shape"]
        q, k, v = (x.flatten(0, 1) for x in tensors.dense_qkv(request))
        out, workspace = self.torch.empty_like(q), self._workspace(request)
        q_offsets = tensors.offsets(request, [s["query_length"]] * s["batch_size"])
        kv_offsets = tensors.offsets(request, [s["kv_length"]] * s["batch_size"])
        prefill = self.flashinfer.prefill.cudnn_batch_prefill_with_kv_cache
        return lambda: prefill(
            q,
            k,
            v,
            s["head_size"] ** -0.5,
            workspace,
            max_token_per_sequence=s["query_length"],
            max_sequence_kv=s["kv_length"],
            batch_offsets_q=q_offsets,
            batch_offsets_o=q_offsets,
            batch_offsets_k=kv_offsets,
            batch_offsets_v=kv_offsets,
            batch_offsets_units="tokens",
            causal=s["causal"],
            return_lse=False,
            is_cuda_graph_compatible=True,
            out=out,
        )

    def _decode(self, request):
        import peer_tensors as tensors

        s, torch = request["shape"], self.torch
        if s["query_length"] > 1:
            raise Declined("several rows a request are not compared with it")
        table = tensors.shuffled_pages(request)
        batch, each = table.shape
        dims = table.numel(), s["page_size"], s["num_kv_heads"], s["head_size"]
        cache = tensors.normal(request, *dims), tensors.normal(request, *dims)
        q = tensors.normal(request, batch, s["num_heads"], s["head_size"])
        last = torch.full((batch,), (s["kv_length"] - 1) % s["page_size"] + 1, dtype=torch.int32)
        wrapper = self.flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            self._workspace(request), "NHD", use_tensor_cores=True, backend="fa2"
        )
        wrapper.plan(
            tensors.offsets(request, [each] * batch),
            table.flatten(),
            last.to(request["device"]),
            s["num_heads"],
            s["num_kv_heads"],
            s["head_size"],
            s["page_size"],
            q_data_type=q.dtype,
            kv_data_type=q.dtype,
        )
        out = torch.empty_like(q)
        return lambda: wrapper.run(q, cache, out=out)

    def _cudnn_decode(self, request):
        import peer_tensors as tensors

        s, torch = request["shape"], self.torch
        table = tensors.shuffled_pages(request)
        batch = s["batch_size"]
        dims = table.numel(), s["num_kv_heads"], s["page_size"], s["head_size"]
        k, v = tensors.normal(request, *dims), tensors.normal(request, *dims)
        q = tensors.normal(request, batch * s["query_length"], s["num_heads"], s["head_size"])
        lens = torch.full((batch,), s["kv_length"], dtype=torch.int32, device=request["device"])
        out, workspace = torch.empty_like(q), self._workspace(request)
        decode = self.flashinfer.decode.cudnn_batch_decode_with_kv_cache
        return lambda: decode(
            q,
            k,
            v,
            s["head_size"] ** -0.5,
            workspace,
            max_sequence_kv=s["kv_length"],
            actual_seq_lens_kv=lens,
            block_tables=table,
            is_cuda_graph_compatible=True,
            q_len_per_req=s["query_length"],
            out=out,
        )

    def _gdn_prefill(self, request):
        import peer_tensors as tensors

        s, torch = request["shape"], self.torch
        if s["rule"] != "gdn":
            raise Declined(f"it has no Hopper kernel for {s['rule']}")
        q, k, v = tensors.delta_qkv(request)
        heads, tokens = tensors.state_heads(s), sum(s["lengths"])
        alpha = tensors.log_gates(request, tokens, heads).exp()
        beta = tensors.uniform(request, tokens, heads)
        ends = tensors.offsets(request, s["lengths"]).to(torch.int64)
        dim = s["head_size"]
        states = torch.empty(len(s["lengths"]), heads, dim, dim, device=request["device"],
                             dtype=tensors.dtype_of(s, "state_dtype"))
        out = torch.empty(tokens, heads, dim, device=request["device"], dtype=q.dtype)
        return lambda: self.flashinfer.chunk_gated_delta_rule(
            q, k, v, alpha, beta, None, None, True, ends, False, out, states
        )

    def _gdn_decode(self, request):
        import peer_tensors as tensors
        from flashinfer.gdn_decode import gated_delta_rule_decode_pretranspose

        s, torch = request["shape"], self.torch
        tokens, batch = s["query_length"], s["batch_size"]
        if s["rule"] != "gdn" or tokens > 1:
            raise Declined("only single steps of gdn are compared with it")
        heads, dim = tensors.state_heads(s), s["head_size"]
        q = tensors.normal(request, batch, 1, s["num_heads"], dim)
        k = tensors.normal(request, batch, 1, s["num_heads"], dim)
        v = tensors.normal(request, batch, 1, s["num_kv_heads"], dim)
        a, b = tensors.normal(request, batch, 1, heads), tensors.normal(request, batch, 1, heads)
        rate = tensors.kda_rate(request, heads)
        bias = torch.zeros(heads, device=request["device"])
        state_type = tensors.dtype_of(s, "state_dtype")
        state = tensors.normal(request, batch, heads, dim, dim, dtype=state_type) * dim**-0.5
        out = torch.empty(batch, 1, heads, dim, device=request["device"], dtype=q.dtype)
        slots = torch.arange(batch, dtype=torch.int32, device=request["device"])
        if state_type == torch.bfloat16:
            pool = {"state": None, "initial_state": state, "initial_state_indices": slots}
        else:
            pool = {"state": state}
        return lambda: gated_delta_rule_decode_pretranspose(
            q, k, v, A_log=rate, a=a, dt_bias=bias, b=b, output=out, use_qk_l2norm=True, **pool
        )


if __name__ == "__main__":
    serve(Peer)
