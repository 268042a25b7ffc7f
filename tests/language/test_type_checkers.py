"""Type checkers and kernels: lazy kernels are clean, eager ones draw two documented reports and nothing else,
and what is called on a kernel is typed. Pyright (and so Pylance) in three modes, and mypy.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))

# The two settings that README.md documents, for each checker.
PYRIGHT_SETTINGS = {"reportInvalidTypeForm": "none", "reportRedeclaration": "none"}
MYPY_SETTINGS = ["valid-type", "no-redef"]

NAMES = """
import tilelang
import tilelang.language as T


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


tiles: int = T.ceildiv(1000, 128)
width: int = T.float16.bits
"""

EAGER = """
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
"""

# Clean in every checker and every mode without any setting.
ANNOTATED = """
from typing import Annotated

import torch

import tilelang
import tilelang.language as T

M = T.dynamic("M")


@tilelang.jit
def double(A: Annotated[torch.Tensor, T.Tensor((M, 128), T.float16)], threads: int = 128):
    B = T.empty((M, 128), T.float16)
    with T.Kernel(M, threads=threads) as bx:
        for i in T.Parallel(128):
            B[bx, i] = A[bx, i] * 2
    return B
"""

# What one calls on a kernel, and what a checker knows of it.
CALLS = (
    EAGER
    + """

@tilelang.jit(out_idx=[-1])
def lazy(n: int, dtype=T.float16):
    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype)):
        with T.Kernel(1, threads=128) as bx:
            T.copy(A, B)

    return main


compiled = matmul_relu.compile(M=1, N=1, K=1, block_M=64)
source: str = compiled.get_kernel_source()
latency: float = compiled.get_profiler().do_bench()
some: list[float] = compiled.get_profiler().do_bench(quantiles=[0.5, 0.9])
result = matmul_relu(1, 2, block_M=64)
kernel = lazy(128, dtype=T.float32)
reveal_type(lazy)
reveal_type(kernel)
reveal_type(result)
wrong = lazy(128, dtyp=T.float32)
absent = kernel.get_kernel_sauce()
"""
)

MISTAKES = """
import tilelang.language as T


def body(A: T.Tile):
    T.gemm(A, A)
    T.copy(A, A, prefer_instruction="tmaa")
    T.nonsense(A)
"""


def tool(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def pyright(folder: Path, mode: str, **settings: str) -> list[tuple[str, int, str, str]]:
    """(file, line, rule, message) of everything that pyright reports in a folder."""
    written = {"typeCheckingMode": mode, "extraPaths": [str(ROOT)], "pythonVersion": "3.10", **settings}
    (folder / "pyrightconfig.json").write_text(json.dumps(written), encoding="utf-8")
    command = [tool("pyright"), "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright cannot start: {done.stderr[-200:]}")
    return [
        (Path(d["file"]).stem, d["range"]["start"]["line"] + 1, d.get("rule", ""), d["message"])
        for d in json.loads(done.stdout)["generalDiagnostics"]
    ]


def mypy(folder: Path, disable: list[str]) -> list[tuple[str, int, str, str]]:
    """The same from mypy. The packages beside ours are not read: they would take minutes."""
    skipped = "".join(
        f"[mypy-{name}.*]\nfollow_imports = skip\nignore_missing_imports = True\n"
        for name in ("tvm", "torch", "numpy")
    )
    codes = f"disable_error_code = {', '.join(disable)}\n" if disable else ""
    (folder / "mypy.ini").write_text(f"[mypy]\nfollow_imports = silent\n{codes}{skipped}", encoding="utf-8")
    done = subprocess.run(
        [
            tool("mypy"),
            "--no-error-summary",
            "--hide-error-context",
            "--cache-dir",
            folder.parent / "mypy_cache",
            ".",
        ],
        cwd=folder,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    lines = re.findall(
        r"^(\S+)\.py:(\d+): (?:error: (.*?)  \[([\w-]+)\]|note: (Revealed.*))$", done.stdout, re.MULTILINE
    )
    return [(Path(file).name, int(line), rule, message or note) for file, line, message, rule, note in lines]


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    for path in EXAMPLES:
        copied = tmp_path / path.relative_to(ROOT / "examples")
        copied.parent.mkdir(exist_ok=True)
        shutil.copy(path, copied)
    return tmp_path


def is_eager(text: str) -> bool:
    """Whether a file has eager kernels: parameters annotated in the body."""
    return re.search(r"^ {4}\w+: T\.(Strided)?Tensor\(", text, re.MULTILINE) is not None


EAGER_EXAMPLES = {path.stem for path in EXAMPLES if is_eager(path.read_text(encoding="utf-8"))}


def test_there_are_examples_of_both_styles():
    assert EAGER_EXAMPLES and len(EAGER_EXAMPLES) < len(EXAMPLES)


@pytest.mark.parametrize("mode", ["off", "basic", "standard"])
def test_pyright_and_the_examples(examples: Path, mode: str):
    found = pyright(examples, mode)
    assert {rule for _, _, rule, _ in found} <= set(PYRIGHT_SETTINGS), found
    assert {file for file, *_ in found} <= EAGER_EXAMPLES, found
    assert pyright(examples, mode, **PYRIGHT_SETTINGS) == []


def test_mypy_and_the_examples(examples: Path):
    found = mypy(examples, [])
    assert found and {rule for _, _, rule, _ in found} <= set(MYPY_SETTINGS), found
    assert {file for file, *_ in found} <= EAGER_EXAMPLES, found
    assert mypy(examples, MYPY_SETTINGS) == []


def check(folder: Path, text: str, mode: str, **settings: str) -> list[tuple[int, str]]:
    """(line, rule and message) of everything that pyright reports on `text`."""
    (folder / "kernels.py").write_text(text, encoding="utf-8")
    return [(line, f"{rule}: {message}") for _, line, rule, message in pyright(folder, mode, **settings)]


@pytest.mark.parametrize("mode", ["off", "basic", "standard"])
@pytest.mark.parametrize("text", [NAMES, ANNOTATED], ids=["names", "annotated"])
def test_pyright_is_quiet_without_settings(tmp_path: Path, text: str, mode: str):
    assert check(tmp_path, text, mode) == []


def test_mypy_is_quiet_about_annotated_without_settings(tmp_path: Path):
    (tmp_path / "kernels.py").write_text(ANNOTATED, encoding="utf-8")
    assert mypy(tmp_path, []) == []


def test_wrong_calls_are_noticed(tmp_path: Path):
    assert [line for line, _ in check(tmp_path, MISTAKES, "standard")] == [6, 7, 8]


@pytest.mark.parametrize("checker", ["pyright", "mypy"])
def test_what_is_called_on_kernels_is_typed(tmp_path: Path, checker: str):
    (tmp_path / "kernels.py").write_text(CALLS, encoding="utf-8")
    found = (
        pyright(tmp_path, "standard", **PYRIGHT_SETTINGS)
        if checker == "pyright"
        else mypy(tmp_path, MYPY_SETTINGS)
    )
    lines = CALLS.split("\n")
    said = [(lines[line - 1], message) for _, line, _, message in found]
    revealed = {text: message for text, message in said if text.startswith("reveal_type")}
    wrong = [text for text, _ in said if not text.startswith("reveal_type")]
    assert wrong == (
        ["wrong = lazy(128, dtyp=T.float32)", "absent = kernel.get_kernel_sauce()"]
        if checker == "pyright"
        else []
    )
    assert len(revealed) == 3
    assert "JITFunction[" in revealed["reveal_type(lazy)"]
    if checker == "pyright":  # mypy infers nothing of functions without annotations
        assert '"JITKernel"' in revealed["reveal_type(kernel)"]
        assert "n: int, dtype: " in revealed["reveal_type(lazy)"]


def test_the_readme_documents_the_settings():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in (*PYRIGHT_SETTINGS, *MYPY_SETTINGS, "Annotated[torch.Tensor, T.Tensor("):
        assert name in readme, name


def test_the_package_is_marked_as_typed():
    assert (ROOT / "tilelang" / "py.typed").is_file() and (ROOT / "tilelang_lsp" / "py.typed").is_file()
