"""T.gemm_sp against a dense product, and tilelang.utils.sparse."""

from __future__ import annotations

import importlib.util
import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tvm import tirx as X

import tilelang
import tilelang.language as T
from tests.cuda.kernels import HEAD, lower_text
from tests.emulator.block import run
from tests.emulator.memory import numpy_dtype, poison
from tests.on_device import DEVICES, compiled_for
from tilelang.analysis.check import check_source
from tilelang.diagnostics.problem import Severity
from tilelang.jit.functions import JITFunction
from tilelang.language.metadata_layouts import metadata_place
from tilelang.layout import make_cutlass_metadata_layout
from tilelang.utils.sparse import compress, random_sparse


@tilelang.jit
def sparse(A, E, B, dtype, out, meta, codes, turned):
    M, N, K = 64, 64, 128
    A: T.Tensor((K // 2, M) if turned else (M, K // 2), dtype)
    E: T.Tensor((M, K // codes), meta)
    B: T.Tensor((N, K) if turned else (K, N), dtype)
    C = T.empty((M, N), out)
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=64) as (bx, by):
        a = T.alloc_shared((32, 32), dtype)
        e = T.alloc_shared((32, 64 // codes), meta)
        b = T.alloc_shared((32, 64) if turned else (64, 32), dtype)
        c = T.alloc_fragment((32, 32), out)
        T.clear(c)
        for k in T.Pipelined(K // 64, num_stages=2):
            if turned:
                T.copy(A[k * 32, by * 32], a)
                T.copy(B[bx * 32, k * 64], b)
            else:
                T.copy(A[by * 32, k * 32], a)
                T.copy(B[k * 64, bx * 32], b)
            T.copy(E[by * 32, k * (64 // codes)], e)
            T.gemm_sp(a, e, b, c, transpose_A=turned, transpose_B=turned)
        T.copy(c, C[by * 32, bx * 32])
    return C


KERNEL = inspect.getsource(sparse.function)

ORDERED = """
import tilelang
import tilelang.language as T
from tilelang.layout import make_cutlass_metadata_layout

@tilelang.jit
def ordered(A, E, B):
    A: T.Tensor((32, 64), "float16")
    E: T.Tensor((32, {columns}), "{meta}")
    B: T.Tensor((128, 32), "float16")
    C = T.empty((32, 32), "float32")
    with T.Kernel(1, threads=64):
        a = T.alloc_shared((32, 64), "float16")
        e = T.alloc_shared((32, {columns}), "{meta}")
        b = T.alloc_shared((128, 32), "float16")
        c = T.alloc_fragment((32, 32), "float32")
        T.annotate_layout({{e: make_cutlass_metadata_layout(e, mma_dtype="float16", {order})}})
        T.clear(c)
        T.copy(A, a)
        T.copy(E, e)
        T.copy(B, b)
        T.gemm_sp(a, e, b, c)
        T.copy(c, C)
    return C
"""

CASES = {
    "float16": (torch.float16, torch.int16, "float32", False),
    "turned": (torch.float16, torch.int32, "float32", True),
    "bytes": (torch.int8, torch.uint8, "int32", True),
    "float32": (torch.float32, torch.int16, "float32", False),
}


def operands(name: str):
    dtype, meta, out, turned = CASES[name]
    dense = random_sparse(64, 128, dtype=dtype)
    b = random_sparse(64, 128, dtype=dtype, seed=1)
    half, codes = compress(dense.t() if turned else dense, transposed=turned, meta_dtype=meta)
    group = (2 if dtype.itemsize == 4 else 4) * meta.itemsize * 2
    names = {torch.float16: "float16", torch.int8: "int8", torch.float32: "float32", torch.int16: "int16"}
    names |= {torch.int32: "int32", torch.uint8: "uint8"}
    choice = {"dtype": names[dtype], "meta": names[meta], "out": out, "codes": group, "turned": turned}
    wanted = dense.double() @ b.double().t()
    return half, codes, b if turned else b.t().contiguous(), choice, wanted


@pytest.mark.parametrize("name", CASES)
def test_emulated(name: str) -> None:
    half, codes, b, choice, wanted = operands(name)
    c = poison((64, 64), str(choice["out"]))
    quoted = {k: repr(v) for k, v in choice.items()}
    run(lower_text(KERNEL, **quoted), {"A": half.numpy(), "E": codes.numpy(), "B": b.numpy(), "C": c})
    tolerance = 2e-2 if name == "float32" else 2e-3  # TF32
    torch.testing.assert_close(torch.from_numpy(c).double(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_on_devices(device: str, name: str) -> None:
    half, codes, b, choice, wanted = operands(name)
    found = compiled_for(sparse, device)(*(t.to(device) for t in (half, codes, b)), **choice).cpu()
    tolerance = 2e-2 if name == "float32" and device != "cpu" else 2e-3
    torch.testing.assert_close(found.double(), wanted, rtol=tolerance, atol=tolerance)


FORMS = """
import tilelang
import tilelang.language as T

@tilelang.jit
def sparse(A, E, B, dtype, out, meta, codes, turns, tiles):
    M, N, K = 128, 128, 256
    bM, bN, bK = tiles
    ta, te, tb = turns
    A: T.Tensor((K // 2, M) if ta else (M, K // 2), dtype)
    E: T.Tensor((K // codes, M) if te else (M, K // codes), meta)
    B: T.Tensor((N, K) if tb else (K, N), dtype)
    C = T.empty((M, N), out)
    with T.Kernel(N // bN, M // bM, threads=2 * bM if bM > 32 else 128) as (bx, by):
        a = T.alloc_shared((bK // 2, bM) if ta else (bM, bK // 2), dtype)
        e = T.alloc_shared((bK // codes, bM) if te else (bM, bK // codes), meta)
        b = T.alloc_shared((bN, bK) if tb else (bK, bN), dtype)
        c = T.alloc_fragment((bM, bN), out)
        T.clear(c)
        for k in T.Pipelined(K // bK, num_stages=2):
            if ta:
                T.copy(A[k * (bK // 2), by * bM], a)
            else:
                T.copy(A[by * bM, k * (bK // 2)], a)
            if te:
                T.copy(E[k * (bK // codes), by * bM], e)
            else:
                T.copy(E[by * bM, k * (bK // codes)], e)
            if tb:
                T.copy(B[bx * bN, k * bK], b)
            else:
                T.copy(B[k * bK, bx * bN], b)
            T.gemm_sp(a, e, b, c, ta, te, tb)
        T.copy(c, C[by * bM, bx * bN])
    return C
"""

# target, instruction: dtype, result, E, turned (A, E, B), tile
INSTRUCTIONS = {
    ("sm_80", "mma_sp_m16n8k32_f16_f16"): ("float16", "float16", "int32", (1, 1, 1), (64, 64, 64)),
    ("sm_80", "mma_sp_m16n8k32_bf16_f32"): ("bfloat16", "float32", "uint8", (0, 1, 0), (32, 32, 64)),
    ("sm_80", "mma_sp_m16n8k16_tf32_f32"): ("float32", "float32", "uint8", (1, 0, 0), (64, 64, 64)),
    ("sm_80", "mma_sp_m16n8k64_s8_s32"): ("int8", "int32", "int64", (0, 0, 0), (64, 64, 64)),
    ("sm_80", "mma_sp_m16n8k64_u8_s32"): ("uint8", "int32", "int16", (1, 0, 1), (64, 64, 64)),
    ("sm_89", "mma_sp_m16n8k64_e4m3_f32"): ("float8_e4m3fn", "float32", "uint8", (0, 0, 0), (64, 64, 64)),
    ("sm_89", "mma_m16n8k32_e5m2_f16"): ("float8_e5m2", "float16", "int16", (0, 0, 1), (64, 64, 64)),
    ("sm_90", "mma_sp_m16n8k32_f16_f32"): ("float16", "float32", "int16", (0, 0, 0), (32, 32, 64)),
    ("sm_90", "wgmma_sp_1x64x64_2x32_f16_f32_ssnt"): ("float16", "float32", "int16", (0, 0, 0), (64, 64, 64)),
    ("sm_90", "wgmma_sp_1x64x64_1x32_f16_f16_ssnn"): ("float16", "float16", "uint8", (0, 0, 1), (64, 64, 32)),
    ("sm_90", "wgmma_sp_1x64x64_4x32_bf16_f32_sstt"): (
        "bfloat16",
        "float32",
        "int64",
        (1, 1, 0),
        (64, 64, 128),
    ),
    ("sm_90", "wgmma_sp_1x64x128_4x32_f16_f32_sstn"): (
        "float16",
        "float32",
        "int32",
        (1, 0, 1),
        (128, 128, 128),
    ),
    ("sm_90", "wgmma_sp_1x64x64_4x16_tf32_f32_ssnn"): (
        "float32",
        "float32",
        "int16",
        (0, 0, 1),
        (64, 64, 64),
    ),
    ("sm_90", "wgmma_sp_1x64x64_2x64_s8_s32_ssnn"): ("int8", "int32", "int32", (0, 1, 1), (64, 64, 128)),
    ("sm_90", "wgmma_sp_1x64x64_2x64_e5m2_f32_ssnn"): (
        "float8_e5m2",
        "float32",
        "int16",
        (0, 0, 1),
        (64, 64, 128),
    ),
}


@pytest.mark.parametrize(("target", "instruction"), INSTRUCTIONS)
def test_sparse_tensor_cores(target: str, instruction: str) -> None:
    dtype, out, meta, turns, tiles = INSTRUCTIONS[target, instruction]
    element, codes_dtype = getattr(torch, dtype), getattr(torch, meta)
    dense, b = random_sparse(128, 256, dtype=element), random_sparse(128, 256, dtype=element, seed=1)
    half, codes = compress(dense.t() if turns[0] else dense, transposed=turns[0] == 1, meta_dtype=codes_dtype)
    per = (2 if element.itemsize == 4 else 4) * codes_dtype.itemsize * 2
    choice = {"dtype": dtype, "out": out, "meta": meta, "codes": per, "turns": turns, "tiles": tiles}
    lowered = lower_text(FORMS, f"cuda:{target}", **{k: repr(v) for k, v in choice.items()})
    assert instruction in lowered.source.text
    given = {
        "A": as_array(half),
        "E": (codes.t().contiguous() if turns[1] else codes).numpy(),
        "B": as_array(b if turns[2] else b.t().contiguous()),
        "C": poison((128, 128), out),
    }
    run(lowered, given)
    tolerance = 4e-2 if out == "float16" or dtype == "float32" else 2e-3
    wanted = dense.double() @ b.double().t()
    torch.testing.assert_close(
        torch.from_numpy(given["C"].astype("float64")), wanted, rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_ends_inside_a_tile(target: str) -> None:
    """Beyond the end A and E are 0: no code of mma.sp, but of elements that are nothing."""
    text = (Path(__file__).parents[2] / "examples/gemm_variants/sparse_2_4.py").read_text()
    m, n, k = 100, 136, 192
    dense, b = random_sparse(m, k), torch.randn(k, n, generator=torch.Generator().manual_seed(3)).half()
    half, codes = compress(dense)
    c = poison((m, n), "float16")
    sizes = {"M": m, "N": n, "K": k, "half_K": k // 2, "codes_K": k // 16, "block_K": 128}
    lowered = lower_text(text, f"cuda:{target}", **sizes)
    assert ("wgmma_sp_" if target == "sm_90" else "mma_sp_") in lowered.source.text
    run(lowered, {"A": half.numpy(), "E": codes.numpy(), "B": b.numpy(), "C": c})
    wanted = dense.double() @ b.double()
    torch.testing.assert_close(torch.from_numpy(c).double(), wanted, rtol=4e-2, atol=4e-2)


# Two products on their way: the next one begins before the last one is waited for.
GOES_ON = """
import tilelang
import tilelang.language as T

@tilelang.jit
def going_on(A, E, B):
    M, N, K = 128, 128, 512
    A: T.Tensor((M, K // 2), "float16")
    E: T.Tensor((M, K // 16), "int16")
    B: T.Tensor((K, N), "float16")
    C = T.empty((M, N), "float32")
    with T.Kernel(1, threads=256):
        a = T.alloc_shared((2, M, 32), "float16")
        e = T.alloc_shared((2, M, 4), "int16")
        b = T.alloc_shared((2, 64, N), "float16")
        c = T.alloc_fragment((M, N), "float32")
        T.clear(c)
        for k in T.serial(K // 64):
            T.copy(A[0, k * 32], a[k % 2, :, :])
            T.copy(E[0, k * 4], e[k % 2, :, :])
            T.copy(B[k * 64, 0], b[k % 2, :, :])
            T.wgmma_gemm_sp(a[k % 2, :, :], e[k % 2, :, :], b[k % 2, :, :], c)
            T.wait_wgmma(1)
        T.wait_wgmma(0)
        T.copy(c, C)
    return C
"""


def test_products_on_their_way() -> None:
    dense, b = random_sparse(128, 512), random_sparse(128, 512, seed=1).t().contiguous()
    half, codes = compress(dense)
    lowered = lower_text(GOES_ON, "cuda:sm_90")
    assert "wgmma_sp_1x64x128_2x32_f16_f32_ssnt_async" in lowered.source.text
    c = poison((128, 128), "float32")
    run(lowered, {"A": half.numpy(), "E": codes.numpy(), "B": b.numpy(), "C": c})
    torch.testing.assert_close(
        torch.from_numpy(c).double(), dense.double() @ b.double(), rtol=1e-3, atol=1e-3
    )


IN_REGISTERS = """
import tilelang
import tilelang.language as T

@tilelang.jit
def held(A, E, B, dtype, out, both):
    A: T.Tensor((128, 32), dtype)
    E: T.Tensor((128, 4), "int16")
    B: T.Tensor((64, 64), dtype)
    C = T.empty((128, 64), out)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 32), dtype)
        e = T.alloc_shared((128, 4), "int16")
        b = T.alloc_shared((64, 64), dtype)
        left = T.alloc_fragment((128, 32), dtype)
        right = T.alloc_fragment((64, 64), dtype)
        c = T.alloc_fragment((128, 64), out)
        T.copy(A, a)
        T.copy(E, e)
        T.copy(B, b)
        T.copy(a, left)
        T.clear(c)
        if both:
            T.copy(b, right)
            T.gemm_sp(left, e, right, c, transpose_B=True)
        else:
            T.gemm_sp(left, e, b, c, transpose_B=True)
        T.copy(c, C)
    return C
"""
HELD = {
    ("sm_80", "mma_sp_m16n8k32_f16_f32"): ("float16", "float32", True),
    ("sm_80", "mma_sp_m16n8k64_s8_s32"): ("int8", "int32", False),
    ("sm_90", "wgmma_sp_2x64x64_2x32_f16_f32_rsnn"): ("float16", "float32", False),
    ("sm_89", "mma_m16n8k32_e4m3_f16"): ("float8_e4m3fn", "float16", False),
}


@pytest.mark.parametrize(("target", "instruction"), HELD)
def test_operands_in_registers(target: str, instruction: str) -> None:
    dtype, out, both = HELD[target, instruction]
    element = getattr(torch, dtype)
    dense, b = random_sparse(128, 64, dtype=element), random_sparse(64, 64, dtype=element, seed=1)
    half, codes = compress(dense)
    choice = {"dtype": repr(dtype), "out": repr(out), "both": str(both)}
    lowered = lower_text(IN_REGISTERS, f"cuda:{target}", **choice)
    assert instruction in lowered.source.text
    c = poison((128, 64), out)
    run(lowered, {"A": as_array(half), "E": codes.numpy(), "B": as_array(b), "C": c})
    wanted, tolerance = dense.double() @ b.double().t(), 4e-2 if out == "float16" else 2e-3
    torch.testing.assert_close(torch.from_numpy(c.astype("float64")), wanted, rtol=tolerance, atol=tolerance)


def as_array(tensor: torch.Tensor) -> np.ndarray:
    name = str(tensor.dtype).removeprefix("torch.")
    return tensor.contiguous().view(torch.uint8).numpy().view(numpy_dtype(name))


def test_compress_keeps_everything() -> None:
    dense = random_sparse(8, 64)
    half, codes = compress(dense)
    assert half.shape == (8, 32) and codes.shape == (8, 4)
    back = torch.zeros_like(dense)
    for row in range(8):
        for group in range(16):
            code = int(codes[row, group // 4]) >> group % 4 * 4
            back[row, group * 4 + (code & 3)] = half[row, group * 2]
            back[row, group * 4 + (code >> 2 & 3)] = half[row, group * 2 + 1]
    assert torch.equal(back, dense)
    dense[2, 4:7] = 1
    with pytest.raises(ValueError, match="elements 4 to 7 of row 2 hold more than 2 numbers"):
        compress(dense)
    with pytest.raises(ValueError, match="K is 24, which is no multiple of 16"):
        compress(dense[:, :24])


REFUSED = {
    "T.gemm_sp(a, e, b, f)": "",
    "T.gemm_sp(A, e, b, f)": "must be a tile of two dimensions in shared memory or in a fragment; A is none",
    "T.gemm_sp(a, E, b, f)": "`E` must be a tile of two dimensions in shared memory; E is none",
    "T.gemm_sp(a, a, b, f)": "E as integers, not float16 with float16",
    "T.gemm_sp(a, wrong, b, f)": "wrong must be (32, 4) int16: 4 bits for each 4 of the 64 elements",
    "T.gemm_sp(a, e, 3, f)": "`B` must be a buffer or a part of one",
    "T.gemm_sp(a, e, narrow, f)": "narrow",
}


@pytest.mark.parametrize(("call", "said"), REFUSED.items())
def test_refusals_help(call: str, said: str) -> None:
    text = f"""{HEAD}
@tilelang.jit
def k(A, E, B, C):
    A: T.Tensor((32, 32), "float16")
    E: T.Tensor((32, 4), "int16")
    B: T.Tensor((64, 32), "float16")
    C: T.Tensor((32, 32), "float32")
    with T.Kernel(1, threads=64):
        a = T.alloc_shared((32, 32), "float16")
        e = T.alloc_shared((32, 4), "int16")
        wrong = T.alloc_shared((32, 8), "int16")
        b = T.alloc_shared((64, 32), "float16")
        narrow = T.alloc_shared((32, 32), "float16")
        f = T.alloc_fragment((32, 32), "float32")
        T.copy(A, a)
        T.copy(E, e)
        T.copy(B, b)
        T.clear(f)
        T.clear(wrong)
        T.clear(narrow)
        {call}
        T.copy(f, C)
"""
    problems = check_source("k.py", text, "cuda:sm_80").all_problems()
    errors = [p for p in problems if p.severity is Severity.ERROR]
    assert [said in p.message for p in errors] == [True] * bool(said), errors


ORDERS = {
    'arch="8.0"': (torch.int16, "8.0", None),
    'arch="9.0", block_k=128': (torch.uint8, "9.0", 128),
    "block_k=64": (torch.uint8, None, 64),
}


@pytest.mark.parametrize("order", ORDERS)
def test_metadata_in_the_orders_of_cutlass(order: str) -> None:
    half, codes = compress(random_sparse(32, 128, dtype=torch.float16), meta_dtype=ORDERS[order][0])
    b = torch.randn(128, 32, generator=torch.Generator().manual_seed(2)).half()
    meta = str(codes.dtype).removeprefix("torch.")
    text = ORDERED.format(columns=codes.shape[1], meta=meta, order=order)
    annotation = next(line for line in text.splitlines() if "annotate_layout" in line)
    found = []
    for one in (text, text.replace(annotation, "")):
        c = poison((32, 32), "float32")
        run(lower_text(one), {"A": half.numpy(), "E": codes.numpy(), "B": b.numpy(), "C": c})
        found.append(torch.from_numpy(c))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("order", ORDERS)
def test_a_tensor_of_metadata_in_the_order_of_cutlass(order: str) -> None:
    """The tensor itself lies so, as CUTLASS's compressor leaves it: what is read is where the layout says."""
    dense, b = random_sparse(32, 128), torch.randn(128, 32, generator=torch.Generator().manual_seed(2)).half()
    half, codes = compress(dense, meta_dtype=ORDERS[order][0])
    meta = str(codes.dtype).removeprefix("torch.")
    text = ORDERED.format(columns=codes.shape[1], meta=meta, order=order)
    annotated = f'E: make_cutlass_metadata_layout(E, mma_dtype="float16", {order})'
    text = text.replace("T.annotate_layout({", "T.annotate_layout({" + annotated + ", ")
    place = metadata_place(codes.shape, codes.itemsize * 8, "float16", *ORDERS[order][1:])
    ordered = torch.zeros_like(codes).flatten()
    for i in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            at = [int(n) for n in place(i, j)]
            ordered[at[-1] if len(at) == 1 else at[0] * codes.shape[1] + at[1]] = codes[i, j]
    for target in ("cuda:sm_80", "cuda:sm_90"):
        c = poison((32, 32), "float32")
        given = {"A": half.numpy(), "E": ordered.reshape(codes.shape).numpy(), "B": b.numpy(), "C": c}
        run(lower_text(text, target), given)
        torch.testing.assert_close(
            torch.from_numpy(c).double(), dense.double() @ b.double(), rtol=1e-3, atol=1e-3
        )


def test_orders_of_metadata_as_objects() -> None:
    layout = make_cutlass_metadata_layout(X.decl_buffer((64, 8), "int16"), arch="8.0")
    places = {tuple(map(int, layout.map_forward_index([i, j]))) for i in range(64) for j in range(8)}
    assert len(places) == 64 * 8
    assert [int(n) for n in layout.map_forward_index([9, 1])] == [2 * 5 // 8, 2 * 5 % 8 + 1]
    with pytest.raises(ValueError, match="metadata of int8 operands has 32 bits, not 16"):
        make_cutlass_metadata_layout(X.decl_buffer((64, 8), "int16"), "int8", arch="8.0")


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs an sm_90 GPU"
)
@pytest.mark.parametrize("wgmma", [True, False])
def test_ends_inside_a_tile_on_a_device(wgmma: bool) -> None:
    path = Path(__file__).parents[2] / "examples/gemm_variants/sparse_2_4.py"
    spec = importlib.util.spec_from_file_location("sparse_2_4", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = module.gemm_sparse
    options = replace(kernel.options, pass_configs={"tl.disable_wgmma": not wgmma})
    given = module.inputs(1000, 1032, 1120, "cuda")  # 1120 is no multiple of 128
    found = JITFunction(kernel.function, options)(*given, block_K=128, num_stages=2)
    torch.testing.assert_close(found, module.ref_program(*given), rtol=2e-3, atol=5e-2)
