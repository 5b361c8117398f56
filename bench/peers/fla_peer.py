# SPDX-License-Identifier: Apache-2.0
"""flash-linear-attention's Triton kernels as a peer: GDN and KDA in chunks, and single steps."""

from peer_protocol import Declined, serve, version_of


class Peer:
    def __init__(self):
        import fla
        import torch

        if not torch.cuda.is_available():
            raise Declined("it needs a GPU")
        self.torch = torch
        self.fla = fla
        self.versions = version_of("fla-core", "flash-linear-attention", "torch", "triton")

    def variants(self, shape):
        if shape["op"] == "linear-prefill":
            return [("chunk", self._chunk)]
        if shape["op"] == "linear-decode":
            return [("recurrent", self._recurrent)]
        return [("attention", self._no_call)]

    @staticmethod
    def _no_call(request):
        raise Declined(f"{request['shape']['op']} is not compared with it")

    def _inputs(self, request):
        """Arguments of either rule, [1, T, H, D] with cu_seqlens."""
        import peer_tensors as tensors

        s = request["shape"]
        if s["rule"] not in ("gdn", "kda"):
            raise Declined(f"{s['rule']} is not compared with it")
        q, k, v = (x.unsqueeze(0) for x in tensors.delta_qkv(request))
        heads, tokens, dim = tensors.state_heads(s), sum(s["lengths"]), s["head_size"]
        by_channel = (dim,) if s["rule"] == "kda" else ()
        inputs = {
            "q": q,
            "k": k,
            "v": v,
            "beta": tensors.uniform(request, 1, tokens, heads),
            "cu_seqlens": tensors.offsets(request, s["lengths"]).long(),
            "output_final_state": True,
            "state_v_first": True,
        }
        if not tensors.raw_gates(s):
            inputs["g"] = tensors.log_gates(request, 1, tokens, heads, *by_channel)
            return inputs
        inputs["g"] = tensors.normal(request, 1, tokens, heads, *by_channel)
        inputs["beta"] = tensors.normal(request, 1, tokens, heads)
        inputs["A_log"] = tensors.kda_rate(request, heads)
        inputs["dt_bias"] = self.torch.zeros(inputs["g"][0, 0].numel(), device=request["device"])
        inputs["use_gate_in_kernel"] = inputs["use_beta_sigmoid_in_kernel"] = True
        inputs["use_qk_l2norm_in_kernel"] = True
        if s["rule"] == "kda":
            inputs["lower_bound"] = tensors.KDA_LOWER_BOUND
        return inputs

    def _chunk(self, request):
        s, inputs = request["shape"], self._inputs(request)
        inputs["cu_seqlens_cpu"] = inputs["cu_seqlens"].cpu()
        if s["rule"] == "kda":
            from fla.ops.kda import chunk_kda as rule

            inputs["safe_gate"] = s["gates"] in ("random", "steep")
        else:
            from fla.ops.gated_delta_rule import chunk_gated_delta_rule as rule
        return self.torch.inference_mode()(lambda: rule(**inputs))

    def _recurrent(self, request):
        import peer_tensors as tensors

        s, inputs = request["shape"], self._inputs(request)
        heads, dim = tensors.state_heads(s), s["head_size"]
        inputs["initial_state"] = tensors.normal(
            request, s["batch_size"], heads, dim, dim, dtype=tensors.dtype_of(s, "state_dtype")
        )
        if s["rule"] == "kda":
            from fla.ops.kda import fused_recurrent_kda as rule
        else:
            from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule as rule
        return self.torch.inference_mode()(lambda: rule(**inputs))


if __name__ == "__main__":
    serve(Peer)
