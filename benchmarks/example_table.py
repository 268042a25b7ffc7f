"""What benchmarks/examples.py measures: every example at a real size, beside torch's own operation.

One entry per kernel. `work(module, device)` makes the inputs; on the device `meta` they have shapes and no
contents, which is enough to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
from torch.nn import functional as F

from benchmarks.works import attention, linear_attention, products, rows
from benchmarks.works.work import Work


@dataclass(frozen=True)
class Entry:
    """One example: where it is, at which size it runs."""

    module: str  # in examples/
    kernel: str
    size: str
    work: Callable[[ModuleType, str], Work]
    meta: bool = True  # whether its inputs can be made without contents

    @property
    def name(self) -> str:
        return f"{self.module}.{self.kernel}"


ENTRIES = (
    Entry("quickstart", "matmul_relu", "4096^3 f16", products.quickstart),
    Entry("gemm", "gemm", "4096^3 f16", products.gemm),
    Entry("gemm_dynamic_m", "gemm_any_m", "4096^3 f16", products.gemm_any_m),
    Entry("gemm_variants.split_k", "gemm_split_k", "128x4096x16384 f16", products.split_k),
    Entry("gemm_variants.stream_k", "gemm_stream_k", "1920x2048x8192 f16", products.stream_k),
    Entry("gemm_variants.persistent", "gemm_persistent", "4096^3 f16", products.persistent),
    Entry("gemm_variants.batched", "gemm_batched", "32x1024^3 bf16", products.batched),
    Entry("gemm_variants.transposed", "gemm_transposed", "NN 4096^3 f16", products.transposed(False, False)),
    Entry("gemm_variants.transposed", "gemm_transposed", "NT 4096^3 f16", products.transposed(False, True)),
    Entry("gemm_variants.transposed", "gemm_transposed", "TN 4096^3 f16", products.transposed(True, False)),
    Entry("gemm_variants.transposed", "gemm_transposed", "TT 4096^3 f16", products.transposed(True, True)),
    Entry("gemm_variants.fp8_channel_scaled", "gemm_fp8", "4096^3 e4m3", products.fp8_scaled),
    Entry(
        "gemm_variants.fp8_block_scaled", "gemm_fp8_block_scaled", "4096^3 e4m3", products.fp8_block_scaled
    ),
    Entry("gemm_variants.w8a8_epilogue", "linear_w8a8", "4096^3 int8", products.w8a8),
    Entry("gemm_variants.int4", "gemm_int4_int4", "4096^3 int4", products.int4),
    Entry("gemm_variants.int4_tensor_cores", "gemm_int4_mma", "4096^3 int4", products.int4),
    Entry("gemm_variants.grouped", "gemm_grouped", "8 groups 8192x4096x2048 bf16", products.grouped),
    Entry(
        "gemm_variants.block_sparse",
        "gemm_block_sparse",
        "4096^3, 1/4, f16",
        products.block_sparse,
        meta=False,
    ),
    Entry("gemm_variants.sparse_2_4", "gemm_sparse", "4096^3 f16", products.sparse_2_4),
    Entry("gemm_variants.dequantised_int4", "gemm_int4", "4096^3 f16 x int4", products.dequantised_int4),
    Entry("gemm_variants.dequantised_fp4", "gemm_fp4", "4096^3 f16 x fp4", products.dequantised_fp4),
    Entry(
        "gemm_variants.dequantised_mxfp4", "gemm_mxfp4", "64x8192^2 bf16 x mxfp4", products.dequantised_mxfp4
    ),
    Entry("gemv.gemv", "gemv", "16384x8192 f16", products.gemv),
    Entry("gemv.split_over_threads", "gemv_split", "16384x8192 f16", products.gemv),
    Entry("gemv.quantised_int4", "gemv_int4", "16384x8192 int4", products.gemv_int4),
    Entry("gemv.int8_dp4a", "gemv_int8", "16384x8192 int8", products.gemv_int8),
    Entry("convolution.conv2d", "conv2d", "32x56x56x128 to 256, 3x3", products.conv2d),
    Entry("moe.fused_moe", "expert_gemm", "4096 tokens, 6 of 64", products.fused_moe, meta=False),
    *(
        Entry("moe.gate_up_moe", name, "4096 tokens, 6 of 64", products.gate_up_moe(name), meta=False)
        for name in ("gate_up", "down")
    ),
    Entry("moe.top_k", "top_k", "8 of 65536x256 f32", rows.top_k),
    Entry("selection.radix_top_k", "top_k", "256 of 1024x65536 f32", rows.radix_top_k),
    Entry("rms_norm", "rms_norm", "8192x4096 f16", rows.rms_norm),
    Entry("norms.add_rms_norm", "add_rms_norm", "8192x4096 bf16", rows.add_rms_norm),
    Entry("norms.rms_norm_backward", "rms_norm_backward", "8192x4096 f16", rows.rms_norm_backward),
    Entry(
        "norms.layer_norm",
        "layer_norm",
        "8192x4096 f16",
        rows.reading((8192, 4096), "layer_norm", lambda x, w, b: F.layer_norm(x, (4096,), w, b)),
    ),
    Entry(
        "norms.group_norm",
        "group_norm",
        "16x512x64x64 f16",
        rows.reading((16, 512, 64, 64), "group_norm", lambda x, w, b: F.group_norm(x, 32, w, b)),
    ),
    Entry("softmax", "softmax", "8192x8192 f32", rows.softmax),
    Entry(
        "softmax_variants.in_registers",
        "softmax_in_registers",
        "8192x8192 bf16",
        rows.reading((8192, 8192), "torch.softmax", lambda x: torch.softmax(x, 1)),
    ),
    Entry(
        "softmax_variants.log_sum_exp",
        "log_sum_exp",
        "512x131072 f32",
        rows.reading((512, 131072), "torch.logsumexp", lambda x: torch.logsumexp(x, 1), 0),
    ),
    Entry("softmax_variants.cross_entropy", "cross_entropy", "4096x128256 bf16", rows.cross_entropy),
    Entry("vector_add", "add", "2^26 f32", rows.vector_add),
    Entry("vector_add", "add_lazy", "2^26 f32", rows.lazy_add(1 << 26)),
    Entry("dynamic_vector_add", "add_any", "2^26 f32", rows.lazy_add()),
    Entry("elementwise_2d", "silu_add", "8192x8192 f16", rows.silu_add),
    Entry(
        "elementwise.swiglu",
        "swiglu",
        "8192x14336 bf16",
        rows.reading((8192, 14336), "silu, mul", rows.swiglu_torch, 0.5),
    ),
    Entry(
        "elementwise.rotary_embedding",
        "rotary",
        "4x8192x32x128 bf16",
        rows.reading((4, 8192, 32, 128), "torch, op by op", rows.rotary_torch),
    ),
    Entry(
        "transposes.transpose",
        "transpose",
        "8192x8192 f16",
        rows.reading((8192, 8192), "contiguous", lambda x: x.T.contiguous()),
    ),
    Entry(
        "transposes.channels_last",
        "channels_last",
        "32x256x64x64 f16",
        rows.reading((32, 256, 64, 64), "contiguous", lambda x: x.permute(0, 2, 3, 1).contiguous()),
    ),
    Entry("transforms.hadamard", "hadamard", "16384x4096 f16", rows.hadamard),
    Entry("scans.cumsum", "cumsum", "8192x8192 f32", rows.cumsum),
    Entry("quantise.cast_fp8", "cast_fp8", "8192x8192 f16", rows.cast_fp8),
    Entry(
        "quantise.cast_per_token",
        "cast_int8_per_token",
        "8192x4096 f16",
        lambda m, device: rows.reading((8192, 4096), "torch, op by op", m.ref_program, 0.5)(m, device),
    ),
    Entry(
        "quantise.cast_per_block",
        "cast_fp8_per_block",
        "8192x8192 bf16",
        lambda m, device: rows.reading((8192, 8192), "torch, op by op", m.ref_program, 0.5)(m, device),
    ),
    Entry(
        "attention.flash_attention",
        "flash_attention",
        "4x4096, 32/8x128 causal f16",
        attention.flash_attention,
    ),
    Entry(
        "attention.flash_attention_bhsd",
        "flash_attention_bhsd",
        "4x4096, 32/8x128 causal bf16",
        attention.flash_attention_bhsd,
    ),
    Entry(
        "attention.flash_attention_varlen",
        "flash_attention_varlen",
        "5 sequences, 32x128 causal f16",
        attention.flash_attention_varlen,
    ),
    Entry(
        "attention.flash_attention_backward",
        "attention_backward",
        "4x4096, 16x64 causal f16",
        attention.flash_attention_backward,
    ),
    Entry(
        "attention.flash_attention_varlen_backward",
        "varlen_backward",
        "5 sequences, 32/8x128 causal bf16",
        attention.varlen_backward,
        meta=False,
    ),
    Entry(
        "attention.flash_attention_gqa_backward",
        "gqa_backward",
        "2x4096, 32/8x128 causal bf16",
        attention.gqa_backward,
    ),
    Entry(
        "attention.attention_sink", "attention_sink", "2x4096, 64/8x64 causal bf16", attention.attention_sink
    ),
    Entry(
        "attention.block_sparse_attention",
        "block_sparse_attention",
        "8192, 32x128, a quarter, f16",
        attention.block_sparse_attention,
    ),
    Entry("attention.flash_decoding", "flash_decoding", "32x8192, 32/8x128 f16", attention.flash_decoding),
    Entry("attention.mla_decode", "mla_decode", "32x4096, 128x(512+64) f16", attention.mla_decode),
    Entry(
        "attention.paged_decoding",
        "paged_decoding",
        "32x8192, 32/8x128 f16",
        attention.paged_decoding,
        meta=False,
    ),
    Entry(
        "attention.mla_decode_split",
        "mla_decode_split",
        "32x4096, 128x(512+64) bf16",
        attention.mla_decode_split,
        meta=False,
    ),
    Entry(
        "attention.native_sparse_attention",
        "native_sparse_attention",
        "8192, 64/4x128, 16 blocks, f16",
        attention.native_sparse_attention,
    ),
    Entry("attention.lightning_indexer", "indexer_scores", "8192, 32x128 e4m3", attention.indexer_scores),
    Entry("attention.sparse_mla", "sparse_mla", "1024, 128x(512+64), 2048 bf16", attention.sparse_mla),
    Entry(
        "linear_attention.linear_attention",
        "linear_attention",
        "8x8192, 16x128 bf16",
        linear_attention.linear_attention,
    ),
    Entry(
        "linear_attention.mamba2_chunk_state",
        "chunk_state",
        "8x4096, 80x64, 128 f16",
        linear_attention.chunk_state,
    ),
    Entry(
        "linear_attention.mamba2_chunk_scan",
        "chunk_scan",
        "8x4096, 80x64, 128 f16",
        linear_attention.chunk_scan,
    ),
    *(
        Entry(
            "linear_attention.gated_delta_rule",
            name,
            "8x4096, 16x128 bf16",
            linear_attention.delta_rule(name),
        )
        for name in ("wy_representation", "chunk_states", "chunk_outputs")
    ),
    *(
        Entry(
            "linear_attention.kimi_delta_attention",
            name,
            "4x4096, 16x128 bf16",
            linear_attention.channel_delta_rule(name),
        )
        for name in ("pair_products", "wy_representation", "chunk_states", "chunk_outputs")
    ),
    Entry(
        "linear_attention.chunked_retention",
        "retention",
        "8x4096, 16x128 f16",
        linear_attention.chunked_retention,
    ),
)
