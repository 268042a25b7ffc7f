"""Pyright, and with it Pylance, is quiet about kernels: in Pylance's default mode and in the standard one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

KERNELS = """
import tilelang
import tilelang.language as T


@tilelang.jit
def matmul_relu(A, B, block_M: int = 128, block_N: int = 128, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local, policy=T.GemmWarpPolicy.FullRow, clear_accum=k == 0)
        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] = T.max(C_local[i, j], 0)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


def factory(n: int, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((n, n), dtype), scale: T.float32, B: T.Tensor((n,), dtype)):
        with T.Kernel(n, threads=128) as bx:
            row = T.alloc_fragment((n,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(A[bx, 0], row)
            T.reduce_sum(row, total, dim=0)
            B[bx] = total[0] * scale / 2

    return main


# Names of the kernel body outside a decorator that hides it: the types themselves must fit.
def body(A: T.Tile, n: int):
    with T.Kernel(T.ceildiv(n, 128), 4, 2, threads=(128, 1)) as (bx, by, bz):
        count = T.alloc_var(T.int32, init=0)
        tile = T.alloc_shared((n, 128), T.float16)
        tile[0, bx] = T.float16(by) + 1.0
        for i in T.serial(n - bx):
            if i % 2 == 0 and bz < i:
                count = count + i
        for i in T.Parallel(128):
            tile[0, i] = T.if_then_else(i < bx, -tile[0, i] ** 2, T.cast(i // 2, T.float16))
        for i, j, k in T.Parallel(2, 3, 4):
            tile[i * 2 + j, k] = T.exp2(tile[i, j]) / (1 + i)
        T.copy(tile[:, 0:64], A[bx * 128, by], coalesced_width=8)
    with T.Kernel(n) as (single,):
        T.fill(A[single, :], T.infinity("float32"))


result = matmul_relu(1, 2)
tiles: int = T.ceildiv(1000, 128)
width: int = T.float16.bits
"""

MISTAKES = """
import tilelang.language as T


def body(A: T.Tile):
    T.gemm(A, A)
    T.copy(A, A, prefer_instruction="tmaa")
    T.nonsense(A)
"""


def check(folder: Path, text: str, mode: str) -> list[tuple[int, str]]:
    """(line, rule) of everything that pyright reports on `text`."""
    (folder / "kernels.py").write_text(text, encoding="utf-8")
    settings = {"typeCheckingMode": mode, "extraPaths": [str(ROOT)], "pythonVersion": "3.10"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent))
    if pyright is None:
        pytest.skip("pyright is not installed")
    done = subprocess.run(
        [pyright, "--outputjson", "-p", str(folder)], capture_output=True, text=True, check=False
    )
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright cannot start: {done.stderr[-200:]}")
    return [
        (d["range"]["start"]["line"] + 1, f"{d.get('rule')}: {d['message']}")
        for d in json.loads(done.stdout)["generalDiagnostics"]
    ]


@pytest.mark.parametrize("mode", ["off", "standard"])
def test_quiet_about_kernels(tmp_path: Path, mode: str):
    assert check(tmp_path, KERNELS, mode) == []


def test_wrong_calls_are_noticed(tmp_path: Path):
    assert [line for line, _ in check(tmp_path, MISTAKES, "standard")] == [6, 7, 8]
