"""T.SparseTensorCoreIntrinEmitter, T.ptx_mma_sp and T.ptx_wgmma_sp_*, run by the emulator and on a device."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from tests.cuda.kernels import HEAD, lower_text
from tests.emulator.block import run
from tests.emulator.memory import poison
from tests.ops.test_gemm_sp import as_array
from tilelang import language as T
from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import Severity
from tilelang.jit.functions import JITFunction
from tilelang.utils.sparse import compress, random_sparse

PRODUCT = """
@tilelang.jit
def product(A, E, B, dtype="float16", accum="float32", meta="int16", ta=False, te=False, tb=True, bm=32,
            bn=32, bk=64, columns=2):
    M, N, half, codes, K = T.const("M, N, half, codes, K")
    A: T.Tensor((half, M) if ta else (M, half), dtype)
    E: T.Tensor((codes, M) if te else (M, codes), meta)
    B: T.Tensor((N, K) if tb else (K, N), dtype)
    C = T.empty((M, N), accum)
    e = T.SparseTensorCoreIntrinEmitter(
        a_dtype=dtype, e_dtype=meta, b_dtype=dtype, accum_dtype=accum, a_transposed=ta, b_transposed=tb,
        e_transposed=te, block_row_warps=2, block_col_warps=columns, warp_row_tiles=bm // 2,
        warp_col_tiles=bn // columns, warp_k=bk,
    )
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=e.threads) as (bx, by):
        a = T.alloc_shared((bk // 2, bm) if ta else (bm, bk // 2), dtype)
        s = T.alloc_shared((bk // e.e_factor, bm) if te else (bm, bk // e.e_factor), meta)
        b = T.alloc_shared((bn, bk) if tb else (bk, bn), dtype)
        a_local = T.alloc_local((e.warp_rows * e.local_size_a,), dtype)
        e_local = T.alloc_local((e.warp_rows * e.local_size_e,), meta)
        b_local = T.alloc_local((e.warp_cols * e.local_size_b,), dtype)
        c_local = T.alloc_local((e.warp_rows * e.warp_cols * e.local_size_out,), accum)
        T.annotate_layout({a: T.make_mma_swizzle_layout(a), b: T.make_mma_swizzle_layout(b)})
        T.clear(c_local)
        for ko in T.Pipelined(K // bk, num_stages=2):
            if ta:
                T.copy(A[ko * (bk // 2), by * bm], a)
            else:
                T.copy(A[by * bm, ko * (bk // 2)], a)
            if te:
                T.copy(E[ko * (bk // e.e_factor), by * bm], s)
            else:
                T.copy(E[by * bm, ko * (bk // e.e_factor)], s)
            if tb:
                T.copy(B[bx * bn, ko * bk], b)
            else:
                T.copy(B[ko * bk, bx * bn], b)
            for ki in T.serial(bk // e.micro_size_k):
                e.ldmatrix_a(a_local, a, ki)
                e.ldmatrix_e(e_local, s, ki)
                e.ldmatrix_b(b_local, b, ki)
                e.mma_sp(a_local, e_local, b_local, c_local, ki)
        e.stmatrix(c_local, C, pid_m=by, pid_n=bx)
    return C
"""
CASES = [
    {},
    {"ta": True, "tb": False, "meta": "uint8", "accum": "float16", "bn": 16},
    {"dtype": "bfloat16", "te": True},
    {"dtype": "int8", "accum": "int32", "meta": "int32", "bk": 128},
    {"dtype": "int8", "accum": "int32", "meta": "uint8", "tb": False, "bk": 64},
    {"dtype": "float32", "bk": 32, "ta": True, "tb": False},
]


DEFAULTS = {"dtype": "float16", "accum": "float32", "meta": "int16"}
needs_sm_90 = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs an sm_90 GPU"
)


def named(choice):
    return "-".join(f"{k}={v}" for k, v in choice.items()) or "plain"


def operands(dtype, meta, m, n, k, turns):
    element = getattr(torch, dtype)
    dense, b = random_sparse(m, k, dtype=element), random_sparse(n, k, dtype=element, seed=1)
    half, codes = compress(
        dense.t() if turns[0] else dense, transposed=turns[0], meta_dtype=getattr(torch, meta)
    )
    given = {"A": as_array(half), "E": as_array(codes.t() if turns[1] else codes)}
    return given | {"B": as_array(b if turns[2] else b.t())}, dense.double() @ b.double().t()


@pytest.mark.parametrize("choice", CASES, ids=named)
def test_a_product_step_by_step(choice):
    dtype, accum, meta = (choice.get(n, d) for n, d in DEFAULTS.items())
    turns = [choice.get(n, n == "tb") for n in ("ta", "te", "tb")]
    m, n, k = 64, 2 * choice.get("bn", 32), 2 * choice.get("bk", 64)
    given, want = operands(dtype, meta, m, n, k, turns)
    given["C"] = poison((m, n), accum)
    sizes = {"M": m, "N": n, "K": k, "half": k // 2, "codes": given["E"].shape[0 if turns[1] else 1]}
    shown = {key: repr(value) for key, value in choice.items()}
    run(lower_text(HEAD + PRODUCT, **sizes, **shown), given)
    tolerance = 0.05 if accum == "float16" else 0.01 if dtype == "float32" else 1e-4
    found = torch.from_numpy(given["C"].astype("float64"))
    torch.testing.assert_close(found, want, rtol=tolerance, atol=tolerance)


def test_emitters_refuse_what_does_not_go_together():
    with pytest.raises(ValueError, match="E of int32 does not go with an A of float16"):
        T.SparseTensorCoreIntrinEmitter(e_dtype="int32")
    with pytest.raises(ValueError, match="groups of 4 warps; 2 along M"):
        T.WGSparseTensorCoreIntrinEmitter(warp_row_tiles=16)
    assert T.WGSparseTensorCoreIntrinEmitter(block_row_warps=4, warp_row_tiles=16).wgmma_prefix == "m64n8k32"


SMALL = """
@tilelang.jit
def small(A, E, B, shape="m16n8k16", selector=0, k=16):
    A: T.Tensor((16, k // 2), "float16")
    E: T.Tensor((16, k // 16), "int16")
    B: T.Tensor((8, k), "float16")
    C = T.empty((16, 8), "float32")
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        a, b = T.alloc_local((k // 4,), "float16"), T.alloc_local((k // 4,), "float16")
        e, c = T.alloc_local((2,), "int16"), T.alloc_local((4,), "float32")
        T.clear(c)
        for i in T.unroll(k // 4):
            a[i] = A[tx // 4 + i // 2 % 2 * 8, tx % 4 * 2 + i % 2 + i // 4 * 8]
            b[i] = B[tx // 4, tx % 4 * 2 + i % 2 + i // 2 * 8]
        lanes = k // 16
        for i in T.unroll(2):
            e[i] = T.if_then_else(
                tx % 4 // lanes == selector, E[tx // 4 + i * 8, tx % lanes], T.cast(0x4444, "int16")
            )
        T.ptx_mma_sp("float32", shape, "row", "col", "fp16", "fp16", "fp32",
                     a.data, 0, b.data, 0, c.data, 0, e.data, 0, selector, False)
        for i in T.unroll(4):
            C[tx // 4 + i // 2 * 8, tx % 4 * 2 + i % 2] = c[i]
    return C
"""


@pytest.mark.parametrize(("k", "selector"), [(16, 0), (16, 3), (32, 0), (32, 1)])
def test_the_selector_chooses_lanes(k, selector):
    given, want = operands("float16", "int16", 16, 8, k, (False, False, True))
    given["C"] = poison((16, 8), "float32")
    run(lower_text(HEAD + SMALL, shape=repr(f"m16n8k{k}"), selector=str(selector), k=str(k)), given)
    torch.testing.assert_close(torch.from_numpy(given["C"]).double(), want, rtol=1e-4, atol=1e-4)


REFUSED = {
    "m16n8k32": "`sparse_selector` of this shape is 0 or 1, not 2",
    "m16n8k64": "multiplies float16 by float16 into float32; there is m16n8k16, m16n8k32",
}


@pytest.mark.parametrize(("shape", "said"), REFUSED.items())
def test_refusals_help(shape, said):
    text = HEAD + SMALL.replace('"m16n8k16", selector=0, k=16', f'"{shape}", selector=2, k=32')
    errors = [
        p for p in check_source("k.py", text, "cuda:sm_80").all_problems() if p.severity is Severity.ERROR
    ]
    assert [said in p.message for p in errors] == [True], errors


BY_DESCRIPTORS = """
@tilelang.jit
def product(A, E, B, by_registers=False):
    A: T.Tensor((64, 32), "float16")
    E: T.Tensor((64, 4), "int16")
    B: T.Tensor((64, 64), "float16")
    C = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((64, 64), "float16")
        T.annotate_layout({a: T.make_half_bank_swizzled_layout(a), b: T.make_full_bank_swizzled_layout(b)})
        x, e = T.alloc_local((16,), "float16"), T.alloc_local((4,), "int16")
        c = T.alloc_local((32,), "float32")
        T.copy(A, a)
        T.copy(B, b)
        row = tx // 32 * 16 + tx % 32 // 4
        for i in T.unroll(4):
            e[i] = E[row + i % 2 * 8, i // 2 * 2 + tx % 2]
        for i in T.unroll(16):
            x[i] = A[row + i // 2 % 2 * 8, tx % 4 * 2 + i % 2 + i // 4 * 8]
        left, right = T.alloc_wgmma_desc(), T.alloc_wgmma_desc()
        T.initialize_wgmma_descriptor(left, T.access_ptr(a[0, 0], "r"), 2, 1, 32)
        T.initialize_wgmma_descriptor(right, T.access_ptr(b[0, 0], "r"), 1, 1, 64)
        T.warpgroup_fence_operand(c, num_regs=32)
        T.warpgroup_arrive()
        for k in T.unroll(2):
            if by_registers:
                T.ptx_wgmma_sp_rs(
                    "float32", "m64n64k32", True, "fp16", "fp16", "fp32", x.data, k * 8, e.data, k * 2, 0,
                    right.data, k * 4, c.data, 0, k > 0, True, True,
                )
            else:
                T.ptx_wgmma_sp_ss(
                    "float32", "m64n64k32", True, True, "fp16", "fp16", "fp32", left.data, k * 2, e.data,
                    k * 2, 0, right.data, k * 4, c.data, 0, k > 0, True, True,
                )
        T.warpgroup_commit_batch()
        T.warpgroup_wait(0)
        T.warpgroup_fence_operand(c, num_regs=32)
        for i in T.unroll(32):
            C[row + i // 2 % 2 * 8, i // 4 * 8 + tx % 4 * 2 + i % 2] = c[i]
    return C
"""


@pytest.mark.parametrize("by_registers", [False, True])
def test_wgmma_by_descriptors(by_registers):
    given, want = operands("float16", "int16", 64, 64, 64, (False, False, True))
    given["C"] = poison((64, 64), "float32")
    lowered = lower_text(HEAD + BY_DESCRIPTORS, "cuda:sm_90", by_registers=str(by_registers))
    assert f"wgmma_sp_{'rs' if by_registers else 'ss'}_n64_f16xf16_f32_nn_pp_0(" in lowered.source.text
    run(lowered, given)
    torch.testing.assert_close(torch.from_numpy(given["C"]).double(), want, rtol=1e-4, atol=1e-4)


def on_device(tmp_path, text, given, **choice):
    """C of the kernel of a text, for operands as numpy arrays."""
    path = tmp_path / "kernels.py"
    path.write_text(HEAD + text)
    spec = importlib.util.spec_from_file_location("kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = next(k for k in vars(module).values() if isinstance(k, JITFunction))
    tensors = [torch.from_numpy(x).cuda() for x in given.values()]
    return kernel(*tensors, **choice).cpu().double()


@pytest.mark.gpu
@needs_sm_90
@pytest.mark.parametrize("choice", [c for c in CASES if c.get("dtype") != "bfloat16"], ids=named)
def test_step_by_step_on_a_device(choice, tmp_path):
    dtype, accum, meta = (choice.get(n, d) for n, d in DEFAULTS.items())
    turns = [choice.get(n, n == "tb") for n in ("ta", "te", "tb")]
    given, want = operands(dtype, meta, 64, 2 * choice.get("bn", 32), 2 * choice.get("bk", 64), turns)
    tolerance = 0.05 if accum == "float16" else 0.02 if dtype == "float32" else 1e-3
    found = on_device(tmp_path, PRODUCT, given, **choice)
    torch.testing.assert_close(found, want, rtol=tolerance, atol=tolerance)


@pytest.mark.gpu
@needs_sm_90
@pytest.mark.parametrize(("k", "selector"), [(16, 0), (16, 1), (16, 3), (32, 0), (32, 1)])
def test_selectors_on_a_device(k, selector, tmp_path):
    given, want = operands("float16", "int16", 16, 8, k, (False, False, True))
    found = on_device(tmp_path, SMALL, given, shape=f"m16n8k{k}", selector=selector, k=k)
    torch.testing.assert_close(found, want, rtol=1e-3, atol=1e-3)


@pytest.mark.gpu
@needs_sm_90
@pytest.mark.parametrize("by_registers", [False, True])
def test_descriptors_on_a_device(by_registers, tmp_path):
    given, want = operands("float16", "int16", 64, 64, 64, (False, False, True))
    found = on_device(tmp_path, BY_DESCRIPTORS, given, by_registers=by_registers)
    torch.testing.assert_close(found, want, rtol=1e-3, atol=1e-3)
