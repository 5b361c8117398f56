# SPDX-License-Identifier: Apache-2.0
"""PyTorch's scaled_dot_product_attention as a peer: its cuDNN and flash kernels on a GPU, its own
choice on the CPU; and a bf16 matrix product as a ceiling.

It knows dense tensors only, so decode runs on contiguous keys, which is less work than pages: those
entries are named so, say how they differ, and take part in no ratio.
"""

from peer_protocol import Declined, serve, version_of


class Peer:
    def __init__(self):
        import torch

        self.torch = torch
        self.versions = version_of("torch")
        self.versions["cuda"] = torch.version.cuda
        if torch.cuda.is_available():
            self.versions["cudnn"] = torch.backends.cudnn.version()
            self.versions["gpu"] = torch.cuda.get_device_name()

    def variants(self, shape):
        if shape["op"] not in ("prefill", "decode"):
            return [("sdpa", self._no_kernel)]
        dense = "-dense" if shape["op"] == "decode" else ""
        if not self.torch.cuda.is_available():
            return [("sdpa" + dense, lambda request: self._sdpa(request, None))]
        kinds = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}
        return [
            (name + dense, lambda request, kind=kind: self._sdpa(request, kind))
            for name, kind in kinds.items()
        ]

    @staticmethod
    def differs(name):
        return "dense keys" if name.endswith("-dense") else None

    @staticmethod
    def _no_kernel(request):
        raise Declined(f"PyTorch has no call for {request['shape']['op']}")

    def _sdpa(self, request, kind):
        from peer_tensors import dense_qkv
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        s = request["shape"]
        decode = s["op"] == "decode"
        if decode and s["query_length"] > 1:
            raise Declined("its causal mask is aligned to the top left")
        causal = s["causal"] and not decode
        if causal and s["query_length"] != s["kv_length"]:
            raise Declined("its causal mask is aligned to the top left")
        if request["device"] == "cpu":
            self.torch.set_num_threads(request["threads"])
        q, k, v = (x.transpose(1, 2) for x in dense_qkv(request))

        def call():
            return scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=s["num_heads"] != s["num_kv_heads"]
            )

        if kind is None:
            return self.torch.inference_mode()(call)
        backend = getattr(SDPBackend, kind)

        def call_with_backend():
            with self.torch.inference_mode(), sdpa_kernel(backend):
                return call()

        return call_with_backend

    def gemm(self):
        import peer_timing

        torch, n = self.torch, 8192
        if not torch.cuda.is_available():
            raise Declined("no GPU")
        a = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
        c = torch.empty(n, n, device="cuda", dtype=torch.bfloat16)
        request = {
            "warmups": 2,
            "repeats": 5,
            "seconds": 0,
            "device": "cuda",
            "scopes": [{"timing": "graph", "l2": "warm"}],
        }
        entry = next(iter(peer_timing.sample_scopes(lambda: torch.mm(a, b, out=c), request)))
        median = sorted(entry["samples_ms"])[2]
        return 2.0 * n**3 / median * 1e-9, "torch.mm 8192^3 bf16 on random data"


if __name__ == "__main__":
    serve(Peer)
